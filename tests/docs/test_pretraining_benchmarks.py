"""The benchmarks of pre-training run small: every way gives its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(name: str, out: Path, *words: str) -> Any:
    """What a benchmark writes; it may miss its bars here."""
    command = [sys.executable, str(FOLDER / name), "--tiny", *words, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(out.read_text())


@pytest.mark.nightly
def test_the_benchmark_of_masked_training_compares_every_way(tmp_path: Path) -> None:
    found = run("mlm_throughput.py", tmp_path / "out.json", "--rounds", "2", "--updates", "4")
    rows = {(row["way"].split(",")[0], row["text"]): row for row in found["rows"]}
    assert len(rows) == 6
    shares = found["share_of_real_tokens"]
    for kind, share in shares.items():
        theirs, ours = rows["transformers BERT", kind], rows["splitstep lie", kind]
        tokens = [row["real_tokens_per_second"] / row["updates_per_second"] for row in (theirs, ours)]
        assert tokens[0] == pytest.approx(share * 4 * 64)
        assert tokens[1] > 0.85 * 4 * 64
    assert rows["splitstep lie", "mixture"]["bar"] == pytest.approx(0.9 * 1.25 / shares["mixture"])


@pytest.mark.nightly
def test_the_benchmark_of_preparation_makes_pairs(tmp_path: Path) -> None:
    words = ["--megabytes", "1", "--vocab-size", "4000", "--next-sentence", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, str(FOLDER / "prepare_text.py"), *words], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["next_sentence"]
    assert all(counts["pairs"] >= counts["rows"] > 0 for counts in found["splits"].values())

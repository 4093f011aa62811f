"""The benchmarks run small: every way gives its rows, and what fails is a row with the reason."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(name: str, out: Path, *words: str, result: str = "result.json") -> Any:
    """What a benchmark writes; it may miss its bars here."""
    home = {**os.environ, "SPLITSTEP_CACHE": str(out / "cache")}
    command = [sys.executable, str(FOLDER / name), *words, "--out", str(out / result if result == "out.json" else out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=home)
    assert done.returncode in (0, 1), done.stderr
    return json.loads((out / result).read_text())


@pytest.mark.nightly
def test_the_benchmark_of_masked_training_compares_every_way(tmp_path: Path) -> None:
    found = run("mlm_throughput.py", tmp_path, "--tiny", "--rounds", "2", "--updates", "4", result="out.json")
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
    found = run("prepare_text.py", tmp_path, "--megabytes", "1", "--vocab-size", "4000", "--next-sentence")
    assert found["next_sentence"]
    assert all(counts["pairs"] >= counts["rows"] > 0 for counts in found["splits"].values())


@pytest.mark.nightly
def test_the_benchmark_of_translators_runs_small(tmp_path: Path) -> None:
    result = run("translation.py", tmp_path, "--small")
    assert result["text"] == "made up"
    assert {one["scheme"] for one in result["updates"]} == {"lie", "macaron"}
    assert all(one["updates_per_second"] > 0 and one["shapes"] <= 5 for one in result["updates"])
    rows = {(row["part"], row["mode"], row["model"]): row for row in result["rates"]}
    for model in ("lie", "macaron", "Marian"):
        for part, mode in (("training", "eager"), ("decoding", "128 tokens")):
            assert rows[part, mode, model]["failed"] is None
            assert rows[part, mode, model]["ratio"] > 0
    ours, theirs = (rows["training", "eager", model]["parameters"] for model in ("lie", "Marian"))
    assert ours - theirs == 2 * 2 * 16  # the final norms of encoder and decoder
    if not torch.cuda.is_available():
        assert "needs one process with one CUDA device" in rows["training", "capture", "Marian"]["failed"]


def test_the_benchmark_of_inspections_has_costs_beside_floors_for_probes_and_a_layer_left_out(
    tmp_path: Path,
) -> None:
    found = run("inspect_cost.py", tmp_path, "--small", "--tokens", "12", "--turns", "1", result="out.json")
    names = {"trajectory", "cka_layers", "lens", "jacobian", "communities", "layer left out"}
    assert found["probes"].keys() >= names
    assert len(found["probes"]) == 14
    assert all(one["now"] >= 0 and one["floor"] >= 0 and one["floor_is"] for one in found["probes"].values())

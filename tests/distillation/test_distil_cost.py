"""The benchmark of a step's cost runs small: every method has its row, every ratio its bar."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "distil_cost.py"


@pytest.mark.nightly
def test_the_benchmark_compares_every_method(tmp_path: Path) -> None:
    words = ["--tiny", "--rows", "40", "--rounds", "2", "--updates", "4", "--out", str(tmp_path / "out.json")]
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    rows = {(row["pair"], row["method"]): row for row in found["rows"]}
    assert [method for _, method in rows] == ["ce", "skl", "skl + mta", "ce", "uld", "sra"]
    assert all(row["seconds"] > 0 and row["loop_seconds"] > 0 and row["batch_seconds"] > 0 for row in rows.values())
    ratios = {(one["ratio"], one["of"]): one for one in found["ratios"]}
    for pair, base, other in (("one tokenizer", "skl", "skl + mta"), ("two tokenizers", "ce", "sra")):
        flops = rows[pair, other]["tflops"] / rows[pair, base]["tflops"]
        assert ratios[f"{other} / {base}", "FLOPs"]["value"] == pytest.approx(flops)
        bar = 1.2 if pair == "one tokenizer" else 1.2 * flops
        assert ratios[f"{other} / {base}", "loop_seconds"]["bar"] == pytest.approx(bar)
        assert rows[pair, other]["waits"] == rows[pair, base]["waits"], "a term makes the host wait"
    assert rows["one tokenizer", "skl + mta"]["calls"] - rows["one tokenizer", "skl"]["calls"] < 160
    assert rows["two tokenizers", "sra"]["calls"] - rows["two tokenizers", "ce"]["calls"] < 220
    assert set(rows["one tokenizer", "skl + mta"]["spans"]) == {"words", "phrases"}
    assert "0 left out" in done.stdout

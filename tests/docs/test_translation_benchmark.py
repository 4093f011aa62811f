"""The benchmark of translators runs: each part gives its rows, and what fails is a row with the reason."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "translation.py"


@pytest.mark.nightly
def test_the_benchmark_of_translators_runs_small(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "--small", "--out", str(tmp_path / "out")]
    home = {**os.environ, "SPLITSTEP_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=home)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
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


def test_without_a_gpu_the_whole_benchmark_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--out", str(tmp_path / "out")])
    monkeypatch.syspath_prepend(SCRIPT.parent)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: benchmarks/translation.py needs a CUDA device, or --small.\n"

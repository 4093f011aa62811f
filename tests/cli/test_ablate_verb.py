"""The verb `ablate`: bad input is one line, and a killed study goes on where it was."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from children import Program
from commands import refusal
from inline import here

from splitstep import cli
from splitstep.experiments import running

SMALL = [
    "data.patch=4", "model.layers=1", "model.width=16", "model.heads=2", "model.ffn=32", "train.batch=8",
    "train.steps=24",
]  # fmt: skip


def test_a_directory_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text("task: digits\n")
    (tmp_path / "file").write_text("")
    other = tmp_path / "study" / "runs" / "full-lr0.002-seed2"  # it may be needed last, and nothing is trained before
    other.mkdir(parents=True)
    (other / "recipe.yaml").write_text("task: digits\ntrain: {steps: 7}\n")
    for out, says in (
        (tmp_path, "belongs to a single run"),
        (tmp_path / "file", "is not a directory"),
        (tmp_path / "study", "full-lr0.002-seed2 belongs to another run"),
    ):
        assert says in refusal(capsys, "ablate", "--task", "digits", "--out", out)


@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its process and its worker are killed; it continues in this process."""
    words = ["ablate", "--task", "digits", *SMALL, "--arms", "no-norm", "--seeds", "2", "--rates", "1e-3"]
    words += ["--engine", "local=1", "--json"]
    study = Program([*words, "--out", "killed"], tmp_path)
    ended = lambda: len(list(tmp_path.glob("killed/runs/*/result.json")))  # noqa: E731
    while not ended() and study.returncode is None:
        time.sleep(0.05)
    os.killpg(study.pid, signal.SIGKILL)
    study.communicate(timeout=60)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("killed/runs/*/result.json")}
    assert 1 <= len(kept) < 4
    assert not (tmp_path / "killed" / "result.json").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_engine", here)
    found = []
    for out in ("killed", "whole"):
        assert cli.main([*words, "--out", out]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    first, second = found
    assert first["arms"] == second["arms"]  # bit for bit those of a study that nobody killed
    assert first["replay"] == second["replay"]

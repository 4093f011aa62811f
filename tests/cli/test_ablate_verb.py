"""The verb `ablate`: bad input is one line, and a killed study goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from children import Program
from inline import here

from splitstep import cli
from splitstep.experiments import running

SMALL = ["data.patch=4", "model.layers=1", "model.width=16", "model.heads=2", "model.ffn=32", "train.batch=8"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--task", "digits", "--arms", "full,no-nrom"], 'there is no arm "no-nrom"; did you mean "no-norm"?'),
        (["--task", "digits", "--arms", "full,,no-norm"], "has an empty entry"),
        (["--task", "digits", "--rates", "0"], "--rates: 0 is not a learning rate"),
        (["--task", "digits", "--rates", "fast"], "--rates 'fast' is not a list of numbers"),
        (["--task", "digits", "--seeds", "0"], "--seeds 0: give at least 1"),
        (["--task", "digist"], "There is no recipe for a task 'digist'. Did you mean digits?"),
        (["digist"], "there is no recipe 'digist'"),
        (["train.steps=3"], "Missing recipe: name one, as in `splitstep ablate digits"),
        (["digits", "--task", "stdlib"], "is for digits: leave one of the two out"),
        (["--task", "digits", "scheme=A F @heun"], "the arm no-residual does not fit the recipe"),
        (["--task", "digits", "scheme=A N F M", "--arms", "post"], "the arm post does not fit the recipe"),
        (["--task", "digits", "model.norm=none"], "the arms full and no-norm are the same for this recipe"),
        (["--task", "digits", "ablate.arms={full: {}}"], "there is an arm full already"),
        (["--task", "digits", "--engine", "cluster"], "--engine cluster is unknown"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ablate", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_a_directory_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text("task: digits\n")
    (tmp_path / "file").write_text("")
    for out, says in ((tmp_path, "belongs to a single run"), (tmp_path / "file", "is not a directory")):
        assert cli.main(["ablate", "--task", "digits", "--out", str(out)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert says in line
    other = tmp_path / "study" / "runs" / "full-lr0.002-seed2"
    other.mkdir(parents=True)
    (other / "recipe.yaml").write_text("task: digits\ntrain: {steps: 7}\n")
    assert cli.main(["ablate", "--task", "digits", "--out", str(tmp_path / "study")]) == 2
    [line] = capsys.readouterr().err.splitlines()  # before anything is trained, though it may be needed last
    assert "full-lr0.002-seed2 belongs to another run" in line


@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its process and its worker are killed; it continues in this process."""
    words = ["ablate", "--task", "digits", *SMALL, "train.steps=40", "--arms", "no-norm", "--seeds", "3"]
    words += ["--rates", "1e-3,3e-3", "--engine", "local=1", "--json"]
    study = Program([*words, "--out", "killed"], tmp_path)
    ended = lambda: len(list(tmp_path.glob("killed/runs/*/result.json")))  # noqa: E731
    while ended() < 2 and study.returncode is None:
        time.sleep(0.05)
    os.killpg(study.pid, signal.SIGKILL)
    study.communicate(timeout=60)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("killed/runs/*/result.json")}
    assert 2 <= len(kept) < 6
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

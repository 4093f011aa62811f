"""An evaluation that takes a while shows how far it is; its figures are the same, and a short one shows nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from splitstep import cli
from splitstep.models import KINDS
from splitstep.tasks import task
from splitstep.training import evaluate, load_recipe

evaluation: Any = import_module("splitstep.training.evaluate")  # the package's attribute is the function
SIZE = 50


@pytest.fixture
def digits() -> tuple[Any, Any]:
    found = task("digits")
    return KINDS["image"].model(load_recipe("digits", ["model.layers=1", "model.ffn=64"]).config(found)), found


def test_all_batches_are_counted_and_the_figures_are_the_same(
    digits: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "PATIENCE", -1.0)
    seen = list[tuple[int, int]]()
    found = evaluate(*digits, "test", SIZE, torch.float32, None, lambda done, total: seen.append((done, total)))
    number = len(list(digits[1].batches("test", SIZE)))
    assert number > 3
    assert seen == [(done, number) for done in range(1, number + 1)]
    assert found == evaluate(*digits, "test", SIZE, torch.float32)


def test_a_short_evaluation_shows_and_counts_nothing(digits: tuple[Any, Any]) -> None:
    evaluate(*digits, "test", SIZE, torch.float32, None, lambda done, total: pytest.fail("it was quick"))


def test_the_verb_and_the_end_of_training_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation, "PATIENCE", -1.0)
    shrunk = ("train.steps=1", "model.layers=1", "train.evaluate_batch=100")
    assert cli.main(("train", "digits", *shrunk, "--out", "run")) == 0
    assert "test: evaluated 1/4 batches\n" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main(("evaluate", "run")) == 0
    shown = capsys.readouterr().err
    assert shown == "".join(f"\revaluated {n}/4 batches" for n in range(1, 5)) + "\n"

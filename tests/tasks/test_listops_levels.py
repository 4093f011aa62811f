"""Levels of ListOps: what predictors see, and that seeing more is knowing more."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splitstep.tasks.listops import VOCABULARY

FILE = Path(__file__).parents[2] / "benchmarks" / "listops_levels.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("listops_levels", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tokens(text: str) -> np.ndarray:
    return np.array([VOCABULARY.index(word) for word in text.split()])


@pytest.mark.parametrize(("text", "leading", "direct"), [
    ("[MAX 2 9 [MIN 4 7 ] 0 ]", [2, 9], [2, 9, 0]),
    ("[MED [MAX 1 [MIN 3 4 ] 5 ] 6 ]", [], [6]),
    ("[SM 1 2 3 ]", [1, 2, 3], [1, 2, 3]),
    ("[MIN [MIN 1 2 ] [MAX 3 4 ] ]", [], []),
])  # fmt: skip
def test_digits_are_found(script: Any, text: str, leading: list[int], direct: list[int]) -> None:
    assert script.leading(tokens(text)).tolist() == leading
    assert script.direct(tokens(text)).tolist() == direct


@pytest.mark.nightly
def test_seeing_more_is_knowing_more(script: Any) -> None:
    losses = [row["test_loss"] for row in script.levels("short")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 0.5

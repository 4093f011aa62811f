"""Hints are for misspellings: one wrong, missing or swapped letter, and not for words that only look a little alike."""

import pytest

from splitstep.support.typed import nearest
from splitstep.support.words import did_you_mean

WORDS = ("steps", "batch", "schedule", "compare", "report", "generate", "rk4", "lr")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("stpes", "steps"), ("step", "steps"), ("bacth", "batch"), ("generte", "generate"), ("rk3", "rk4"), ("lrr", "lr")],
)
def test_a_misspelt_word_is_answered_with_the_right_one_alone(wrong: str, right: str) -> None:
    assert did_you_mean(wrong, WORDS) == f"Did you mean {right}?"
    assert nearest(wrong, WORDS, "the words are ...") == f'; did you mean "{right}"?'


@pytest.mark.parametrize("other", ["prepare", "separate", "catalogue", "degree", "x"])
def test_another_word_is_answered_with_all(other: str) -> None:
    assert did_you_mean(other, WORDS).startswith("Known: steps, batch")
    assert nearest(other, WORDS, "the words are ...") == "; the words are ..."

"""What an interval says about a claim: the one rule of all studies, and claims with the figures behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ..support.words import counted
from .statistics import FEWEST, Estimate

Answer = Literal["supported", "not supported", "undecided"]
OPPOSITE: dict[Answer, Answer] = {"supported": "not supported", "not supported": "supported"}


class Rule(NamedTuple):
    """When a figure counts as above a level: a whole interval beyond it decides, and one that is within the margin on
    both sides says no. The level itself counts as above, as below or as neither."""

    level: float = 0.0
    margin: float = 0.0
    fewest: int = FEWEST  # values that the figure needs to be the mean of
    level_is: Literal["above", "below", "neither"] = "neither"


class Claim(NamedTuple):
    """What a rule says about one question, and the figures behind it."""

    question: str
    answer: Literal["supported", "not supported", "undecided", "helps", "hurts"]
    evidence: str


def decide(found: Estimate | None, rule: Rule) -> Answer:
    """Whether a figure is above the rule's level; one without an interval decides nothing."""
    if found is None or found.n < rule.fewest or found.low is None or found.high is None:
        return "undecided"
    if found.low > rule.level or (found.low == rule.level and rule.level_is == "above"):
        return "supported"
    below = found.high < rule.level or (found.high == rule.level and rule.level_is == "below")
    small = rule.level - rule.margin < found.low and found.high < rule.level + rule.margin
    return "not supported" if below or small else "undecided"


def opposite(answer: Answer) -> Answer:
    """The answer to the opposite question."""
    return OPPOSITE.get(answer, answer)


def all_of(answers: Iterable[Answer]) -> Answer:
    """The answer to several questions at once: each must be supported, and one that is not refutes all."""
    found = set(answers)
    return "not supported" if "not supported" in found else "undecided" if "undecided" in found else "supported"


class Form(NamedTuple):
    """How a figure is written, and its unit."""

    number: str
    unit: str


def evidence(what: str, found: Estimate | None, form: Form, fewest: int, missing: str) -> str:
    """A difference with its interval, and how many seeds it is of; `missing` is said if there is none."""
    if found is None:
        return missing
    seeds = counted(found.n, "seed") + (f"; the rule needs at least {fewest}" if found.n < fewest else "")
    mean = f"{what} is {form.number.format(found.mean)} {form.unit}"
    if found.low is None or found.high is None:
        return f"{mean} (no interval, {seeds})"
    return f"{mean} (95% interval {form.number.format(found.low)} to {form.number.format(found.high)}, {seeds})"

"""What the figures say about each term, by the rule that docs/results/distil.md states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...experiments.statistics import Estimate
from ...support.words import counted
from .result import BITS, ROUGE, Claim, Difference

FEWEST = 3  # pairs of runs with the same seed
MARGINS = {ROUGE: 0.2, BITS: 0.005}  # differences below these are of no account
FORMS = {ROUGE: "{:+.2f} points", BITS: "{:+.4f} bits per byte"}
BETTER = {ROUGE: "has a higher mean ROUGE-L than", BITS: "has fewer bits per byte than"}


def answer(found: Estimate | None, margin: float) -> Literal["supported", "not supported", "undecided"]:
    """Whether a difference that should be above 0 is."""
    if found is None or found.n < FEWEST or found.low is None or found.high is None:
        return "undecided"
    if found.low > 0:
        return "supported"
    return "not supported" if found.high < 0 or (-margin < found.low and found.high < margin) else "undecided"


def claims_of(differences: Sequence[Difference]) -> list[Claim]:
    """A claim for each difference; fewer bits are better, so there the rule is asked about minus the difference."""
    return [claim_of(one) for one in differences]


def claim_of(one: Difference) -> Claim:
    gain = one.found if one.what == ROUGE else turned(one.found)
    return Claim(
        f"{one.of} {BETTER[one.what]} {one.to}",
        answer(gain, MARGINS[one.what]),
        measured(f"{one.of} minus {one.to}", one.found, FORMS[one.what]),
    )


def turned(found: Estimate | None) -> Estimate | None:
    """The estimate of minus the value."""
    if found is None:
        return None
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return Estimate(-found.mean, low, high, found.n)


def measured(what: str, found: Estimate | None, form: str) -> str:
    """The difference with its interval, and how many seeds it is of."""
    if found is None:
        return "no seed has both figures"
    seeds = counted(found.n, "seed") + (f"; the rule needs at least {FEWEST}" if found.n < FEWEST else "")
    mean = f"{what} is {form.format(found.mean)}"
    if found.low is None or found.high is None:
        return f"{mean} (no interval, {seeds})"
    number = form.partition(" ")[0]
    return f"{mean} (95% interval {number.format(found.low)} to {number.format(found.high)}, {seeds})"

"""The precision of a comparison whose recipe leaves it open, where the processor multiplies in bfloat16 itself."""

from itertools import cycle
from statistics import fmean

from ...experiments.running import Workplace
from ...training.update import native_bfloat16
from .planning import Choice, Paces, Question, timed

FASTER = 1.2  # times as fast as in float32, from which on bfloat16 is taken


def with_precision(question: Question, paces: Paces, place: Workplace) -> Choice:
    """The precision that pays, for all arms alike: the first one is timed in both."""
    if not is_open(question, place):
        return Choice(question, paces)
    half = question._replace(recipe=question.recipe.changed({"train.precision": "bfloat16"}))
    first, *others = half.entrants(half.recipe)
    found = timed(half, [first], place)
    faster = fmean(one.step for one in paces[first.arm]) / fmean(one.step for one in found[first.arm])
    if faster < FASTER:
        return Choice(question, paces, faster)
    halves = zip(paces[first.arm], cycle(found[first.arm]), strict=False)
    own = {first.arm: [new._replace(figure=old.figure) for old, new in halves]}
    return Choice(half, {**own, **timed(half, others, place)}, faster)


def is_open(question: Question, place: Workplace) -> bool:
    """Whether the runs are on this machine, it has bfloat16, and no arm names a precision."""
    arms = question.entrants(question.recipe)
    return place.is_here and native_bfloat16() and all(one.recipe.train.precision == "auto" for one in arms)

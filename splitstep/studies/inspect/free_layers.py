"""Which layers are free, alone or together: what a sentence and the headline say of the layers that were left out.

A layer is free if its interval lies below the limit, and not free if it lies above it; else this is undecided.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...experiments.experiment import Rule
from ...experiments.statistics import FEWEST
from ...support.words import counted, listed
from .plan import OTHERS, TRIED
from .result import CutList, Figures, Inspection, ModelFindings
from .spelling import among, below, costs, first_few, layers, minus, over_texts, sentence, undecided, unit_of

FREE = Rule(0.1)  # nats for each prediction, or the same share of the output: the rule of the discretised flow
MORE = ("the package's own texts", "validation examples")  # how sources begin that have more texts
FIXED = ("Python", "random numbers")  # and those that have no more
ORDER = "so the order is not certain"


class Lacks(NamedTuple):
    """Why a rule fails; what is not measured may only not be measured yet."""

    why: str
    unmeasured: bool = False


def few(texts: int) -> Lacks:
    return Lacks(f"an interval needs {FEWEST} texts, and there are {texts}")


def layers_that_matter_least(result: Inspection) -> str | Lacks:
    """Which layers can go together, if that was tried; else what each costs alone."""
    if lists := [one for one in result.model.evidence.cuts if one.changes]:
        return together(result, min(lists, key=lambda one: one.how != "greedy"))
    return alone(result) if result.model.skipped else Lacks("no layer was left out", True)


def together(result: Inspection, cut: CutList) -> str | Lacks:
    """The list, its joint cost on texts that did not choose it, how much of it is free, and whether it is a tie."""
    model, many, last = result.model, len(cut.changes), over_texts(cut.changes[-1])
    if last is None or last.low is None:
        return few(0 if last is None else last.n)
    names, some = listed([*map(str, cut.layers[:many])]), among(model)
    noun, them = "" if some else " layers", "them" if many > 1 else "it"
    which = f"the {many}{noun} that matter least together are {names}" if many > 1 else f"layer {names} matters least"
    which = sentence(f"of {some}, {which}" if some else which)
    tied = f" Other layers cost about as much, {ORDER}." if any(k <= many for k in cut.ties) else ""
    cost = f"{costs(model, last)} that did not choose {them}"
    return f"{which}: without {them} {cost}.{tied} {free_part(result, cut)}"


def free_part(result: Inspection, cut: CutList) -> str:
    """The longest beginning of a list that costs so little that it counts as free; else whether none does."""
    model, many = result.model, len(cut.changes)
    free = max((k for k, one in enumerate(cut.changes, 1) if below(one, FREE)), default=0)
    if free == many:
        return f"That is free: the interval lies below {limit(model)}."
    if free:
        which = f"first {free} are" if free > 1 else "first one is"
        return f"The {which} free, below {limit(model)}: {interval_of(model, cut, free)}."
    none, its = ("None of these is", "every") if many > 1 else ("It is not", "the")
    open_at = next((k for k, one in enumerate(cut.changes, 1) if undecided(one, FREE)), 0)
    if not open_at:
        return f"{none} free: {its} interval lies above {limit(model)}."
    first = f"the first {open_at}" if open_at > 1 else f"layer {cut.layers[0]} alone"
    change = f"without {first} the change is {interval_of(model, cut, open_at)}, which" if many > 1 else "the interval"
    more = more_texts(result, len(cut.changes[0]), many)
    return f"{none} shown to be free: {change} contains the limit of {limit(model)}.{more}"


def interval_of(model: ModelFindings, cut: CutList, first: int) -> str:
    """What leaving out the first layers of a list changes."""
    found = over_texts(cut.changes[first - 1])
    return unit_of(model).change.interval(found) if found else "unknown"


def limit(model: ModelFindings) -> str:
    """Below what a cost counts as free."""
    word = unit_of(model).word
    return f"{FREE.level:g}{word}" if model.losses else f"{FREE.level:.0%}{word}"


def more_texts(result: Inspection, texts: int, cut: int = 0) -> str:
    """What to type for an interval over more than these texts, if there can be more."""
    if result.unfinished or result.source.startswith(FIXED) or (cut and texts >= OTHERS):
        return ""
    if result.source.startswith(MORE):
        return "" if cut else f" More texts can decide it: --cut 1 tries the cheapest on up to {OTHERS} others."
    return f" More texts can decide it: --cut {cut or 1} --text FILE, with {TRIED + OTHERS} texts in FILE."


def alone(result: Inspection) -> str | Lacks:
    """Whether layers are free when each is left out alone, the cheapest ones, and whether others cost as much."""
    model, ordered = result.model, sorted(result.model.skipped, key=lambda one: (one.mean, one.layer))
    least, cost = ordered[0], over_texts(ordered[0].changes)
    if cost is None or cost.low is None:
        return few(len(least.changes))
    apart = [over_texts(minus(one.changes, least.changes)) for one in ordered[1:]]
    ties = sum(found is None or not found.sign for found in apart)
    tied = f" {counted(ties, 'other layer')} cost{'s' * (ties == 1)} about as much, {ORDER}." if ties else ""
    after = [one.layer for one in ordered[1:3]]
    follow = f"; {layers(after)} follow{'s' * (len(after) == 1)}" if after else ""
    cheapest = f"The cheapest is layer {least.layer}: {costs(model, cost)}{follow}."
    free, open_still = outcomes(rows_tried(model))
    more = more_texts(result, cost.n) if open_still and not free else ""
    return f"Left out alone, {free_alone(model)}. {cheapest}{tied}{more}"


def free_alone(model: ModelFindings) -> str:
    """Which of the layers that were left out one at a time are free; if none is, whether that is sure."""
    tried, some = sorted(model.skipped), among(model)
    free = [str(one.layer) for one in tried if below(one.changes, FREE)]
    if free:
        which = f"{len(free)} of {some or counted(len(tried), 'layer')} ({first_few(free)})"
        are, lie = ("are", "their intervals lie") if len(free) > 1 else ("is", "its interval lies")
        return f"{which} {are} free: {lie} below {limit(model)}"
    none, (_, many) = f"none of {some}" if some else "no layer", outcomes(rows_tried(model))
    if not many:
        return f"{none} is free: every interval lies above {limit(model)}"
    contain = f"{counted(many, 'interval')} contain{'s' * (many == 1)} the limit of {limit(model)}"
    return f"{none} is shown to be free: {contain}, and none lies below it"


def in_words(model: ModelFindings) -> str:
    """Whether layers are free, for a headline: together, if that was tried, else one at a time."""
    free, open_still = outcomes(rows_tried(model))
    some = "some layers" if (free or open_still) > 1 else "one layer"
    if free:
        return f"{some} can be left out for free"
    none = "none of the layers tried" if among(model) else "no layer"
    return f"{some} may be free: more texts would tell" if open_still else f"{none} can be left out for free"


def rows_tried(model: ModelFindings) -> list[Figures]:
    """What leaving out layers costs: the beginnings of a list, else each layer alone."""
    lists = sorted((one for one in model.evidence.cuts if one.changes), key=lambda one: one.how != "greedy")
    return [*lists[0].changes] if lists else [one.changes for one in model.skipped]


def outcomes(rows: Sequence[Figures]) -> tuple[int, int]:
    """How many of these costs are free, and of how many that is undecided."""
    return sum(below(one, FREE) for one in rows), sum(undecided(one, FREE) for one in rows)

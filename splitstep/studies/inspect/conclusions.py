"""What to do with an inspection: plain sentences with figures. Thresholds are constants, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import stdev
from typing import NamedTuple

from ...support.words import counted, listed
from .result import Inspection, ModelFindings, Skipped

PARALLEL = 0.95  # cos(x_l, x_{l-1}): 1 - cos is the block influence of ShortGPT; below 0.05 a layer hardly turns tokens
SMALL = 0.5  # |x_l - x_{l-1}| / |x_{l-1}|: a longer step changes the stream by more than half
HARMLESS = 0.1  # nats for each prediction, or the same share of the output: the rule of docs/theory/inspection.md
GROWTH = 10.0  # the largest singular value of a layer's Jacobian: a perturbation grows tenfold in a single layer
COLLAPSE = 0.25  # effective rank of tokens, relative to the first state: three of four directions are gone
SINK = 0.3  # mean attention on the first token: the threshold of Gu et al. (2025), "When attention sink emerges"
OUTLIER = 0.1  # share of the squared norm in one coordinate: in a width of 100 or more, ten times an equal share
NAMED = 6  # layers that a sentence names


class Conclusion(NamedTuple):
    """What was looked for, by which rule, and what was found."""

    about: str
    rule: str
    text: str


class Peak(NamedTuple):
    """A series whose layers above a level are named."""

    about: str
    probe: str
    name: str
    level: float
    words: str
    rule: str


GROWING = [
    Peak(
        "Where perturbations blow up", probe, name, GROWTH, "Perturbations grow most in",
        f"the largest singular value of the layer's Jacobian {what} is above {GROWTH:g}",
    )
    for probe, name, what in (("leading", "s 1", "on a whole text"), ("jacobian", "J largest", "at a single token"))
]  # fmt: skip
SINKING = [
    Peak(
        "Attention sinks", "attention", "first token", SINK, "Sinks are in",
        f"the mean attention of later tokens on the first one is above {SINK:g}",
    )
]  # fmt: skip


def conclusions(result: Inspection) -> list[Conclusion]:
    """All that can be said from what was measured."""
    growing, sinking = (peaks(result, one) for one in (GROWING, SINKING))
    return [*redundant(result), *growing, *collapsing(result), *sinking, *outlying(result)]


def peaks(result: Inspection, either: Sequence[Peak]) -> Iterator[Conclusion]:
    """The layers above the level in the first of these that was measured, the highest first, or the highest figure."""
    for one in either:
        found = result.model.find(one.probe, one.name)
        if found is not None:
            ordered = sorted(found.pairs, key=lambda pair: -pair[1])
            shown = [f"{layer} ({value:.3g})" for layer, value in ordered if value > one.level]
            text = f"{one.words} layer{'s' * (len(shown) > 1)} {first_few(shown)}."
            none = f"None. The highest is layer {ordered[0][0]} with {ordered[0][1]:.3g}."
            yield Conclusion(one.about, one.rule, (text if shown else none) + beside(result, one.probe, one.name, max))
            return


def first_few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return listed([*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else names)


def beside(
    result: Inspection, probe: str, name: str, pick: Callable[[list[float]], float], form: str = "{:.3g}"
) -> str:
    """The same figure of the other model."""
    found = None if result.other is None else result.other.find(probe, name)
    if result.other is None or found is None:
        return ""
    values = [one for one in found.mean if math.isfinite(one)]
    which = "With random weights" if result.other.random else f"In {result.other.label}"
    side = {max: "highest", min: "lowest"}[pick]
    return f" {which} the {side} is {form.format(pick(values))}." if values else ""


def redundant(result: Inspection) -> Iterator[Conclusion]:
    """Layers that could be skipped or merged, with what skipping really costs."""
    cosine, size = result.model.find("drift", "previous"), result.model.find("sizes", "relative")
    if cosine is None or size is None:
        return
    both = zip(cosine.pairs, size.mean, strict=True)
    found = [(cost(result.model, layer), s, layer) for (layer, c), s in both if c > PARALLEL and s < SMALL]
    shown = [f"{layer} ({skip_text(result.model, layer, s)})" for _, s, layer in sorted(found)]
    which = "Candidates are the layers" if len(found) > 1 else "A candidate is layer"
    layer, least = min(size.pairs, key=lambda one: one[1])
    none = f"No layer moves the stream so little. The least is layer {layer}, by {least:.2f} of its length."
    rule = f"cos(x_l, x_l-1) > {PARALLEL:g} and |x_l - x_l-1| < {SMALL:g} |x_l-1|, means over tokens and texts"
    text = f"{which} {first_few(shown)}." if found else none
    yield Conclusion("Layers to skip or merge", rule, f"{text}{cheapest(result.model)}")


def cost(model: ModelFindings, layer: int) -> float:
    """What skipping a layer costs; 0 if it was not tried."""
    found = model.skip(layer)
    return 0.0 if found is None else found.mean


def skip_text(model: ModelFindings, layer: int, size: float) -> str:
    """How small a layer is, and what skipping it does."""
    found = model.skip(layer)
    return f"{size:.2f} of the length" + ("" if found is None else f"; skipped: {effect(model, found)}")


def effect(model: ModelFindings, one: Skipped) -> str:
    """What skipping does in words: loss +0.12 (sd 0.03) nats, or output changed by 8%."""
    if model.losses:
        return f"loss {one.mean:+.3f} nats" + (f", sd {stdev(one.changes):.2g}" if len(one.changes) > 1 else "")
    return f"output changes by {one.mean:.1%}"


def cheapest(model: ModelFindings) -> str:
    """The layers that cost least when each is really skipped, one at a time."""
    if not model.skipped:
        return ""
    ordered = sorted(model.skipped, key=lambda one: one.mean)
    fine, unit = sum(one.mean < HARMLESS for one in ordered), "nats" if model.losses else "of the output"
    many = f"{fine or 'none'} of {counted(len(ordered), 'layer')} cost less than {HARMLESS:g} {unit}"
    return f" Skipped one at a time, {many}; the cheapest is layer {ordered[0].layer}, {effect(model, ordered[0])}."


def collapsing(result: Inspection) -> Iterator[Conclusion]:
    """Tokens that lose directions."""
    found = result.model.find("rank", "effective centred")
    if found is None or found.along != "state" or 0 not in found.numbers:
        return
    first, (end, last) = found.mean[0], found.pairs[-1]
    state, low = min(found.pairs, key=lambda one: one[1])
    rule = f"the effective rank of a text's centred states falls below {COLLAPSE:g} of that at the start"
    said = "Collapses" if low < COLLAPSE * first else "Does not collapse"
    lowest = f" {low:.3g} at state {state}," if state not in (0, end) else ""
    text = f"{said}: {first:.3g} at the start,{lowest} {last:.3g} at the end."
    yield Conclusion("Rank of the tokens", rule, text + beside(result, "rank", "effective centred", min))


def outlying(result: Inspection) -> Iterator[Conclusion]:
    """Coordinates that hold much of the norm."""
    if not result.model.outliers:
        return
    rule = f"one coordinate holds more than {OUTLIER:g} of the squared norm, mean over tokens"
    top = max(result.model.outliers, key=lambda one: one.share)
    high = [one for one in result.model.outliers if one.share > OUTLIER]
    names = sorted({one.coordinate for one in high})
    equal = f"an equal share would be {1 / result.model.width:.2%}"
    head = f"The most is {top.share:.1%}, coordinate {top.coordinate} of state {top.state}; {equal}."
    many = f"{'Coordinates' if len(names) > 1 else 'Coordinate'} {first_few(list(map(str, names)))}"
    text = f"{many}, in {counted(len(high), 'state')}. {head}" if high else f"None. {head}"
    yield Conclusion("Outlier coordinates", rule, text + beside(result, "sizes", "outlier", max, "{:.1%}"))

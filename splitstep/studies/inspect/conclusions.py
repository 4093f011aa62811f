"""What to do with an inspection: plain sentences with figures. Thresholds are constants, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from ...support.words import counted, listed
from .result import Inspection, Looked, Series, Skipped, label_of, several

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


def conclusions(result: Inspection) -> list[Conclusion]:
    """All that can be said from what was measured."""
    makers: Sequence[Callable[[Inspection], Iterator[Conclusion]]] = (redundant, growing, collapsing, sinking, outlying)
    return [one for make in makers for one in make(result)]


def redundant(result: Inspection) -> Iterator[Conclusion]:
    """Layers that could be skipped or merged, with what skipping really costs."""
    cosine, size = result.model.find("drift", "previous"), result.model.find("sizes", "relative")
    if cosine is None or size is None:
        return
    both = zip(cosine.numbers, cosine.mean, size.mean, strict=True)
    found = [(layer, c, s) for layer, c, s in both if c > PARALLEL and s < SMALL]
    rule = f"cos(x_l, x_l-1) > {PARALLEL:g} and |x_l - x_l-1| < {SMALL:g} |x_l-1|, means over tokens and texts"
    if not found:
        text = f"No layer moves the stream so little. The least is layer {least(size)}."
        yield Conclusion("Layers to skip or merge", rule, f"{text}{cheapest(result)}")
        return
    found.sort(key=lambda one: (cost(result, one[0]), one[2]))
    shown = [f"{layer} ({skip_text(result, layer, size)})" for layer, _, size in found]
    which = "Candidates are the layers" if len(found) > 1 else "A candidate is layer"
    text = f"{which} {first_few(shown)}."
    yield Conclusion("Layers to skip or merge", rule, f"{text}{cheapest(result)}")


def first_few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return listed([*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else names)


def cost(result: Inspection, layer: int) -> float:
    """What skipping a layer costs; 0 if it was not tried."""
    return next((fmean(one.changes) for one in result.model.skipped if one.layer == layer), 0.0)


def least(series: Series) -> str:
    """The layer of the least figure, with the figure."""
    layer, value = min(zip(series.numbers, series.mean, strict=True), key=lambda one: one[1])
    return f"{layer}, by {value:.2f} of its length"


def skip_text(result: Inspection, layer: int, size: float) -> str:
    """How small a layer is, and what skipping it does."""
    found = next((one for one in result.model.skipped if one.layer == layer), None)
    return f"{size:.2f} of the length" + ("" if found is None else f"; skipped: {effect(result.model, found)}")


def effect(looked: Looked, one: Skipped) -> str:
    """What skipping does in words: loss +0.12 (sd 0.03) nats, or output changed by 8%."""
    if looked.losses:
        return f"loss {fmean(one.changes):+.3f} nats" + (f", sd {spread(one):.2g}" if len(one.changes) > 1 else "")
    return f"output changes by {fmean(one.changes):.1%}"


def spread(one: Skipped) -> float:
    mean = fmean(one.changes)
    return math.sqrt(sum((x - mean) ** 2 for x in one.changes) / (len(one.changes) - 1))


def cheapest(result: Inspection) -> str:
    """The layers that cost least when each is really skipped, one at a time."""
    if not result.model.skipped:
        return ""
    ordered = sorted(result.model.skipped, key=lambda one: fmean(one.changes))
    fine = [one for one in ordered if fmean(one.changes) < HARMLESS]
    unit = "nats" if result.model.losses else "of the output"
    many = "none" if not fine else f"{len(fine)}"
    name = f" Skipped one at a time, {many} of {counted(len(ordered), 'layer')} cost less than {HARMLESS:g} {unit}"
    return f"{name}; the cheapest is layer {ordered[0].layer}, {effect(result.model, ordered[0])}."


def growing(result: Inspection) -> Iterator[Conclusion]:
    """Layers where perturbations blow up."""
    for probe, name, what in (("leading", "s 1", "on a whole text"), ("jacobian", "J largest", "at a single token")):
        found = result.model.find(probe, name)
        if found is not None:
            rule = f"the largest singular value of the layer's Jacobian {what} is above {GROWTH:g}"
            text = over(found, GROWTH, "Perturbations grow most in") + beside(result, probe, name, max)
            yield Conclusion("Where perturbations blow up", rule, text)
            return


def over(series: Series, level: float, words: str) -> str:
    """The layers above a level, the highest first, or where the highest figure is."""
    ordered = sorted(zip(series.numbers, series.mean, strict=True), key=lambda one: -one[1])
    high = [(layer, value) for layer, value in ordered if value > level]
    if not high:
        return f"None. The highest is layer {ordered[0][0]} with {ordered[0][1]:.3g}."
    shown = [f"{layer} ({value:.3g})" for layer, value in high]
    return f"{words} layer{'s' * (len(high) > 1)} {first_few(shown)}."


def beside(
    result: Inspection, probe: str, name: str, pick: Callable[[list[float]], float], form: str = "{:.3g}"
) -> str:
    """The same figure of the other model."""
    found = None if result.other is None else result.other.find(probe, name)
    if result.other is None or found is None:
        return ""
    values = [one for one in found.mean if math.isfinite(one)]
    which = "With random weights" if result.other.random else f"In {label_of(result.other)}"
    side = {max: "highest", min: "lowest"}[pick]
    return f" {which} the {side} is {form.format(pick(values))}." if values else ""


def collapsing(result: Inspection) -> Iterator[Conclusion]:
    """Tokens that lose directions."""
    found = result.model.find("rank", "effective centred")
    if found is None or found.along != "state" or 0 not in found.numbers:
        return
    first, values = found.mean[0], list(zip(found.numbers, found.mean, strict=True))
    state, low = min(values, key=lambda one: one[1])
    rule = f"the effective rank of a text's centred states falls below {COLLAPSE:g} of that at the start"
    said = "Collapses" if low < COLLAPSE * first else "Does not collapse"
    lowest = f" {low:.3g} at state {state}," if state not in (0, values[-1][0]) else ""
    text = f"{said}: {first:.3g} at the start,{lowest} {values[-1][1]:.3g} at the end."
    yield Conclusion("Rank of the tokens", rule, text + beside(result, "rank", "effective centred", min))


def sinking(result: Inspection) -> Iterator[Conclusion]:
    """Attention that rests on the first token."""
    found = result.model.find("attention", "first token")
    if found is not None:
        rule = f"the mean attention of later tokens on the first one is above {SINK:g}"
        text = over(found, SINK, "Sinks are in") + beside(result, "attention", "first token", max)
        yield Conclusion("Attention sinks", rule, text)


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


def own_loss(looked: Looked) -> str:
    return several(looked.losses)

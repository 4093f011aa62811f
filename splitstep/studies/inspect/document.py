"""What an inspection says: sentences with figures, whether training installed a depth gradient, and the document.

Thresholds are constants, each with its reason. The rule of the depth gradient is in docs/theory/inspection.md, and was
written before the runs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from ...experiments.experiment import Answer, Rule, Sample, all_of, decide, opposite
from ...experiments.sections import reproduced
from ...experiments.statistics import Estimate
from ...probes.communities import spearman
from ...report.document import Document, Note, Verdict
from ...report.tables import NOT_ON_PAGES, ON_PAGES, Cell, Column, Table, lines
from ...support.words import counted, listed
from .charts import particle_charts, sections, skip_chart
from .result import Inspection, ModelFindings, Skipped

PARALLEL = 0.95  # cos(x_l, x_{l-1}): 1 - cos is the block influence of ShortGPT; below 0.05 a layer hardly turns tokens
SMALL = 0.5  # |x_l - x_{l-1}| / |x_{l-1}|: a longer step changes the stream by more than half
HARMLESS = 0.1  # nats for each prediction, or the same share of the output: the rule of docs/theory/inspection.md
GROWTH = 10.0  # the largest singular value of a layer's Jacobian: a perturbation grows tenfold in a single layer
COLLAPSE = 0.25  # effective rank of tokens, relative to the first state: three of four directions are gone
SINK = 0.3  # mean attention on the first token: the threshold of Gu et al. (2025), "When attention sink emerges"
OUTLIER = 0.1  # share of the squared norm in one coordinate: in a width of 100 or more, ten times an equal share
NAMED = 6  # layers that a sentence names
FALLING = {"rotation falls with depth": "complex", "asymmetry falls with depth": "J asymmetry"}  # of Jacobians
COLLAPSED = Rule(0.1, level_is="above")  # the effective rank of the product over the width, if it has not collapsed
WIDE = Rule(0.5, level_is="above")  # that of a random network, if it has not
COLUMNS = (
    ("cosine", "drift", "previous", "{:.3f}"),
    ("step", "sizes", "relative", "{:.3g}"),
    ("largest s", "leading", "s 1", "{:.3g}"),
    ("complex", "jacobian", "complex", "{:.0%}"),
    ("asymmetry", "jacobian", "J asymmetry", "{:.2f}"),
    ("[A, F]", "commutator", "A F", "{:.2f}"),
    ("sink", "attention", "first token", "{:.2f}"),
)  # of the table of layers: heads, series, forms
READING = (
    "x_l is the state after a layer, x_l-1 the one before it. Cosine: cos(x_l, x_l-1); step: |x_l - x_l-1| / |x_l-1|; "
    "largest s: the largest singular value of the layer's Jacobian; sink: attention on the first token; if skipped: "
    "the change of the loss in nats, or of the output, if the layer is left out."
)
SHORT_NOTE = "Means over texts; the page has their spread and the other model beside them."
LAYERS_NOTE = "Means over texts; small print: the standard deviation over texts, and the other model's mean."
GRADIENT_NOTE = (
    "Correlations with the number of the layer, and the effective rank of the product of all layers' Jacobians over "
    "the width; means over texts with Student's 95% interval."
)


class Conclusion(NamedTuple):
    """What was looked for, by which rule, and what was found."""

    about: str
    rule: str
    text: str


def conclusions(result: Inspection) -> list[Conclusion]:
    """All that can be said from what was measured."""
    places = {("leading", "s 1"): " on a whole text", ("jacobian", "J largest"): " at a single token"}
    largest = next((one for one in places if result.model.find(*one)), ("jacobian", "J largest"))
    grows = f"the largest singular value of the layer's Jacobian{places[largest]} is above {GROWTH:g}"
    sinks = f"the mean attention of later tokens on the first one is above {SINK:g}"
    return [
        *redundant(result),
        *peaks(result, *largest, GROWTH, "Where perturbations blow up", "Perturbations grow most in", grows),
        *collapsing(result),
        *peaks(result, "attention", "first token", SINK, "Attention sinks", "Sinks are in", sinks),
        *outlying(result),
    ]


def peaks(
    result: Inspection, probe: str, name: str, level: float, about: str, words: str, rule: str
) -> Iterator[Conclusion]:
    """The layers whose figure is above a level, the highest first, or the highest figure."""
    if (found := result.model.find(probe, name)) is not None:
        ordered = sorted(found.pairs, key=lambda pair: -pair[1])
        shown = [f"{layer} ({value:.3g})" for layer, value in ordered if value > level]
        text = f"{words} layer{'s' * (len(shown) > 1)} {first_few(shown)}."
        none = f"None. The highest is layer {ordered[0][0]} with {ordered[0][1]:.3g}."
        yield Conclusion(about, rule, (text if shown else none) + beside(result, probe, name, max))


def first_few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return listed([*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else names)


def beside(
    result: Inspection, probe: str, name: str, pick: Callable[[list[float]], float], form: str = "{:.3g}"
) -> str:
    """The same figure of the other model."""
    found = None if result.other is None else result.other.find(probe, name)
    values = [] if found is None else [one for one in found.mean if math.isfinite(one)]
    if result.other is None or not values:
        return ""
    which = "With random weights" if result.other.random else f"In {result.other.label}"
    return f" {which} the {'highest' if pick is max else 'lowest'} is {form.format(pick(values))}."


def redundant(result: Inspection) -> Iterator[Conclusion]:
    """Layers that could be skipped or merged, with what skipping really costs."""
    model = result.model
    cosine, size = model.find("drift", "previous"), model.find("sizes", "relative")
    if cosine is None or size is None:
        return
    tried = {one.layer: (one.mean, f"; skipped: {effect(model, one)}") for one in model.skipped}
    both = zip(cosine.pairs, size.mean, strict=True)
    small = [(tried.get(layer, (0.0, "")), s, layer) for (layer, c), s in both if c > PARALLEL and s < SMALL]
    ordered = sorted(small, key=lambda one: (one[0][0], *one[1:]))
    shown = [f"{layer} ({s:.2f} of the length{said})" for (_, said), s, layer in ordered]
    which = "Candidates are the layers" if len(shown) > 1 else "A candidate is layer"
    layer, least = min(size.pairs, key=lambda one: one[1])
    none = f"No layer moves the stream so little. The least is layer {layer}, by {least:.2f} of its length."
    rule = f"cos(x_l, x_l-1) > {PARALLEL:g} and |x_l - x_l-1| < {SMALL:g} |x_l-1|, means over tokens and texts"
    text = f"{which} {first_few(shown)}." if shown else none
    yield Conclusion("Layers to skip or merge", rule, f"{text}{cheapest(model)}")


def effect(model: ModelFindings, one: Skipped) -> str:
    """What skipping does in words: loss +0.12 (sd 0.03) nats, or output changed by 8%."""
    if model.losses:
        return f"loss {one.mean:+.3f} nats" + (f", sd {stdev(one.changes):.2g}" if len(one.changes) > 1 else "")
    return f"output changes by {one.mean:.1%}"


def cheapest(model: ModelFindings) -> str:
    """The layers that cost least when each is really skipped, one at a time."""
    if not model.skipped:
        return ""
    least = min(model.skipped, key=lambda one: one.mean)
    fine, unit = sum(one.mean < HARMLESS for one in model.skipped), "nats" if model.losses else "of the output"
    many = f"{fine or 'none'} of {counted(len(model.skipped), 'layer')} cost less than {HARMLESS:g} {unit}"
    return f" Skipped one at a time, {many}; the cheapest is layer {least.layer}, {effect(model, least)}."


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


class GradientPart(NamedTuple):
    """One part of the claim: the figures of the trained and of the random network, and what they decide."""

    name: str
    trained: Estimate | None
    random: Estimate | None
    decision: Answer


def text_by_text(values: Sequence[float]) -> Sample:
    """The finite figures of texts."""
    return Sample({i: x for i, x in enumerate(values) if math.isfinite(x)})


def by_layer(model: ModelFindings, name: str) -> Sample:
    """Spearman's correlation of a figure of Jacobians with the number of the layer."""
    found = model.find("jacobian", name)
    rows = [] if found is None else [spearman(np.array(found.numbers, float), np.array(x), 1) for x in found.figures]
    return text_by_text([float(one[0]) for one in rows])


def last_rank(model: ModelFindings) -> Estimate | None:
    """The effective rank of the product of all Jacobians over the width."""
    found = model.find("products", "effective rank")
    return text_by_text([] if found is None else [row[-1] / model.width for row in found.figures]).mean()


def gradient_parts(result: Inspection) -> list[GradientPart]:
    """The three parts of the claim, or none if there is no null model: two figures fall with depth, and more so than in
    the random network, and the product of Jacobians loses rank, while that of the random network does not."""
    if result.null is None:
        return []
    parts = list[GradientPart]()
    for claim, name in FALLING.items():
        own, null = (by_layer(one, name) for one in (result.model, result.null))
        falls = all_of(opposite(decide(one, Rule(level_is="above"))) for one in (own.mean(), own.minus(null)))
        parts.append(GradientPart(claim, own.mean(), null.mean(), falls))
    own, null = map(last_rank, (result.model, result.null))
    lost = all_of((opposite(decide(own, COLLAPSED)), decide(null, WIDE)))
    return [*parts, GradientPart("the product loses rank", own, null, lost)]


def depth_gradient(result: Inspection) -> Verdict:
    """Whether training installs a depth gradient, by the rule."""
    parts = gradient_parts(result)
    if not parts:
        return Verdict("too few", "Depth gradient: not decided, since there is no null model beside the model.")
    claim, decision = "Training installs a depth gradient", all_of(one.decision for one in parts)
    why = "; ".join(f"{one.name}: {one.decision}, {figures_text(one)}" for one in parts)
    lacking = all(one.trained is None or one.trained.low is None for one in parts)
    kind = "settled" if decision != "undecided" else "too few" if lacking else "open"
    add = "--spectra 8" if result.texts > 2 else "--texts 8 --spectra 8"
    advice = f" An interval needs 3 texts or more, and Jacobians were taken on {result.differentiated}: add {add}."
    measured = result.model.find("jacobian", "complex") is not None
    return Verdict(kind, f"{claim}: {decision} ({why}).{advice if lacking and measured else ''}")


def figures_text(part: GradientPart) -> str:
    if part.trained is None or part.random is None:
        return "not measured"
    return f"{shown(part.trained)} against {shown(part.random)} at random"


def shown(found: Estimate | None) -> str:
    """A mean with its interval in one line."""
    if found is None:
        return ""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:.2f}{ends}"


def document(result: Inspection) -> Document:
    """Particles first, then what to do, then the charts, then the tables."""
    layers = layers_table(result)
    short = [conclusions_table(result), shortened(layers)]
    long = [models_table(result), layers, gradient_table(result), missing_table(result)]
    call = "splitstep.studies.inspect.inspection(...)"
    parts = [
        Note(about(result)),
        *particle_charts(result),
        *(one for one in short if one.rows),
        *skip_chart(result),
        *sections(result),
        *(one for one in long if one.rows),
        *reproduced(result.made, call, result.made.entries("commit", "date", "versions")),
    ]
    return Document(f"Inside {result.model.label}", parts, depth_gradient(result))


def about(result: Inspection) -> str:
    """The model, the texts and what stands beside it, in a sentence or two."""
    one, other, beside = result.model, result.other, ""
    texts = f"{counted(result.texts, 'text')} of at most {counted(result.tokens, 'token')} from {result.source}"
    if other is not None:
        fresh = f"the same architecture with random weights (its own initialisation, seed {result.seed}), in grey"
        known = f"{other.model}, scheme {other.scheme}, {counted(other.layers, 'layer')}"
        beside = f" Beside it: {fresh if other.random else known}."
    with_derivatives = min(result.differentiated, result.texts)
    few = f" Jacobians are those of {counted(with_derivatives, 'text')}." if with_derivatives < result.texts else ""
    return f"{one.model}: scheme {one.scheme}, {counted(one.layers, 'layer')}, width {one.width}; {texts}.{beside}{few}"


def models_table(result: Inspection) -> Table:
    rows = [
        {
            Column("model", text=True): one.label,
            Column("scheme", text=True): one.scheme,
            Column("layers"): str(one.layers),
            Column("width"): f"{one.width:,}",
            Column("parameters"): f"{one.parameters:,}",
            Column("loss, nats"): loss(one),
        }
        for one in result.models
    ]
    return Table.of(rows, "", list(dict.fromkeys(note for one in result.models for note in one.notes)))


def loss(model: ModelFindings) -> str:
    """The mean over texts with its standard deviation, if there are several: 0.42 (sd 0.03)."""
    if not model.losses:
        return ""
    more = f" (sd {stdev(model.losses):.2g})" if len(model.losses) > 1 else ""
    return f"{fmean(model.losses):.3g}{more}"


def conclusions_table(result: Inspection) -> Table:
    columns = Column("what", text=True), Column("found", text=True), Column("rule", text=True, detail=ON_PAGES)
    rows = [[one.about, one.text, one.rule] for one in conclusions(result)]
    return Table(columns, rows, "What to do with it")


def layers_table(result: Inspection) -> Table:
    """A row per layer, with the spread over texts and the other model beside it: for pages, which have room."""
    model = result.model
    shown = [one for one in COLUMNS if model.find(one[1], one[2]) is not None]
    heads = ["layer", *(head for head, *_ in shown), *(["if skipped"] if model.skipped else [])]
    form, rows = "{:+.3f}" if model.losses else "{:.1%}", list[list[Cell]]()
    tried = {one.layer: form.format(one.mean) for one in model.skipped}
    for layer in result.layers:
        own = [tried.get(layer, "")] if tried else []
        rows.append([str(layer), *(layer_cell(result, layer, *one[1:]) for one in shown), *own])
    columns = list(map(Column, heads))
    return Table(columns, rows, "Layers", [LAYERS_NOTE, READING], ON_PAGES, stacked=False)


def shortened(whole: Table) -> Table:
    """Means alone, in one line each: for terminals."""
    rows = [[lines(one)[0] for one in row] for row in whole.rows]
    return Table(whole.columns, rows, whole.title, [SHORT_NOTE, READING], NOT_ON_PAGES)


def layer_cell(result: Inspection, layer: int, probe: str, name: str, form: str) -> tuple[str, ...]:
    """A mean, its spread over texts, and the other model's mean if it has this layer."""
    own, other = (one and one.find(probe, name) for one in (result.model, result.other))
    if own is None or layer not in own.numbers:
        return ("",)
    i = own.numbers.index(layer)
    spread = f"\u00b1 {form.format(own.spread[i])}" if own.texts > 1 else ""
    null = f"({form.format(dict(other.pairs)[layer])})" if other and layer in other.numbers else ""
    return tuple(one for one in (form.format(own.mean[i]), spread, null) if one)


def gradient_table(result: Inspection) -> Table:
    """The parts of the depth gradient."""
    columns = [Column("part", text=True), Column("trained"), Column("random"), Column("decided", text=True)]
    rows = [[one.name, shown(one.trained), shown(one.random), one.decision] for one in gradient_parts(result)]
    return Table(columns, rows, "Depth gradient", [GRADIENT_NOTE] if rows else [])


def missing_table(result: Inspection) -> Table:
    found = dict[tuple[str, str], list[str]]()
    for one in result.models:
        for gap in one.missing:
            found.setdefault((gap.probe, gap.why), []).append(one.label)
    columns = [Column(head, text=True) for head in ("probe", "model", "why")]
    rows = [[probe, ", ".join(models), why] for (probe, why), models in found.items()]
    return Table(columns, rows, "Not measured")

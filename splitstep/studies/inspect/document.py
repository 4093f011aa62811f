"""What an inspection says: a document that people would rather look at than read, and its tables."""

from __future__ import annotations

from statistics import fmean, stdev

from ...experiments.sections import reproduced
from ...report.document import Document, Note
from ...report.tables import NOT_ON_PAGES, ON_PAGES, Cell, Column, Table, lines
from ...support.words import counted
from .charts import particle_charts, sections, skip_chart
from .conclusions import conclusions, depth_gradient, gradient_parts, shown
from .result import Inspection, ModelFindings

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

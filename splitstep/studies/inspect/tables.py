"""The tables of an inspection."""

from __future__ import annotations

from ...report.tables import NOT_ON_PAGES, ON_PAGES, Column, Table, lines
from .conclusions import conclusions, own_loss
from .depth_gradient import parts_of, shown
from .result import Inspection, Looked, label_of

COLUMNS = (
    ("cosine", "drift", "previous", "{:.3f}"),
    ("step", "sizes", "relative", "{:.3g}"),
    ("largest s", "leading", "s 1", "{:.3g}"),
    ("complex", "jacobian", "complex", "{:.0%}"),
    ("asymmetry", "jacobian", "J asymmetry", "{:.2f}"),
    ("[A, F]", "commutator", "A F", "{:.2f}"),
    ("sink", "attention", "first token", "{:.2f}"),
)
READING = (
    "x_l is the state after a layer, x_l-1 the one before it. Cosine: cos(x_l, x_l-1); step: |x_l - x_l-1| / |x_l-1|; "
    "largest s: the largest singular value of the layer's Jacobian; sink: attention on the first token; if skipped: "
    "the change of the loss in nats, or of the output, if the layer is left out."
)
SHORT_NOTE = "Means over texts; the page has their spread and the other model beside them."
LAYERS_NOTE = "Means over texts; small print: the standard deviation over texts, and the other model's mean."


def models_table(result: Inspection) -> Table:
    rows = [
        {
            Column("model", text=True): label_of(one),
            Column("scheme", text=True): one.scheme,
            Column("layers"): str(one.layers),
            Column("width"): f"{one.width:,}",
            Column("parameters"): f"{one.parameters:,}",
            Column("loss, nats"): own_loss(one),
        }
        for one in result.looked
    ]
    notes = list(dict.fromkeys(note for one in result.looked for note in one.notes))
    return Table.of(rows, "", notes)


def conclusions_table(result: Inspection) -> Table:
    columns = Column("what", text=True), Column("found", text=True), Column("rule", text=True, detail=ON_PAGES)
    rows = [[one.about, one.text, one.rule] for one in conclusions(result)]
    return Table(columns, rows, "What to do with it")


def layers_table(result: Inspection) -> Table:
    """A row per layer, with the spread over texts and the other model beside it: for pages, which have room."""
    looked = result.model
    shown = [one for one in COLUMNS if looked.find(one[1], one[2]) is not None]
    columns = [Column("layer"), *(Column(title) for title, *_ in shown), *skip_column(looked)]
    rows = [
        [str(layer), *(cell(result, layer, *one[1:]) for one in shown), *skip_cell(looked, layer)]
        for layer in result.layers
    ]
    return Table(columns, rows, "Layers", [LAYERS_NOTE, READING], ON_PAGES, stacked=False)


def short_table(result: Inspection) -> Table:
    """A row per layer with means alone, in one line each: for terminals."""
    whole = layers_table(result)
    rows = [[lines(one)[0] for one in row] for row in whole.rows]
    return Table(whole.columns, rows, "Layers", [SHORT_NOTE, READING], NOT_ON_PAGES)


def cell(result: Inspection, layer: int, probe: str, name: str, form: str) -> tuple[str, ...]:
    """A mean, its spread over texts, and the other model's mean if it has this layer."""
    found = [one.find(probe, name) for one in result.looked]
    own = found[0]
    if own is None or layer not in own.numbers:
        return ("",)
    i = own.numbers.index(layer)
    spread = f"\u00b1 {form.format(own.spread[i])}" if own.texts > 1 else ""
    other = found[1] if len(found) > 1 else None
    null = f"({form.format(other.mean[other.numbers.index(layer)])})" if other and layer in other.numbers else ""
    return tuple(one for one in (form.format(own.mean[i]), spread, null) if one)


def skip_column(looked: Looked) -> list[Column]:
    if not looked.skipped:
        return []
    return [Column("if skipped")]


def skip_cell(looked: Looked, layer: int) -> list[str]:
    if not looked.skipped:
        return []
    found = next((one for one in looked.skipped if one.layer == layer), None)
    form = "{:+.3f}" if looked.losses else "{:.1%}"
    return ["" if found is None else form.format(sum(found.changes) / len(found.changes))]


def gradient_table(result: Inspection) -> Table:
    """The parts of the depth gradient."""
    columns = [Column("part", text=True), Column("trained"), Column("random"), Column("decided", text=True)]
    rows = [[one.name, shown(one.trained), shown(one.random), one.decision] for one in parts_of(result)]
    note = (
        "Correlations with the number of the layer, and the effective rank of the product of all layers' Jacobians "
        "over the width; means over texts with Student's 95% interval."
    )
    return Table(columns, rows, "Depth gradient", [note] if rows else [])


def missing_table(result: Inspection) -> Table:
    columns = Column("probe", text=True), Column("model", text=True), Column("why", text=True)
    found = dict[tuple[str, str], list[str]]()
    for one in result.looked:
        for gap in one.missing:
            found.setdefault((gap.probe, gap.why), []).append(label_of(one))
    rows = [[probe, ", ".join(models), why] for (probe, why), models in found.items()]
    return Table(columns, rows, "Not measured")

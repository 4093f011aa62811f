"""What an inspection says: a headline, the particles, sentences with figures, then what was measured, folded."""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import fmean, stdev

from ...experiments.sections import reproduced
from ...report.document import Document, Evidence, Note, Part, Verdict, folded
from ...report.tables import NOT_ON_PAGES, ON_PAGES, Cell, Column, Table, lines
from ...support.words import counted, listed
from .charts import arranged, curves, cut_charts, particle_charts, sections, swap_chart
from .free_layers import in_words
from .gradient import depth_gradient, gradient_table
from .result import Inspection, ModelFindings
from .sentences import SECTIONS, Said, differences, sentences, sinks, stopped
from .spelling import SHARE, columns, over_texts, sentence, unit_of

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
    "largest s: the largest singular value of the layer's Jacobian; sink: attention on the first token; if left out: "
    "the change of the loss in nats, or of the output, without the layer, or without one field of it."
)
SHORT_NOTE = "Means over texts; the page has their spread and the other model beside them."
LAYERS_NOTE = "Means over texts; small print: the standard deviation over texts, and the other model's mean."
STOPPED = "Interrupted; not finished: {}. The same command continues."
ABSENT = "Not said: {}."
BESIDE_NOTE = "This model minus the one beside it, text by text, with intervals that hold at once in 95% of the cases."
LIST_NOTE = (
    "{} chose the list, and the cost is that on others. A tie: with another layer in the last one's place the cost is "
    "about the same."
)
COORDINATES_NOTE = (
    "The share of the squared norm, in the state where it is largest, and what it costs to hold the coordinate still "
    "in every state. An equal share would be 1 / width."
)
CUT, STATES = re.compile(r" --cut[ =](\d+)"), re.compile(r" --save[ =]states\b")


def document(result: Inspection) -> Document:
    """One picture, then the sentences, then what they rest on: what was measured, and no more."""
    said, particles, cuts = sentences(result), list(particle_charts(result)), list(cut_charts(result))
    layers = layers_table(result)
    means = [[lines(one)[0] for one in row] for row in layers.rows]  # in one line each, for terminals
    swapped, known = [*swap_chart(result), *curves(result, "Beside it")], ("commit", "date", "versions")
    parts = [
        *(particles or cuts)[:1],
        *(Verdict("settled", one.text, one.section) for one in said.sentences),
        *([Note(ABSENT.format("; ".join(f"{one.name} ({one.why})" for one in said.absent)))] if said.absent else []),
        Note(about(result)),
        *section("Tokens of the other model", particles[1:]),
        *section(SECTIONS["health"] if result.model.evidence.health else "Models", [models_table(result)]),
        *section("Layers left out", [*(cuts if particles else cuts[1:]), lists_table(result)]),
        *section("Outlier coordinates", [coordinates_table(result), *curves(result, "Outlier coordinates")]),
        *section("Beside it", [differences_table(result), *arranged(swapped)]),
        *sections(result),
        *gradient(result),
        *([Table(layers.columns, means, layers.title, [SHORT_NOTE, READING], NOT_ON_PAGES)] if means else []),
        *folded([layers, missing_table(result)]),
        *reproduced(result.made, "splitstep.studies.inspect.inspection(...)", result.made.entries(*known)),
    ]
    return Document(f"Inside {result.model.label}", parts, verdict(result, said), headline(result, said))


def headline(result: Inspection, said: Said) -> str:
    """What an interrupted inspection has not finished, if it was; then what the first two findings say."""
    return " ".join([*stopped_at(result), findings_in_words(result, said)]).strip()


def stopped_at(result: Inspection) -> list[str]:
    """What an interrupted inspection has not finished; empty if it was not interrupted."""
    return [STOPPED.format(result.unfinished)] if result.unfinished else []


def findings_in_words(result: Inspection, said: Said) -> str:
    """What the first two findings say, without their figures."""
    model, other = result.model, result.other
    if stops := stopped(model):
        return f"{sentence(stops.why)}."
    found = {one.name for one in said.sentences}
    clauses = [f"it differs from {other.label}"] if other and not other.random and "against" in found else []
    clauses += [in_words(model)] if "layers" in found else []
    clauses += [f"{attending(model)} to the first token"] if "first token" in found else []
    clauses += ["a few coordinates hold much of the norm"] if "outliers" in found else []
    clauses += ["all weights and states are finite"] if "health" in found else []
    return f"{sentence('; '.join(clauses[:2]))}." if clauses else ""


def attending(model: ModelFindings) -> str:
    """How many layers attend to the first token, in words."""
    many, measured = len(sinks(model)), len(columns(model.find("attention", "first token")))
    which = "one layer" if many < 2 else "most layers" if 2 * many > measured else "some layers"
    return f"{which} attend{'s' * (many < 2)}"


def verdict(result: Inspection, said: Said) -> Verdict:
    """All sentences, one a line."""
    if not said.sentences:
        why = "; ".join(f"{one.name}: {one.why}" for one in said.absent)
        return Verdict("too few", f"Nothing can be said of {result.model.label} yet ({why}).")
    more = [] if result.model.find("jacobian", "complex") is None else [depth_gradient(result).sentence]
    kind = "open" if result.unfinished else "settled"
    return Verdict(kind, "\n".join([*stopped_at(result), *(one.text for one in said.sentences), *more]))


def section(title: str, parts: Sequence[Part]) -> list[Part]:
    """Parts that are folded under a title to which sentences link; none, if they are empty tables."""
    filled = [one for one in parts if not isinstance(one, Table) or one.rows]
    return [Evidence(title, filled)] if filled else []


def gradient(result: Inspection) -> list[Part]:
    """Whether training installed a depth gradient, if layers were differentiated."""
    if result.model.find("jacobian", "complex") is None:
        return []
    return section("Depth gradient", [depth_gradient(result), gradient_table(result)])


def about(result: Inspection) -> str:
    """The model, the texts and what stands beside it, in a sentence or two."""
    one, other, beside = result.model, result.other, ""
    texts = f"{counted(result.texts, 'text')} of at most {counted(result.tokens, 'token')} from {result.source}"
    if other is not None:
        fresh = f"the same architecture with random weights (its own initialisation, seed {result.seed}), in grey"
        known = f"{other.model}, scheme {other.scheme}, {counted(other.layers, 'layer')}"
        beside = f" Beside it: {fresh if other.random else known}."
    few = ""
    if (closer := result.model.find("jacobian", "complex")) is not None and closer.texts < result.texts:
        few = f" Jacobians are those of {counted(closer.texts, 'text')}."
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
    spread = len(model.losses) > 1 and all(map(isfinite, model.losses))
    more = f" (sd {stdev(model.losses):.2g})" if spread else ""
    return f"{fmean(model.losses):.3g}{more}"


def lists_table(result: Inspection) -> Table:
    """Which layers go together: a row for each length of the list."""
    model, rows = result.model, list[list[Cell]]()
    for cut in model.evidence.cuts:
        costs = [*cut.changes, *[()] * len(cut.layers)]
        for k in range(1, len(cut.layers) + 1):
            found = over_texts(costs[k - 1])
            cost = unit_of(model).change.spelt(found) if found else ""
            gone = ", ".join(map(str, cut.layers[:k]))
            rows.append([gone, cost, "tie" if k in cut.ties else ""])
    columns = [Column("left out", text=True), Column("cost together"), Column("tie", text=True)]
    chosen = max((cut.chosen_on for cut in model.evidence.cuts), default=0)
    notes = [LIST_NOTE.format(counted(chosen, "text")), *how_to_save(result)]
    return Table(columns, rows, "Layers that go together", notes)


def how_to_save(result: Inspection) -> Iterator[str]:
    """The command that saves the model without the layers of the list, if it was not that which was typed."""
    command, cuts = STATES.sub("", result.made.command or ""), result.model.evidence.cuts
    if not cuts or not command.startswith("splitstep inspect") or " --save" in command:
        return
    typed = CUT.search(command)
    layers = cuts[0].layers[: int(typed[1])] if typed else cuts[0].layers
    more = f"{'' if typed else f' --cut {len(layers)}'} --save FOLDER"
    names = f"layer{'s' * (len(layers) > 1)} {listed([*map(str, layers)])}"
    yield f"To save the model without {names}: {command}{more}"


def coordinates_table(result: Inspection) -> Table:
    """The coordinates that hold much of the norm."""
    model, rows = result.model, list[list[Cell]]()
    unit = unit_of(model).signed
    for one in model.evidence.coordinates:
        held = {x.at: unit.spelt(over_texts(x.changes)) for x in model.evidence.held if one.coordinate in x.coordinates}
        shares = [over_texts(x) for x in (one.shares, one.without_first)]
        shown = [SHARE.interval(x) if x else "" for x in shares]
        rows.append([str(one.coordinate), str(one.state), *shown, held.get("mean", ""), held.get("zero", "")])
    heads = ("coordinate", "state", "share", "without the first token", "held at its mean", "held at zero")
    return Table([*map(Column, heads)], rows, "", [COORDINATES_NOTE], ON_PAGES)


def differences_table(result: Inspection) -> Table:
    """What differs between the two models."""
    found = [] if result.other is None else differences(result.model, result.other)
    rows: list[list[Cell]] = [
        [name.rstrip(","), unit.signed.spelt(one), "yes" if one.sign else "no"] for name, unit, one in found
    ]
    columns = [Column("figure", text=True), Column("difference"), Column("differs", text=True)]
    return Table(columns, rows, "", [BESIDE_NOTE] if rows else [], ON_PAGES)


def layers_table(result: Inspection) -> Table:
    """A row per layer, with the spread over texts and the other model beside it: for pages, which have room."""
    model = result.model
    shown = [one for one in COLUMNS if model.find(one[1], one[2]) is not None]
    tried = left_out(model)
    heads = ["layer", *(head for head, *_ in shown), *tried]
    rows = list[list[Cell]]()
    for layer in result.listed:
        own = (cells.get(layer, "") for cells in tried.values())
        rows.append([str(layer), *(layer_cell(result, layer, *one[1:]) for one in shown), *own])
    columns = list(map(Column, heads))
    return Table(columns, rows, "Layers", [LAYERS_NOTE, READING], ON_PAGES, stacked=False)


def left_out(model: ModelFindings) -> dict[str, dict[int, str]]:
    """What it costs to leave out each layer, and each field of it: columns with the cells of layers."""
    form, found = "{:+.3f}" if model.losses else "{:.1%}", dict[str, dict[int, str]]()
    for one in model.skipped:
        found.setdefault("if left out", {})[one.layer] = form.format(one.mean)
    for one in model.evidence.halves:
        found.setdefault(f"without {one.letter}", {})[one.layer] = form.format(fmean(one.changes))
    return found


def layer_cell(result: Inspection, layer: int, probe: str, name: str, form: str) -> tuple[str, ...]:
    """A mean, its spread over texts, and the other model's mean if it has this layer."""
    own, other = (one and one.find(probe, name) for one in (result.model, result.other))
    if own is None or layer not in own.numbers:
        return ("",)
    i = own.numbers.index(layer)
    spread = f"\u00b1 {form.format(own.spread[i])}" if own.texts > 1 else ""
    null = f"({form.format(dict(other.pairs)[layer])})" if other and layer in other.numbers else ""
    return tuple(one for one in (form.format(own.mean[i]), spread, null) if one)


def missing_table(result: Inspection) -> Table:
    found = dict[tuple[str, str], list[str]]()
    for one in result.models:
        for gap in one.missing:
            found.setdefault((gap.probe, gap.why), []).append(one.label)
    columns = [Column(head, text=True) for head in ("probe", "model", "why")]
    rows = [[probe, ", ".join(models), why] for (probe, why), models in found.items()]
    return Table(columns, rows, "Not measured")

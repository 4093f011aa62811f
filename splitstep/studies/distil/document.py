"""What the study says: figures with intervals, charts, claims, answers side by side, runs."""

from __future__ import annotations

from collections.abc import Sequence

from ...distillation.judging.pairs import LayerDistance
from ...experiments.sections import BAND, LOSS, READS, STEP, band_line, dots, reproduce, summary
from ...report.charts import Axis, Line, LineChart, SmallMultiples
from ...report.document import Beside, Document, Heading, Note, Part, Stacked, Verbatim
from ...support.words import counted
from .claims import distil_verdict
from .result import START, DistilResult, Said, Shown
from .tables import distil_tables

LAYER = Axis("layer of the student", "{:.0f}", apart=1)
DISTANCE = Axis("1 - CKA", "{:.3f}")


def document(result: DistilResult) -> Document:
    """The whole document."""
    main, *others, runs = distil_tables(result)
    parts = [
        summary(result.made, result.runs, {"method": len(result.rows), "seed": len(result.seeds)}),
        main,
        figure_charts(result),
        *others,
        *charts(result),
        *answers(result),
        runs,
        *reproduce(result.made, result.runs, "splitstep.studies.distil.compare_methods(...)"),
    ]
    title = f"Distillation: {', '.join(row.method for row in result.rows)}"
    return Document(title, parts, distil_verdict(result))


def charts(result: DistilResult) -> list[Part]:
    distance = distance_chart(result)
    losses = loss_charts(result)
    found: list[Part] = [*([distance] if distance else []), *([Beside(losses)] if losses else [])]
    return [*found, Note(BAND)] if found and len(result.seeds) > 1 else found


def answers(result: DistilResult) -> list[Part]:
    """Some instructions, each with the reference and the answers of all models beside each other."""
    if not result.shown:
        return []
    note = "The first sampled answer of the teacher and of each method's first seed, with its ROUGE-L in points."
    head = [Heading("Answers side by side"), Note(note)]
    most = result.data["answers"]["max_tokens"]
    return [*head, *(part for one in result.shown for part in answered(one, most))]


def answered(one: Shown, most: int) -> list[Part]:
    return [Heading(one.set, 3), Verbatim(one.instruction), Beside([answer(said, most) for said in one.answers])]


def answer(said: Said, most: int) -> Stacked:
    """An answer under its author, its ROUGE-L and whether it is cut off, for it has the most tokens."""
    score = "" if said.rouge is None else f", {said.rouge:.1f}"
    cut, more = (f", cut off after {counted(most, 'token')}", " …") if said.ended is False else ("", "")
    text = said.text or "(nothing)"
    return Stacked([Note(f"{said.who}{score}{cut}"), Verbatim(f"{text}{more}", answer=True)])


def figure_charts(result: DistilResult) -> SmallMultiples:
    """ROUGE-L and bits per byte: a dot with its interval for each method."""
    rouge = [(row.method, row.rouge) for row in result.rows]
    bits, per_byte = [(row.method, row.bits_per_byte) for row in result.rows], Axis("bits per byte", "{:.3f}")
    charts = [
        dots("ROUGE-L", Axis("points", "{:.2f}"), rouge, "mean [95% interval]", "chart-rouge-l"),
        dots("Bits per byte of answers", per_byte, bits, "mean [95% interval]", "chart-bits"),
    ]
    return SmallMultiples("Figures", charts)


def distance_chart(result: DistilResult) -> LineChart | None:
    """The distance to the teacher after each layer, before training and after it."""
    lines = list[Line]()
    for row in result.rows:
        found = [run.figures.distances for run in result.of(row.method) if run.figures and run.figures.distances]
        if found:
            lines.append(distance_line(row.method, found))
    before = result.others.get(START)
    if before is not None and before.distances:
        lines.append(distance_line(START, [before.distances]))
    reads = READS if len(result.seeds) > 1 else ""
    title = "Distance to the teacher's states"
    return LineChart(title, LAYER, DISTANCE, lines, reads, name="chart-distance", muted=[START]) if lines else None


def distance_line(name: str, found: Sequence[Sequence[LayerDistance]]) -> Line:
    """The mean over runs after each layer, from the least to the greatest."""
    layers = [float(one.layer) for one in found[0]]
    columns = [[run[k].distance for run in found] for k in range(len(layers))]
    several = ([min(c) for c in columns], [max(c) for c in columns]) if len(found) > 1 else ()
    return Line(name, layers, [sum(c) / len(c) for c in columns], *several)


def loss_charts(result: DistilResult) -> list[LineChart]:
    """The loss against the step. Losses in training are of different methods, and are not compared."""
    columns = {"valid_loss": "Validation loss (cross entropy)", "train_loss": "Each method's own loss"}
    charts = [loss_chart(result, column, title) for column, title in columns.items()]
    return [chart for chart in charts if chart.lines]


def loss_chart(result: DistilResult, column: str, title: str) -> LineChart:
    several, runs = len(result.seeds) > 1, {row.method: result.of(row.method) for row in result.rows}
    lines = [band_line(method, [getattr(run, column) for run in own], several) for method, own in runs.items()]
    known = [line for line in lines if line.x]
    return LineChart(title, STEP, LOSS, known, READS if several else "one seed", name=f"chart-{column}")

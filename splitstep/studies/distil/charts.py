"""Charts of the study: figures with intervals, distance to the teacher by layer, loss curves."""

from __future__ import annotations

from collections.abc import Sequence

from ...distillation.judging.pairs import LayerDistance
from ...experiments.statistics import Estimate
from ...report.charts import Axis, Line, LineChart, Point, PointChart, SmallMultiples
from ..compare.charts import LOSS, STEP, band
from .result import START, DistilResult

LAYER = Axis("layer of the student", "{:.0f}", apart=1)
DISTANCE = Axis("1 - CKA", "{:.3f}")
BAND = "mean [least, greatest seed]"


def figure_charts(result: DistilResult) -> SmallMultiples:
    """ROUGE-L and bits per byte: a dot with its interval for each method."""
    rouge = dots("ROUGE-L", Axis("points", "{:.2f}"), [(row.method, row.rouge) for row in result.rows])
    bits = dots(
        "Bits per byte of answers", Axis("bits per byte", "{:.3f}"),
        [(row.method, row.bits_per_byte) for row in result.rows],
    )  # fmt: skip
    return SmallMultiples("Figures", [rouge, bits])


def dots(title: str, y: Axis, found: Sequence[tuple[str, Estimate | None]]) -> PointChart:
    """Methods beside each other; their place along x has no meaning."""
    x = Axis("", "", shown=(-0.5, len(found) - 0.5))
    points = [Point(name, place, *one[:3], one.lacks) for place, (name, one) in enumerate(found) if one is not None]
    return PointChart(title, x, y, points, "mean [95% interval]", f"chart-{title.split()[0].lower()}")


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
    reads = BAND if len(result.seeds) > 1 else ""
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
    lines, several = list[Line](), len(result.seeds) > 1
    for row in result.rows:
        steps, low, mean, high = band([getattr(run, column) for run in result.of(row.method)])
        if steps:
            lines.append(Line(row.method, steps, mean, *((low, high) if several else ())))
    return LineChart(title, STEP, LOSS, lines, BAND if several else "one seed", name=f"chart-{column}")

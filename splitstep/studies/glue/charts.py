"""Charts of the study: every row with its interval, task by task."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from ...report.charts import Axis, Point, PointChart, SmallMultiples
from ...tasks.glue import PARTS
from ..statistics import Estimate
from .result import GlueResult

READS = "points, mean [95% interval]"


def score_charts(result: GlueResult) -> SmallMultiples:
    """The mean and every task's score: a dot with its interval for each row, and the majority."""
    majority = {one.task: one.score for one in result.majority}
    charts = list[PointChart]()
    if result.in_mean:
        means = [(row.title, row.mean) for row in result.rows]
        charts.append(chart("mean", means, fmean(majority[task] for task in result.in_mean)))
    for task in result.tasks:
        found = [(row.title, row.on(task).score) for row in result.rows]
        charts.append(chart(PARTS[task].folder, found, majority[task]))
    return SmallMultiples("Scores", charts)


def chart(title: str, found: list[tuple[str, Estimate | None]], majority: float) -> PointChart:
    """Rows beside each other; their place along x has no meaning, so nothing is written there."""
    x = Axis("", "", shown=(-0.5, len(found) + 0.5))
    return PointChart(
        title, x, Axis("points", "{:.1f}"), list(points(found, majority)), READS, f"chart-{title.lower()}"
    )


def points(found: list[tuple[str, Estimate | None]], majority: float) -> Iterator[Point]:
    for place, (name, one) in enumerate(found):
        if one is not None:
            yield Point(name, place, *one[:3], one.lacks)
    yield Point("majority", len(found), majority)

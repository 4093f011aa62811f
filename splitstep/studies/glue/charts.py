"""Charts of the study: every row with its interval, task by task."""

from __future__ import annotations

from collections.abc import Sequence

from ...experiments.statistics import Estimate
from ...report.charts import Axis, Point, PointChart, SmallMultiples
from ...tasks.glue import PARTS
from .result import GlueResult

READS = "points, mean [95% interval]"


def score_charts(result: GlueResult) -> SmallMultiples:
    """The mean and every task's score: a dot with its interval for each row. The majority is in the table alone: it is
    often so far below that nothing else could be told apart."""
    means = [chart("mean", [(row.title, row.mean) for row in result.rows])] if result.in_mean else []
    tasks = [
        chart(PARTS[task].folder, [(row.title, row.on(task).score) for row in result.rows]) for task in result.tasks
    ]
    return SmallMultiples("Scores", [*means, *tasks])


def chart(title: str, found: Sequence[tuple[str, Estimate | None]]) -> PointChart:
    """Rows beside each other; their place along x has no meaning, so nothing is written there."""
    x = Axis("", "", shown=(-0.5, len(found) - 0.5))
    points = [Point(name, place, *one[:3], one.lacks) for place, (name, one) in enumerate(found) if one is not None]
    return PointChart(title, x, Axis("points", "{:.1f}"), points, READS, f"chart-{title.lower()}")

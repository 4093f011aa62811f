"""What the study says: GLUE with intervals, charts, claims, differences, runs, how to reproduce them."""

from __future__ import annotations

from ...experiments.sections import dots, pictures, reproduce, summary
from ...report.charts import Axis, SmallMultiples
from ...report.document import Document
from ...tasks.glue import PARTS
from .claims import glue_verdict
from .result import GlueResult
from .tables import glue_tables

POINTS = Axis("points", "{:.1f}")


def document(result: GlueResult) -> Document:
    """The whole document."""
    main, *others, runs = glue_tables(result)
    counts = {"pre-trained network": len(result.bodies), "task": len(result.tasks)}
    parts = [
        summary(result.made, result.runs, counts),
        main,
        score_charts(result),
        *others,
        *pictures((row.name, row.scheme) for row in result.rows),
        runs,
        *reproduce(result.made, result.runs, "splitstep.studies.glue.glue(...)"),
    ]
    return Document(f"GLUE: {', '.join(row.title for row in result.rows)}", parts, glue_verdict(result))


def score_charts(result: GlueResult) -> SmallMultiples:
    """The mean and every task's score: a dot with its interval for each row. The majority is in the table alone: it is
    often so far below that nothing else could be told apart."""
    found = {"mean": [(row.title, row.mean) for row in result.rows]} if result.in_mean else {}
    found |= {PARTS[task].folder: [(row.title, row.on(task).score) for row in result.rows] for task in result.tasks}
    charts = [
        dots(title, POINTS, rows, "points, mean [95% interval]", f"chart-{title.lower()}")
        for title, rows in found.items()
    ]
    return SmallMultiples("Scores", charts)

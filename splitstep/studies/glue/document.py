"""What the study says: GLUE with intervals, charts, claims, differences, runs, how to reproduce them."""

from __future__ import annotations

from ...experiments.sections import pictures, reproduce, summary
from ...report.document import Document
from .charts import score_charts
from .result import GlueResult
from .tables import glue_tables
from .verdict import glue_verdict


def document(result: GlueResult) -> Document:
    """The whole document."""
    main, *others, runs = glue_tables(result)
    counts = {"pre-trained network": len(result.bodies), "task": len(result.tasks), "run": len(result.runs)}
    parts = [
        summary(result, counts),
        main,
        score_charts(result),
        *others,
        *pictures((row.name, row.scheme) for row in result.rows),
        runs,
        *reproduce(result, "splitstep.studies.glue.glue(...)"),
    ]
    return Document(f"GLUE: {', '.join(row.title for row in result.rows)}", parts, glue_verdict(result))

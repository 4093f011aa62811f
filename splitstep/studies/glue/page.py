"""The page of the study."""

from __future__ import annotations

from html import escape

from ...report.diagram import diagrams
from ...report.drawing import chart_to_html
from ...report.page import page
from ...report.tables import to_html
from ...report.verdict import verdict_to_html
from ...schemes import scheme
from ..reproduce import reproduce, summary
from .charts import score_charts
from .result import GlueResult
from .tables import glue_tables
from .verdict import glue_verdict


def glue_page(result: GlueResult) -> str:
    """The whole page: the verdict, GLUE with intervals, charts, claims, differences, runs, how to reproduce."""
    main, *others, runs = map(to_html, glue_tables(result))
    title = f"GLUE: {', '.join(row.title for row in result.rows)}"
    names = {row.name: row.scheme for row in result.rows}
    counts = {"pre-trained network": len(result.bodies), "task": len(result.tasks), "run": len(result.runs)}
    body = [
        f"<h1>{escape(title)}</h1>",
        verdict_to_html(glue_verdict(result)),
        summary(result, counts),
        main,
        chart_to_html(score_charts(result)),
        *others,
        "<h2>The schemes</h2>",
        diagrams((name, scheme(notation)) for name, notation in names.items()),
        runs,
        *reproduce(result, "splitstep.studies.glue.glue(...)"),
    ]
    return page(title, body)

"""The page of the study."""

from __future__ import annotations

from html import escape

from ...report.drawing import chart_to_html
from ...report.page import page, side_by_side
from ...report.tables import to_html
from ...report.verdict import verdict_to_html
from ...support.words import counted
from ..compare.page import BAND
from ..reproduce import reproduce, summary
from .charts import distance_chart, figure_charts, loss_charts
from .result import DistilResult, Said, Shown
from .tables import distil_tables
from .verdict import distil_verdict


def distil_page(result: DistilResult) -> str:
    """The whole page: the verdict, figures with intervals, charts, claims, answers side by side, runs."""
    main, *others, runs = map(to_html, distil_tables(result))
    title = f"Distillation: {', '.join(row.method for row in result.rows)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        verdict_to_html(distil_verdict(result)),
        summary(result, {"method": len(result.rows), "seed": len(result.seeds), "run": len(result.runs)}),
        main,
        chart_to_html(figure_charts(result)),
        *others,
        *charts(result),
        *answers(result),
        runs,
        *reproduce(result, "splitstep.studies.distil.compare_methods(...)"),
    ]
    return page(title, body)


def charts(result: DistilResult) -> list[str]:
    distance = distance_chart(result)
    losses = [chart_to_html(chart) for chart in loss_charts(result)]
    found = [*([chart_to_html(distance)] if distance else []), *([side_by_side(losses)] if losses else [])]
    return [*found, f'<p class="soft">{BAND}</p>'] if found and len(result.seeds) > 1 else found


def answers(result: DistilResult) -> list[str]:
    """Some instructions, each with the reference and the answers of all models beside each other."""
    if not result.shown:
        return []
    note = "The first sampled answer of the teacher and of each method's first seed, with its ROUGE-L in points."
    head = ["<h2>Answers side by side</h2>", f'<p class="soft">{escape(note)}</p>']
    most = result.data["answers"]["max_tokens"]
    return [*head, *(part for one in result.shown for part in answered(one, most))]


def answered(one: Shown, most: int) -> list[str]:
    asked = f"<h3>{escape(one.set)}</h3><pre>{escape(one.instruction)}</pre>"
    return [asked, side_by_side([answer(said, most) for said in one.answers])]


def answer(said: Said, most: int) -> str:
    """An answer under its author, its ROUGE-L and whether it is cut off, for it has the most tokens."""
    score = "" if said.rouge is None else f", {said.rouge:.1f}"
    cut, more = (f", cut off after {counted(most, 'token')}", " …") if said.ended is False else ("", "")
    text = escape(said.text) or "(nothing)"
    return f'<p class="soft">{escape(said.who)}{score}{cut}</p><pre class="answer" tabindex="0">{text}{more}</pre>'

"""What the study says: figures with intervals, charts, claims, answers side by side, runs."""

from __future__ import annotations

from ...experiments.sections import reproduce, summary
from ...report.document import Beside, Document, Heading, Note, Part, Stacked, Verbatim
from ...support.words import counted
from ..compare.document import BAND
from .charts import distance_chart, figure_charts, loss_charts
from .result import DistilResult, Said, Shown
from .tables import distil_tables
from .verdict import distil_verdict


def document(result: DistilResult) -> Document:
    """The whole document."""
    main, *others, runs = distil_tables(result)
    parts = [
        summary(result, {"method": len(result.rows), "seed": len(result.seeds), "run": len(result.runs)}),
        main,
        figure_charts(result),
        *others,
        *charts(result),
        *answers(result),
        runs,
        *reproduce(result, "splitstep.studies.distil.compare_methods(...)"),
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

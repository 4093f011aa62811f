"""Studies: each is a function that returns a typed result, and a `Study` that says how to read and show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..report.page import page
from ..report.tables import Table, to_html, to_terminal
from ..report.verdict import Verdict, verdict_to_html, verdict_to_terminal
from ..support.files import write_atomically
from ..support.registry import Registry
from ..support.typed import read_as
from ..support.words import did_you_mean

if TYPE_CHECKING:
    from rich.console import RenderableType

R = TypeVar("R")  # a study's result; its `document()` is the result as JSON, with the study's name as "study"


@dataclass(frozen=True)
class Study(Generic[R]):
    """How the results of one study are read and shown."""

    title: str
    read: Callable[[Any, str], R]  # from a document and the name of its file, for errors
    tables: Callable[[R], Sequence[Table]]
    page: Callable[[R], str] | None = None  # HTML; without it the page holds the tables
    tables_together: Callable[[Sequence[tuple[str, R]]], Sequence[Table]] | None = None  # each with its folder
    against: Callable[[R, str], R] | None = None  # the result with differences to the scheme named
    verdict: Callable[[R], Verdict] | None = None  # what the result says in one sentence, at the top of everything

    def to_terminal(self, result: R) -> RenderableType:
        """The verdict, then the tables."""
        from rich.console import Group

        begin = [verdict_to_terminal(self.verdict(result))] if self.verdict else []
        return Group(*begin, to_terminal(self.tables(result)))

    def write_page(self, result: R, folder: Path) -> Path:
        """Write report.html into a folder."""
        write_atomically(folder / "report.html", self.page(result) if self.page else self.plain_page(result))
        return folder / "report.html"

    def plain_page(self, result: R) -> str:
        """The title, the verdict and the tables."""
        begin = [verdict_to_html(self.verdict(result))] if self.verdict else []
        return page(self.title, [f"<h1>{escape(self.title)}</h1>", *begin, *map(to_html, self.tables(result))])

    def all_tables(self, results: Sequence[tuple[str, R]]) -> Sequence[Table]:
        """The tables of several results: common ones, or one after the other."""
        if self.tables_together is not None:
            return self.tables_together(results)
        return [table for _, result in results for table in self.tables(result)]


def _checked(value: Any) -> Study[Any]:
    if not isinstance(value, Study):
        raise ValueError(f"it is {value!r}, but must be a splitstep.studies.Study")
    return value


PATHS = {
    "ablate": "splitstep.studies.ablate:STUDY",
    "approximate": "splitstep.studies.approximate:STUDY",
    "compare": "splitstep.studies.compare:STUDY",
    "discretisation": "splitstep.studies.converge.discretisation_report:STUDY",
    "discretised-flow": "splitstep.studies.converge.pretrained_report:STUDY",
    "distil": "splitstep.studies.distil:STUDY",
    "glue": "splitstep.studies.glue:STUDY",
    "inspect": "splitstep.studies.inspect:STUDY",
    "limit": "splitstep.studies.converge.limit_report:STUDY",
    "orders": "splitstep.studies.orders:STUDY",
}
STUDIES = Registry("study", None, "studies", _checked, PATHS)


def study_of(document: Any, where: str) -> Study[Any]:
    """The study that wrote a document."""
    name = document.get("study") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise ValueError(f"{where} is not the result of a study: name a directory that `splitstep compare` wrote.")
    if name not in STUDIES:
        raise ValueError(f"{where} is of the study {name!r}, which is not installed. {did_you_mean(name, STUDIES)}")
    return STUDIES[name]


def read_document(kind: type[R], document: Any, where: str, format: int) -> R:
    """A result from its document, which must have this format and be complete."""
    if document.get("format") != format:
        raise ValueError(f"{where} has format {document.get('format')}; this splitstep reads format {format}.")
    try:
        return read_as(kind, document, "the document")
    except ValueError as error:
        raise ValueError(f"{where} is damaged: {error}. Run the study again.") from None

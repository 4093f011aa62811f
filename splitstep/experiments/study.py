"""Studies by name: how the results of each are read, and the document that each makes of a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..report.document import Document
from ..report.drawing import document_to_page
from ..report.tables import Table
from ..support.documents import readable
from ..support.registry import Registry
from ..support.typed import read_as
from ..support.words import did_you_mean

R = TypeVar("R")  # a study's result; its `json()` has the study's name as "study"
Named = Sequence[tuple[str, R]]  # results, each with the name of its folder


@dataclass(frozen=True)
class Study(Generic[R]):
    """How the results of one study are read and shown."""

    kind: type[R]  # of its results: a `Result` with the study's name and the format of its JSON
    document: Callable[[R], Document]
    together: Callable[[Named[R]], Sequence[Table]] | None = None  # common tables of several results
    against: Callable[[R, str], R] | None = None  # the result with differences to the scheme named
    renewed: Callable[[R], R] | None = None  # the result of an older version as this one would say it
    converted: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None  # its JSON as this version writes it

    def read(self, document: Any, where: str) -> R:
        """A result from its JSON values, which must have the study's format and be complete; `where` is the name of
        their file, for errors."""
        kind: Any = self.kind
        if document.get("format") != kind.format:
            raise ValueError(f"{where} has format {document.get('format')}; this splitstep reads format {kind.format}.")
        try:
            current = document if self.converted is None else self.converted(document)
            found = read_as(self.kind, current, "the document")
        except ValueError as error:
            raise ValueError(f"{where} is damaged: {error}. Run the study again.") from None
        with readable(where, "run the study again."):
            found = found if self.renewed is None else self.renewed(found)
            document_to_page(self.document(found))
        return found

    def tables(self, results: Named[R]) -> Sequence[Table]:
        """The tables of several results: common ones, or one after the other."""
        if self.together is not None:
            return self.together(results)
        return [table for _, result in results for table in self.document(result).tables]


def _checked(value: Any) -> Study[Any]:
    if not isinstance(value, Study):
        raise ValueError(f"it is {value!r}, but must be a splitstep.experiments.study.Study")
    return value


PATHS = {
    "ablate": "splitstep.studies.ablate:STUDY",
    "approximate": "splitstep.studies.approximate:STUDY",
    "compare": "splitstep.studies.compare:STUDY",
    "discretisation": "splitstep.studies.converge.discretised_document:DISCRETISATION",
    "discretised-flow": "splitstep.studies.converge.discretised_document:DISCRETISED_FLOW",
    "distil": "splitstep.studies.distil:STUDY",
    "glue": "splitstep.studies.glue:STUDY",
    "inspect": "splitstep.studies.inspect:STUDY",
    "limit": "splitstep.studies.converge.limit_document:STUDY",
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

"""A study of somebody else's: a typed result and what it says."""

from dataclasses import dataclass

from splitstep.experiments.result import Result
from splitstep.experiments.study import Study
from splitstep.report.document import Document
from splitstep.report.tables import Column, Table


@dataclass(frozen=True)
class Tally(Result):
    """How often each word was counted."""

    study = "tally"

    words: dict[str, int]


def document(result: Tally) -> Document:
    columns = (Column("word", text=True), Column("times"))
    rows = [(word, f"{times:,}") for word, times in result.words.items()]
    return Document("Tally", [Table(columns, rows, title="A tally")])


TALLY = Study(Tally, document)

"""A study of somebody else's: a typed result, how it is read and its table."""

from dataclasses import asdict, dataclass
from typing import Any

from splitstep.report.tables import Column, Table
from splitstep.studies import Study
from splitstep.support.typed import read_as


@dataclass(frozen=True)
class Tally:
    """How often each word was counted."""

    words: dict[str, int]

    def document(self) -> dict[str, Any]:
        return {"study": "tally", **asdict(self)}


def read(document: Any, where: str) -> Tally:
    return read_as(Tally, document, where)


def tables(result: Tally) -> list[Table]:
    columns = (Column("word", text=True), Column("times"))
    return [Table(columns, [(word, f"{times:,}") for word, times in result.words.items()], title="A tally")]


TALLY = Study("Tally", read, tables)

"""What every study returns: a record that becomes JSON, a document, a page, a table of figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..report.document import Document
from ..report.drawing import document_to_page
from ..report.result import Report
from ..support.files import write_atomically
from ..support.typed import json_text, plain
from .study import STUDIES

RESULT, PAGE = "result.json", "report.html"
RECORDS = ("trials", "runs", "networks", "ways", "rows")  # entries with a record for each, the finest first


class Result(Report):
    """A result; a study's own is a frozen dataclass of this kind, which names its study and the format of its JSON."""

    study: ClassVar[str]
    format: ClassVar[int] = 1

    def json(self) -> dict[str, Any]:
        """The result as JSON values, as the study's `read` takes them."""
        return {"study": self.study, "format": self.format, **plain(self)}

    def document(self) -> Document:
        """What the result says."""
        return STUDIES[self.study].document(self)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The figures row by row, such as those of each run."""
        found = self.json()
        return next((found[name] for name in RECORDS if name in found), None) or super().records()

    def save(self, folder: Path) -> Path:
        """Write result.json and report.html into a folder, and return the page."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / RESULT, json_text(self.json()))
        return self.save_page(folder)

    def save_page(self, folder: Path) -> Path:
        """Write report.html into a folder."""
        write_atomically(folder / PAGE, document_to_page(self.document()))
        return folder / PAGE

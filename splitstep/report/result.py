"""What a verb returns, for people who work in Python: one sentence, a table of figures, a chart and a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .document import Document, Verdict
from .drawing import document_to_notebook

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Report(ABC):
    """JSON values and a document; the rest is made of these."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """The result as JSON values."""

    @abstractmethod
    def document(self) -> Document:
        """What the result says."""

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The figures, row by row: here the cells of the first table, as it prints them."""
        tables = self.document().tables
        return tables[0].records() if tables else []

    @property
    def verdict(self) -> Verdict | None:
        """The result in one sentence."""
        return self.document().verdict

    def frame(self) -> DataFrame:
        """The figures as a DataFrame of pandas, one row for each run, network or scheme."""
        try:
            from pandas import json_normalize
        except ImportError:
            raise ModuleNotFoundError("frame() needs pandas: pip install pandas") from None
        return json_normalize([dict(one) for one in self.records()])

    def plot(self, name: str | None = None) -> Figure:
        """A chart of the page as a figure of Matplotlib: the one of this title, else the first."""
        from .figures import figure_of

        return figure_of(self.document().chart(name))

    def _repr_html_(self) -> str:
        return document_to_notebook(self.document())

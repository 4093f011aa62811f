"""What documents of discretisations share: tables and charts of schemes by sub-steps, step lengths, local errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from ...notation import shortened
from ...report.charts import Axis, Line, LineChart
from ...report.tables import Code, Column, Table
from ...schemes import label
from .local_errors import LocalError

LIMIT = "continuous limit"
NOT_DEFINED = "not defined"  # the splitting part of a scheme that splits nothing
FACTOR = Axis("factor of the step", "{:.3g}", log=True)
SUBSTEPS = Axis("sub-steps of each layer", "{:,.0f}", log=True)
ERRORS_NOTE = (
    "Errors of one step from the network's own state, relative to how far the exact step moves it. Splitting: the same "
    "splitting with exact sub-flows against the exact flow. Sub-flows: the step against that splitting. Leading term: "
    "the commutator, h\u00b2/2 [A, F] for A F. The parts are vectors, so their lengths do not sum to the whole."
)


class Tried(Protocol):
    """What a way to run a network changes; without a scheme the way is the continuous limit."""

    @property
    def scheme(self) -> str | None: ...
    @property
    def substeps(self) -> int: ...
    @property
    def factor(self) -> float: ...


T = TypeVar("T", bound=Tried)
Figures = Mapping[Column, str]


def name_of(one: Tried) -> str:
    return LIMIT if one.scheme is None else shortened(label(one.scheme))


def scrolling(tables: Iterable[Table]) -> list[Table]:
    """The tables that have rows, never as cards."""
    return [replace(table, stacked=False) for table in tables if table.rows]


def ways_table(
    ways: Sequence[T], figures: Callable[[T], Figures], notes: Sequence[str] = (), below: bool = False
) -> Table:
    """A row for each scheme with so many sub-steps."""
    records = [
        {
            Column("scheme", text=True, grouped=True): name_of(one),
            Column("notation", text=True, grouped=True, below=below): Code(shortened(one.scheme or "")),
            Column("sub-steps"): str(one.substeps),
            **figures(one),
        }
        for one in ways
    ]
    return Table.of(records, "Schemes and sub-steps", notes)


def lengths_table(ways: Sequence[T], figures: Callable[[T], Figures], note: str) -> Table:
    """A row for each factor of the step."""
    records = [{Column("step"): f"{one.factor:.3g} \u00d7", **figures(one)} for one in ways]
    return Table.of(records, "Step lengths", [note])


def lines_by_scheme(ways: Sequence[T], line: Callable[[str, list[int], list[T]], Line]) -> list[Line]:
    """A line for each scheme: its name, the numbers of sub-steps, and what they change."""
    by = {text: [one for one in ways if one.scheme == text] for text in dict.fromkeys(one.scheme for one in ways)}
    return [line(name_of(some[0]), [one.substeps for one in some], some) for some in by.values()]


def errors_table(errors: Sequence[LocalError], note: str) -> Table:
    records = [
        {
            Column("layer"): str(one.layer),
            Column("error"): f"{one.total:.3f}",
            Column(("splitting", "part")): NOT_DEFINED if one.splitting is None else f"{one.splitting:.3f}",
            Column(("sub-flow", "part")): f"{one.subflow:.3f}",
            Column(("leading", "term")): "" if one.leading is None else f"{one.leading:.3f}",
            Column(("reference's", "own error")): f"{one.reference:.0e}",
        }
        for one in errors
        if one.factor == 1
    ]
    return Table.of(records, "Local error of each layer", [f"{ERRORS_NOTE} {note}"])


def errors_chart(errors: Sequence[LocalError], step: float) -> LineChart:
    """The local error of each layer and its two parts, as far as it has them."""
    own = [one for one in errors if one.factor == 1]
    times = [one.layer * step for one in own]
    parts = {
        "error": [one.total for one in own],
        "splitting part": [one.splitting for one in own if one.splitting is not None],
        "sub-flow part": [one.subflow for one in own],
    }
    lines = [Line(name, times, values) for name, values in parts.items() if values]
    x, y = Axis("t at the start of the layer", "{:,.3g}"), Axis("relative to the step", "{:.3f}", log=True)
    return LineChart("Local error of each layer", x, y, lines, name="chart-local")

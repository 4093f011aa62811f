"""The local error of each layer as a table and a chart."""

from __future__ import annotations

from collections.abc import Sequence

from ...report.charts import Axis, Line, LineChart
from ...report.tables import Column, Table
from .local_errors import LocalError

NOT_DEFINED = "not defined"  # the splitting part of a scheme that splits nothing
NOTE = (
    "Errors of one step from the network's own state, relative to how far the exact step moves it. Splitting: the same "
    "splitting with exact sub-flows against the exact flow. Sub-flows: the step against that splitting. Leading term: "
    "the commutator, h\u00b2/2 [A, F] for A F. The parts are vectors, so their lengths do not sum to the whole."
)


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
    return Table.of(records, "Local error of each layer", [f"{NOTE} {note}"])


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

"""Comparisons as one Markdown table, for a README or a paper's draft."""

from __future__ import annotations

from collections.abc import Sequence

from ..studies.compare import Comparison, Row
from ..tasks.task import title_of

HEADS = ("task", "metric", "scheme", "test [95%]", "against the first [95%]", "parameters", "FLOPs/token")


def markdown(results: Sequence[Comparison]) -> str:
    """A row per scheme of each comparison; task and metric stand at its first row."""
    lines = [HEADS, ("---",) * len(HEADS)]
    for result in results:
        lines += [_cells(result, row) for row in result.rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(result: Comparison, row: Row) -> tuple[str, ...]:
    first = row is result.rows[0]
    name = row.name if row.name == row.scheme else f"{row.name}, `{row.scheme}`"
    lost = f", {row.diverged} of {row.diverged + row.finished} diverged" if row.diverged else ""
    return (
        result.task if first else "",
        title_of(result.metric) if first else "",
        ", ".join([name, *row.setting]).replace("|", "\\|") + lost,
        result.interval(row.test).replace("\n", " "),
        "" if first else result.interval(row.difference, signed=True).replace("\n", " "),
        f"{row.cost['parameters']:,}",
        f"{row.cost['flops']:,}",
    )

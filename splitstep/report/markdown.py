"""Comparisons as one Markdown table, for a README or a paper's draft."""

from __future__ import annotations

from collections.abc import Sequence

from ..studies.comparison import Comparison, Row
from ..studies.rows import rows_of
from ..tasks.task import title_of

HEADS = ("task", "metric", "scheme", "test [95%]", "against the first [95%]", "parameters", "FLOPs/token")


def markdown(results: Sequence[Comparison]) -> str:
    """A row per scheme of each comparison, and per setting of its sweep; task and metric stand at the first."""
    lines = [HEADS, ("---",) * len(HEADS)]
    for result in results:
        for rows in by_setting(result):
            lines += [_cells(result, row, first=row is rows[0]) for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def by_setting(result: Comparison) -> list[Sequence[Row]]:
    """The rows of each setting, compared with the first scheme at the same one."""
    if not result.sweep:
        return [result.rows]
    return [rows_of([t for t in result.trials if t.setting == setting], result.metric) for setting in result.sweep]


def _cells(result: Comparison, row: Row, first: bool) -> tuple[str, ...]:
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

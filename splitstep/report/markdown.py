"""Comparisons as Markdown tables, for a README or a paper's draft."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..notation import shortened
from ..schemes import label
from ..studies.compare.losses import SPLITS, losses
from ..studies.compare.result import Comparison, Row
from ..studies.compare.rows import rows_of
from ..studies.compare.test_splits import OnTestSet, Scored
from ..support.words import counted
from ..tasks.task import title_of

HEADS = ("task", "metric", "scheme", "test [95%]", "against the first [95%]", "parameters", "FLOPs/token")


def markdown(results: Sequence[tuple[str, Comparison]]) -> str:
    """A row per scheme of each comparison, and per setting of its sweep; then the test sets of those that have some.

    Each comparison comes with what to call it. Those whose test sets have the same scores share a table of these.
    """
    lines, alike = [HEADS], dict[tuple[Hashable, ...], list[tuple[str, Comparison]]]()
    for name, result in results:
        for rows in by_setting(result):
            lines += [_cells(name, result, row, first=row is rows[0]) for row in rows]
        scores = tuple((one.key, one.name, one.signature, one.comparable) for one in result.main_scores())
        if scores:
            alike.setdefault(scores, []).append((name, result))
    return "\n".join([_table(lines), *(table for group in alike.values() for table in _test_sets(group))])


def loss_table(results: Sequence[tuple[str, Comparison]]) -> str:
    """A row per scheme of each comparison with its losses in training, validation and test."""
    heads = [text for split in SPLITS for text in (f"{split} loss", "against the first [95%]")]
    lines = [("task", "scheme", *heads)]
    for name, result in results:
        for rows in by_setting(result):
            for row, found in zip(rows, losses(result, rows), strict=True):
                cells = (text for one in found for text in (one.text(), one.difference_text()))
                lines.append((name if row is rows[0] else "", _scheme(row), *cells))
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a table, heads first; what breaks a line or a cell elsewhere does not here."""
    written = [[cell.replace("|", "\\|").replace("\n", " ") for cell in cells] for cells in lines]
    written.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in written)


def by_setting(result: Comparison) -> list[Sequence[Row]]:
    """The rows of each setting, compared with the first scheme at the same one."""
    if not result.sweep:
        return [result.rows]
    return [rows_of([t for t in result.trials if t.setting == setting], result.metric) for setting in result.sweep]


def _scheme(row: Row) -> str:
    scheme = row.name if row.name == row.scheme else f"{row.name}, `{row.scheme}`"
    return ", ".join(filter(None, [scheme, *row.setting, row.lost]))


def _cells(name: str, result: Comparison, row: Row, first: bool) -> tuple[str, ...]:
    return (
        name if first else "",
        title_of(result.metric) if first else "",
        _scheme(row),
        result.interval(row.test),
        "" if first else result.interval(row.difference, signed=True),
        f"{row.cost.parameters:,}",
        f"{row.cost.flops:,}",
    )


def _test_sets(results: Sequence[tuple[str, Comparison]]) -> list[str]:
    """Every scheme on every test set with all its scores, and what these scores are, the same for all."""
    metric, *others = scores = results[0][1].main_scores()
    heads = ("test set", "scheme", f"{metric.name} [95%]", "against the first [95%]", "seeds apart, p < 0.05")
    rows = [_scores(name, result, one, metric, others) for name, result in results for one in result.tests]
    star = "; *: not comparable with published scores"
    signatures = [(one.name, f"`{one.signature}`{'' if one.comparable else star}") for one in scores]
    return [_table([(*heads, *(one.name for one in others)), *rows]), _table([("score", "signature"), *signatures])]


def _scores(name: str, result: Comparison, one: OnTestSet, metric: Scored, others: Sequence[Scored]) -> tuple[str, ...]:
    found = one.score(metric.key)
    return (
        f"{name} {one.split}, {counted(one.lines, 'line')}" if one.scheme == result.rows[0].scheme else "",
        shortened(label(one.scheme)),
        "-" if found is None else result.interval(found.mean),
        result.test_difference(one),
        result.told_apart(one).replace("\n", ", "),
        *(result.score_text(one.score(other.key)) for other in others),
    )

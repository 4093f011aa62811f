"""Cells and tables that several studies have: figures with intervals, how runs ended, differences, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..report.tables import Cell, Column, Record, Table
from ..training.result import RunOutcome
from .claims import Claim
from .experiment import Difference
from .statistics import Estimate


def signed(form: str) -> str:
    """The format of a figure, for differences."""
    return form.replace("{:", "{:+")


def estimated(value: Estimate | None, form: str) -> Cell:
    """A mean with its interval below it."""
    if value is None:
        return "-"
    if value.low is None or value.high is None:
        return form.format(value.mean), f"({value.lacks})"
    return form.format(value.mean), f"[{form.format(value.low)}, {form.format(value.high)}]"


def status_cell(trial: RunOutcome) -> Cell:
    """How a run ended, and where it diverged."""
    found = trial.diverged
    return (trial.status, f"step {found.step}", f"loss {found.loss}", f"layer {found.layer}") if found else trial.status


def claims_table(claims: Sequence[Claim], page: str) -> list[Table]:
    """The claims; none if nothing was claimed. `page` states the rule."""
    heads = [Column(head, text=True) for head in ("claim", "answer", "figures")]
    rows = [(one.question, one.answer, one.evidence) for one in claims]
    return [Table(heads, rows, "What the rule says", [f"The rule stands in {page}."])] if rows else []


def differences_table(
    found: Sequence[Difference], name: Column, forms: Mapping[str, tuple[str, str]], note: str
) -> list[Table]:
    """A row for each pair of arms, and a column for each figure of `forms`: its head and how it is written."""
    pairs: dict[tuple[str, str], dict[str, Difference]] = {}
    for one in found:
        pairs.setdefault((one.of, one.to), {})[one.what] = one
    records: list[Record] = [
        {
            name: f"{of} - {to}",
            Column("pairs"): str(max((len(one.seeds) for one in own.values()), default=0)),
            **{Column((head, "[95%]")): difference_cell(own.get(what), form) for what, (head, form) in forms.items()},
        }
        for (of, to), own in pairs.items()
    ]
    return [Table.of(records, "Differences", [note])] if records else []


def difference_cell(one: Difference | None, form: str) -> Cell:
    return "" if one is None else estimated(one.found, form)

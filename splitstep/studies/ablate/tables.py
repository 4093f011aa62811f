"""The tables of an ablation: each is a value, built once for the terminal, the page and Markdown."""

from __future__ import annotations

from ...notation import shortened
from ...report.tables import ON_PAGES, Cell, Code, Column, Record, Table
from ...support.words import counted
from ...tasks.task import title_of
from ..compare.tables import estimated, signed, status_cell
from .plan import rate_of
from .result import Ablation, ArmResult, Outcome

ARM = Column("arm", text=True)


def ablation_tables(result: Ablation) -> list[Table]:
    return [arms_table(result), runs_table(result)]


def arms_table(result: Ablation) -> Table:
    """Each arm at its own rate, and at the full arm's."""
    records = [arm_record(result, arm) for arm in result.arms]
    better = "higher" if result.metric.higher_is_better else "lower"
    rates = ", ".join(f"{rate:g}" for rate in result.rates)
    note = (
        f"{title_of(result.metric)}: {better} is better; mean over {counted(len(result.seeds), 'seed')}. Each arm's "
        f"own learning rate is the best of {rates} on validation, with the first seed. Differences to full are paired "
        "by seed. Intervals: 95%, Student's t over seeds. All arms have the same shape."
    )
    return Table.of(records, "Arms", [note])


def arm_record(result: Ablation, arm: ArmResult) -> Record:
    form, title = result.metric.format, title_of(result.metric)
    first = arm is result.full
    return {
        ARM: (arm.name, *(Code(shortened(f"{key}: {value}")) for key, value in arm.assignments.items())),
        Column("own rate"): f"{arm.own.rate:g}",
        Column((f"{title}, test", "[95%]")): tested(arm.own, form),
        Column(("against full", "[95%]")): "" if first else estimated(arm.own.difference, signed(form)),
        Column((f"at rate {result.full.own.rate:g}", "[95%]")): "" if first else tested(arm.shared, form),
    }


def tested(outcome: Outcome, form: str) -> Cell:
    """The test figure, and how many runs diverged."""
    runs = outcome.finished + len(outcome.lost)
    lost = (f"{len(outcome.lost)} of {runs} diverged",) if outcome.lost else ()
    if outcome.test is None:
        return lost or "-"
    found = estimated(outcome.test, form)
    return (*((found,) if isinstance(found, str) else found), *lost)


def runs_table(result: Ablation) -> Table:
    """Every run, including those of rates that were not chosen."""
    name, form = result.metric.name, result.metric.format
    rows = [
        [t.arm, f"{rate_of(t.setting):g}", str(t.seed), status_cell(t),
         *(form.format(found[name]) if found else "-" for found in (t.valid, t.test)), f"{t.seconds:,.1f}"]
        for t in result.trials
    ]  # fmt: skip
    heads = ("rate", "seed", "status", "valid", "test", "seconds")
    return Table([ARM, *map(Column, heads)], rows, "All runs", (), ON_PAGES, stacked=False)

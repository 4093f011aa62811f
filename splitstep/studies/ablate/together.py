"""Several ablations in common tables: the claims beside each other, and all arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...experiments.sections import estimated, signed
from ...report.tables import Cell, Code, Column, Record, Table
from ...tasks.measures import title_of
from .document import document
from .result import Ablation, ArmResult, Claim
from .tables import ARM, aligned, measured, tested
from .verdict import RULES

Named = tuple[str, Ablation]


def tables_together(results: Sequence[Named]) -> list[Table]:
    """The claims and the arms of several ablations; all tables of a single one."""
    if len(results) == 1:
        return document(results[0][1]).tables
    tasks = Counter(result.task for _, result in results)
    named = [(one.task if tasks[one.task] == 1 else f"{one.task} ({folder})", one) for folder, one in results]
    return [claims_beside(named), arms_below(named)]


def claims_beside(named: Sequence[Named]) -> Table:
    """Each claim's ruling in every ablation."""
    records = [
        {Column("claim", text=True): rule.text}
        | {Column(name, text=True): ruling(result, rule.name) for name, result in named}
        for rule in RULES
    ]
    return Table.of(
        records, "Claims", ["At each arm's own learning rate; that at the full arm's is told if it differs."]
    )


def ruling(result: Ablation, name: str) -> Cell:
    found: Claim = next(claim for claim in result.claims if claim.name == name)
    if found.ruling == found.at_shared_rate:
        return found.ruling
    return (found.ruling, f"at rate {result.full.own.rate:g}: {found.at_shared_rate}")


def arms_below(named: Sequence[Named]) -> Table:
    """A row for each arm of each ablation."""
    records = [arm_record(name, result, arm) for name, result in named for arm in result.arms]
    return Table.of(records, "Arms", ["Each arm at its own learning rate, mean over seeds."])


def arm_record(name: str, result: Ablation, arm: ArmResult) -> Record:
    form, own, first = result.metric.format, arm.own, arm is result.full
    return {
        Column("task", text=True): (name, title_of(result.metric)) if first else "",
        ARM: (arm.name, *(Code(f"{key}: {value}") for key, value in arm.assignments.items())),
        Column("own rate"): f"{own.rate:g}",
        Column(("test", "[95%]")): tested(own, form),
        Column(("against full", "[95%]")): "" if first else estimated(own.difference, signed(form)),
        Column(("cosine", "last layer, input")): measured(own, own.drift, "{:.3f}"),
        Column(("gradient growth", "per layer, largest")): measured(own, own.growth, "{:.3g}"),
        Column(("CKA with full", "minus two seeds'")): aligned(result, arm),
    }

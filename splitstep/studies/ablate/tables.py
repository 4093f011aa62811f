"""The tables of an ablation: each is a value, built once for the terminal, the page and Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...experiments.sections import estimated, signed, status_cell
from ...experiments.statistics import Estimate
from ...notation import shortened
from ...report.tables import NOT_ON_PAGES, ON_PAGES, Cell, Code, Column, Record, Table
from ...support.words import counted
from ...tasks.measures import title_of
from .plan import rate_of
from .records import BIAS
from .result import Ablation, ArmResult, Outcome

ARM = Column("arm", text=True)


def claims_table(result: Ablation) -> Table:
    """Each claim with its ruling, at the arms' own rates and at the full arm's."""
    records = [
        {
            Column("claim", text=True): claim.text,
            Column("verdict", text=True): claim.ruling,
            Column("by", text=True): claim.number,
            Column(f"at rate {result.full.own.rate:g}", text=True): claim.at_shared_rate,
        }
        for claim in result.claims
    ]
    note = "The verdict is that of each arm's own learning rate. The rules are in docs/theory/laboratory.md."
    return replace(Table.of(records, "Claims", [note]), detail=NOT_ON_PAGES)  # pages have the claims in words


def measures_table(result: Ablation) -> Table:
    """The figures that decide the claims."""
    records = [
        {
            ARM: arm.name,
            Column(("cosine", "last layer, input")): measured(arm.own, arm.own.drift, "{:.3f}"),
            Column(("gradient growth", "per layer, largest")): measured(arm.own, arm.own.growth, "{:.3g}"),
            Column(("CKA with full", "minus two seeds'")): aligned(result, arm),
            Column(("sensitivity", "exponent")): measured(arm.own, last(arm.own, "exponent"), "{:+.3f}"),
            Column(("entropy", "last layer, nats")): measured(arm.own, last(arm.own, "entropy"), "{:.2f}"),
        }
        for arm in result.arms
    ]
    return Table.of(records, "Measured at the end of training", ["Each arm at its own learning rate."])


def aligned(result: Ablation, arm: ArmResult) -> Cell:
    """How much less similar an arm is to the full one than another seed of it is."""
    return "" if arm is result.full else measured(arm.own, arm.own.alignment, "{:+.3f}")


def plain_mean(found: Estimate | None, form: str) -> Cell:
    return "-" if found is None else form.format(found.mean)


def measured(outcome: Outcome, found: Estimate | None, form: str) -> Cell:
    """A figure with its interval; if there is none because no run finished, that."""
    return "diverged" if found is None and not outcome.finished else estimated(found, form)


def last(outcome: Outcome, name: str) -> Estimate | None:
    """A figure of the last layer."""
    found = outcome.profiles.get(name)
    return found[-1] if found else None


def information_table(result: Ablation) -> list[Table]:
    """Every estimate of information in the last layer, with its bias on Gaussians; no table if there is none."""
    full = result.full.own.profiles
    records = [
        {
            Column("estimate", text=True): re.sub(r" (\w+) (?=\d)", r" \1, sigma ", name),
            Column(("bias", "on Gaussians")): plain_mean(last(result.full.own, f"{name}{BIAS}"), "{:+.3f}"),
        }
        | {Column(arm.name): measured(arm.own, last(arm.own, name), "{:.3f}") for arm in result.arms}
        for name in full
        if name.startswith("I(") and not name.endswith(BIAS)
    ]
    note = (
        "In nats, of the last layer at the end of training. T has few dimensions after a fixed projection, and noise "
        "of the given sigma relative to its spread. The bias is that for as many Gaussian samples."
    )
    return (
        [Table([*records[0]], [list(one.values()) for one in records], "Information", [note], ON_PAGES)]
        if records
        else []
    )


def attention_table(result: Ablation) -> list[Table]:
    """How far attention is from the full arm's, in the mean over layers and heads. No table if it was not compared."""
    heads = {"kl": "KL divergence", "jensen_shannon": "Jensen-Shannon", "cosine": "cosine"}
    records = [
        {ARM: (arm.name, *(("two seeds",) if arm is result.full else ()))}
        | {Column(head): mean_cell(arm.own.maps.get(name, ())) for name, head in heads.items()}
        for arm in result.arms
    ]
    rows = [list(one.values()) for one in records]
    note = "Means over layers, heads and seeds, in nats; the cosine is between the weights of a query."
    return [Table([*records[0]], rows, "", [note], ON_PAGES)] if any(arm.own.maps for arm in result.arms) else []


def mean_cell(rows: Sequence[Sequence[float]]) -> str:
    values = [value for row in rows for value in row]
    return f"{sum(values) / len(values):.3f}" if values else "-"


def lost_table(result: Ablation) -> list[Table]:
    """The runs that diverged: when, where first, and how the norms grew. No table if there are none."""
    records = [
        {
            ARM: t.arm,
            Column("rate"): f"{rate_of(t.setting):g}",
            Column("seed"): str(t.seed),
            Column("step"): f"{t.diverged.step:,}",
            Column("loss"): f"{t.diverged.loss:.3g}",
            Column("gradient norm"): f"{t.diverged.gradient_norm:.3g}",
            Column("first in layer"): str(t.diverged.layer),
            Column("state norms", text=True): ", ".join(f"{one:.3g}" for one in t.diverged.state_norms),
        }
        for t in result.trials
        if t.diverged is not None
    ]
    note = "State norms are those after the embedding and after each layer, on the batch of that step."
    return [Table.of(records, "Runs that diverged", [note])] if records else []


def replay_table(result: Ablation) -> list[Table]:
    """The trained full network without some of its structure. No table if nothing was replayed."""
    form, title = result.metric.format, title_of(result.metric)
    records = [
        {
            ARM: one.name,
            Column((f"{title}, test", "[95%]")): estimated(one.test, form),
            Column(("against full", "[95%]")): estimated(one.difference, signed(form)),
            Column(("cosine", "last layer")): estimated(one.cosine[-1] if one.cosine else None, "{:.3f}"),
            Column(("CKA", "last layer")): estimated(one.cka[-1] if one.cka else None, "{:.3f}"),
        }
        for one in result.replay
    ]
    note = "The weights of the trained full network, run without some of its structure, against the network itself."
    return [Table.of(records, "Replay", [note])] if records else []


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
        Column((f"at rate {result.full.own.rate:g}", "[95%]")): "" if first else at_shared_rate(arm, form),
    }


def at_shared_rate(arm: ArmResult, form: str) -> Cell:
    return "the same" if arm.own.rate == arm.shared.rate else tested(arm.shared, form)


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

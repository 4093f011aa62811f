"""The tables of an ablation, and those that several have in common."""

import re
from collections import Counter
from collections.abc import Sequence

from ...experiments import sections
from ...experiments.experiment import rate_of
from ...experiments.sections import difference_of, estimated, status_cell
from ...experiments.statistics import Estimate
from ...experiments.trials import Trial
from ...notation import shortened
from ...report.tables import NOT_ON_PAGES, ON_PAGES, Cell, Code, Column, Record, Table, lines
from ...support.words import counted
from ...tasks.measures import title_of
from .result import BIAS, RULES, Ablation, ArmResult, Outcome

ARM = Column("arm", text=True)
INTERVAL = "[95%]"


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
    return Table.of(records, "Claims", [note], NOT_ON_PAGES)  # pages have the claims in words


def arms_table(result: Ablation) -> Table:
    """Each arm at its own rate, and at the full arm's."""
    title, form = title_of(result.metric), result.metric.format
    at = Column((f"at rate {result.full.own.rate:g}", INTERVAL))
    better = "higher" if result.metric.higher_is_better else "lower"
    rates = ", ".join(f"{rate:g}" for rate in result.rates)
    note = (
        f"{title}: {better} is better; mean over {counted(len(result.seeds), 'seed')}. Each arm's "
        f"own learning rate is the best of {rates} on validation, with the first seed. Differences to full are paired "
        "by seed. Intervals: 95%, Student's t over seeds. All arms have the same shape."
    )

    def shared(arm: ArmResult) -> Cell:
        if arm is result.full:
            return ""
        return "the same" if arm.own.rate == arm.shared.rate else tested(arm.shared, form)

    records = [{**arm_cells(result, arm, f"{title}, test"), at: shared(arm)} for arm in result.arms]
    return Table.of(records, "Arms", [note])


def arm_cells(result: Ablation, arm: ArmResult, test: str) -> Record:
    """An arm, its own rate, its test figure there and the difference to the full arm."""
    form, changes = result.metric.format, (Code(shortened(f"{key}: {value}")) for key, value in arm.assignments.items())
    return {
        ARM: (arm.name, *changes),
        Column("own rate"): f"{arm.own.rate:g}",
        Column((test, INTERVAL)): tested(arm.own, form),
        Column(("against full", INTERVAL)): "" if arm is result.full else difference_of(arm.own.difference, form),
    }


def tested(outcome: Outcome, form: str) -> Cell:
    """The test figure, and how many runs diverged."""
    lost = (f"{len(outcome.lost)} of {outcome.runs} diverged",) if outcome.lost else ()
    if outcome.test is None:
        return lost or "-"
    return (*lines(estimated(outcome.test, form)), *lost)


def measures_table(result: Ablation) -> Table:
    """The figures that decide the claims."""
    records = [
        {
            ARM: arm.name,
            **deciding_cells(result, arm),
            Column(("sensitivity", "exponent")): measured(arm.own, last(arm.own, "exponent"), "{:+.3f}"),
            Column(("entropy", "last layer, nats")): measured(arm.own, last(arm.own, "entropy"), "{:.2f}"),
        }
        for arm in result.arms
    ]
    return Table.of(records, "Measured at the end of training", ["Each arm at its own learning rate."])


def deciding_cells(result: Ablation, arm: ArmResult) -> Record:
    """What decides the claims; the full arm has nothing that it is aligned with."""
    own, alone = arm.own, arm is result.full
    return {
        Column(("cosine", "last layer, input")): measured(own, own.drift, "{:.3f}"),
        Column(("gradient growth", "per layer, largest")): measured(own, own.growth, "{:.3g}"),
        Column(("CKA with full", "minus two seeds'")): "" if alone else measured(own, own.alignment, "{:+.3f}"),
    }


def measured(outcome: Outcome, found: Estimate | None, form: str) -> Cell:
    """A figure with its interval; if there is none because no run finished, that."""
    return "diverged" if found is None and not outcome.finished else estimated(found, form)


def last(outcome: Outcome, name: str) -> Estimate | None:
    """A figure of the last layer."""
    return next(reversed(outcome.profiles.get(name, ())), None)


def run_cells(trial: Trial) -> Record:
    """What names a run."""
    return {ARM: trial.arm, Column("rate"): f"{rate_of(trial.setting):g}", Column("seed"): str(trial.seed)}


def lost_table(result: Ablation) -> Table:
    """The runs that diverged: when, where first, and how the norms grew."""
    records = [
        {
            **run_cells(t),
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
    return Table.of(records, "Runs that diverged", [note])


def information_table(result: Ablation) -> list[Table]:
    """Every estimate of information in the last layer, with its bias on Gaussians."""

    def bias(name: str) -> Cell:
        found = last(result.full.own, f"{name}{BIAS}")
        return "-" if found is None else f"{found.mean:+.3f}"

    records = [
        {
            Column("estimate", text=True): re.sub(r" (\w+) (?=\d)", r" \1, sigma ", name),
            Column(("bias", "on Gaussians")): bias(name),
            **{Column(arm.name): measured(arm.own, last(arm.own, name), "{:.3f}") for arm in result.arms},
        }
        for name in result.full.own.profiles
        if name.startswith("I(") and not name.endswith(BIAS)
    ]
    note = (
        "In nats, of the last layer at the end of training. T has few dimensions after a fixed projection, and noise "
        "of the given sigma relative to its spread. The bias is that for as many Gaussian samples. Where states "
        "coincide, `neighbours` is an artefact of tied distances, and can exceed the entropy of the labels."
    )
    return [Table.of(records, "Information", [note], ON_PAGES)] if records else []


def attention_table(result: Ablation) -> list[Table]:
    """How far attention is from the full arm's, in the mean over layers and heads, if it was compared."""
    heads = {"kl": "KL divergence", "jensen_shannon": "Jensen-Shannon", "cosine": "cosine"}

    def mean(rows: Sequence[Sequence[float]]) -> str:
        values = [value for row in rows for value in row]
        return f"{sum(values) / len(values):.3f}" if values else "-"

    records = [
        {ARM: (arm.name, "two seeds") if arm is result.full else arm.name}
        | {Column(head): mean(arm.own.maps.get(name, ())) for name, head in heads.items()}
        for arm in result.arms
    ]
    note = "Means over layers, heads and seeds, in nats; the cosine is between the weights of a query."
    return [Table.of(records, "", [note], ON_PAGES)] if any(arm.own.maps for arm in result.arms) else []


def replay_table(result: Ablation) -> Table:
    """The trained full network without some of its structure."""
    form, title = result.metric.format, title_of(result.metric)
    records = [
        {
            ARM: one.name,
            Column((f"{title}, test", INTERVAL)): estimated(one.test, form),
            Column(("against full", INTERVAL)): difference_of(one.difference, form),
            Column(("cosine", "last layer")): estimated(one.cosine[-1] if one.cosine else None, "{:.3f}"),
            Column(("CKA", "last layer")): estimated(one.cka[-1] if one.cka else None, "{:.3f}"),
        }
        for one in result.replay
    ]
    note = "The weights of the trained full network, run without some of its structure, against the network itself."
    return Table.of(records, "Replay", [note])


def runs_table(result: Ablation) -> Table:
    """Every run, including those of rates that were not chosen."""
    name, form = result.metric.name, result.metric.format
    return sections.runs_table(
        {
            **run_cells(t),
            Column("status"): status_cell(t),
            Column("valid"): form.format(t.valid[name]) if t.valid else "-",
            Column("test"): form.format(t.test[name]) if t.test else "-",
            Column("seconds"): f"{t.seconds:,.1f}",
        }
        for t in result.trials
    )


def common_tables(results: Sequence[tuple[str, Ablation]]) -> list[Table]:
    """The claims of several ablations beside each other, and all their arms."""
    tasks = Counter(result.task for _, result in results)
    named = [(one.task if tasks[one.task] == 1 else f"{one.task} ({folder})", one) for folder, one in results]
    claims = [
        {Column("claim", text=True): rule.text}
        | {Column(name, text=True): ruling(result, rule.name) for name, result in named}
        for rule in RULES
    ]
    arms = [
        {
            Column("task", text=True): (name, title_of(result.metric)) if arm is result.full else "",
            **arm_cells(result, arm, "test"),
            **deciding_cells(result, arm),
        }
        for name, result in named
        for arm in result.arms
    ]
    at = "At each arm's own learning rate; the answer at the full arm's rate is reported if it differs."
    return [
        Table.of(claims, "Claims", [at]),
        Table.of(arms, "Arms", ["Each arm at its own learning rate, mean over seeds."]),
    ]


def ruling(result: Ablation, name: str) -> Cell:
    """What an ablation says about a claim."""
    found = next(claim for claim in result.claims if claim.name == name)
    other = f"at rate {result.full.own.rate:g}: {found.at_shared_rate}"
    return found.ruling if found.ruling == found.at_shared_rate else (found.ruling, other)

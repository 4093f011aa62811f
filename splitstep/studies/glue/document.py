"""What the study says: GLUE with intervals, charts, claims, differences, pre-training, all runs."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ...experiments import sections
from ...experiments.experiment import Claim, Difference, Sample
from ...experiments.statistics import FEWEST
from ...report.charts import Axis, SmallMultiples
from ...report.document import Document, Evidence, Note, Verdict, folded, kind_of
from ...report.tables import ON_PAGES, Cell, Code, Column, Record, Table
from ...schemes import label
from ...support.words import counted, listed
from ...tasks.glue import PARTS
from .result import DEFAULT, LOSS, MEAN, SETTLE, WITHOUT, Arm, FineTuning, GlueResult, Row, claimed, figures_of

NAME = Column("start", text=True)
FORM, MEAN_FORM = "{:.1f}", "{:.2f}"  # of points
MOST = 16  # pairs whose signs are all tried
PAIRS_NOTE = (
    "The sign-flip test assumes no distribution. Its p is the share of all choices of signs whose mean is as far from "
    f"zero. With n pairs p is at least 2^(1 - n), so fewer than {SETTLE} pairs cannot go below .05. With so few, the "
    "headline calls the GLUE mean undecided, whatever the rule says."
)
TITLES = {"matthews": "Matthews", "f1": "F1", "accuracy": "accuracy", "pearson": "Pearson", "spearman": "Spearman"}


def document(result: GlueResult) -> Document:
    """The whole document."""
    claims = sections.claims_table(result.claims, "docs/results/pretrain.md")
    first, tasks = score_charts(result)
    parts = [
        first,
        *few_pairs(result),
        sections.summary(
            result.made, result.runs, {"pre-trained network": len(result.bodies), "task": len(result.tasks)}
        ),
        Evidence("Scores on every task", [*tasks, main_table(result)]),
        *([Evidence("What the rule says", [*claims, *pairs_table(result)])] if claims else []),
        *folded([*differences(result), without_table(result), pretraining_table(result)]),
        *sections.pictures((row.name, row.scheme) for row in result.rows),
        *folded([sections.runs_table(map(run_record, result.runs), ["Scores in points."])]),
        *sections.reproduce(result.made, result.runs, "splitstep.studies.glue.glue(...)"),
    ]
    title = f"GLUE: {', '.join(row.title for row in result.rows)}"
    return Document(title, parts, glue_verdict(result), headline(result))


def glue_verdict(result: GlueResult) -> Verdict:
    """The answers about the mean and the masked loss, or what is known if there is nothing to compare."""
    rows = [row for row in result.rows if row.kind == "pre-trained"]
    told = list(zip(claimed(result.rows, result.differences), result.claims, strict=False))  # the last may be of a row
    if len(rows) < 2:
        return Verdict("open", alone(rows[0], [claim for _, claim in told]))
    means, others = ([(one, claim) for one, claim in told if one.what == what] for what in (MEAN, LOSS))
    if not means:
        return Verdict("open", f"WNLI alone says nothing about {listed([row.name for row in rows])}.")
    few = all(one.found is not None and one.found.lacks for one, _ in means) and set(result.in_mean) == set(DEFAULT)
    said = [f"claim that {one.question} is {one.answer}: {one.evidence}" for _, one in [*means, *others]]
    answers = (claim.answer if len(one.seeds) >= SETTLE else "undecided" for one, claim in means)
    return Verdict(kind_of(answers, few), f"The {'; the '.join(said)}.")


def alone(row: Row, scratch: Sequence[Claim]) -> str:
    """What is known of a single name, and whether pre-training helps it."""
    if row.mean is None:
        return f"{row.name} has no GLUE mean; nothing was compared."
    interval = row.mean.lacks or f"95% interval {row.mean.low:.2f} to {row.mean.high:.2f}"
    rest = "".join(f"; {one.question}: {one.answer}, {one.evidence}" for one in scratch) or "; nothing was compared"
    return f"{row.name} has a GLUE mean of {row.mean.mean:.2f} points ({interval}){rest}."


def headline(result: GlueResult) -> str:
    """What the pairs of networks settle or, of a single name, the answers of the rule; without figures."""
    clauses = list(dict.fromkeys(map(clause, pairs_of(result))))
    said = sorted(clauses, key=lambda one: one.endswith("undecided"))
    said = "; ".join(said or [f"{one.question}: {one.answer}" for one in result.claims[:2]])
    return f"{said[0].upper()}{said[1:]}." if said else "Nothing was compared."


class Pairs(NamedTuple):
    """A claim about two pre-trained rows: its difference, the rule's answer, and what each pair of networks has in
    favour of it."""

    found: Difference
    answer: str
    gains: Sequence[float]

    @property
    def sign_flip(self) -> float:
        """The share of all choices of signs that bring the mean as far from zero."""
        signs = np.array(list(product((1.0, -1.0), repeat=len(self.gains))))
        return float((abs(signs @ np.array(self.gains)) >= abs(sum(self.gains)) * (1 - 1e-12)).mean())


def pairs_of(result: GlueResult) -> list[Pairs]:
    """The claims about pre-trained rows, pair by pair."""
    arms, found = trained_arms(result), list[Pairs]()
    for one, claim in zip(claimed(result.rows, result.differences), result.claims, strict=False):
        if one.what in (MEAN, LOSS) and {one.of, one.to} <= arms.keys():
            of, to, sign = arms[one.of][one.what].values, arms[one.to][one.what].values, -1 if one.what == LOSS else 1
            found.append(Pairs(one, claim.answer, [sign * (of[seed] - to[seed]) for seed in one.seeds]))
    return found


def trained_arms(result: GlueResult) -> dict[str, Mapping[str, Sample]]:
    """The figures of the pre-trained rows, body by body."""
    names = [row.name for row in result.rows if row.kind == "pre-trained"]
    return {name: Arm(name, "pre-trained", result.runs, result.bodies, result.in_mean).figures for name in names}


def clause(pairs: Pairs) -> str:
    """What pairs say, in words: few of them settle nothing, but may all agree."""
    what, answer, sides = pairs.found.what, pairs.answer, {gain > 0 for gain in pairs.gains}
    figure, better, worse = ("masked loss", "lower", "higher") if what == LOSS else ("GLUE mean", "higher", "lower")
    if len(pairs.gains) < SETTLE:
        agree = what == LOSS and len(pairs.gains) >= FEWEST and len(sides) == 1
        answer, better = "supported" if agree else "undecided", f"{better if True in sides else worse} in each pair"
    if answer == "undecided":
        return f"{'GLUE' if what == MEAN else f'the {figure}'} is undecided"
    return f"{pairs.found.of}'s {figure} is {'' if answer == 'supported' else 'not '}{better}"


def few_pairs(result: GlueResult) -> list[Note]:
    """Why pairs settle nothing, if they are few."""
    many = max((len(one.gains) for one in pairs_of(result)), default=SETTLE)
    least = f"a sign-flip test of them cannot go below p = {0.5 ** (many - 1):g}"
    note = f"{counted(many, 'pair')} of networks cannot settle what the rule says of GLUE: {least}."
    return [Note(note, plain=True)] if 1 < many < SETTLE else []


def pairs_table(result: GlueResult) -> list[Table]:
    """The rule's answers beside the sign-flip test over the same pairs."""
    records: list[Record] = [
        {
            Column("claim", text=True): f"{one.found.what}: {one.found.of} against {one.found.to}",
            Column("the rule", text=True): one.answer,
            Column("pairs"): str(len(one.gains)),
            Column("in favour"): str(sum(gain > 0 for gain in one.gains)),
            Column("sign-flip p"): f"{one.sign_flip:.4g}",
            Column("least p"): f"{0.5 ** (len(one.gains) - 1):.2g}",
        }
        for one in pairs_of(result)
        if 0 < len(one.gains) <= MOST
    ]
    return [Table.of(records, "", [PAIRS_NOTE], ON_PAGES)] if records else []


def score_charts(result: GlueResult) -> tuple[SmallMultiples, list[SmallMultiples]]:
    """The mean and the masked loss, then every task's score: a dot with its interval for each row. The majority is in
    the table alone: it is often so far below that the others would look equal."""
    rows, points, nats = result.rows, Axis("points", "{:.1f}"), Axis("nats per masked token", "{:.3f}")
    reads, losses = "mean [95% interval]", [(row.title, row.masked_loss) for row in rows if row.masked_loss]
    means = [(row.title, row.mean) for row in rows] if result.in_mean else []
    first = [sections.dots("GLUE mean", points, means, reads, "chart-mean")] if means else []
    first += [sections.dots("Masked loss", nats, losses, reads, "chart-masked-loss")] if first and losses else []
    found = {PARTS[task].folder: [(row.title, row.on(task).score) for row in rows] for task in result.tasks}
    tasks = [sections.dots(title, points, own, reads, f"chart-{title.lower()}") for title, own in found.items()]
    return SmallMultiples("What was compared", first or tasks), [SmallMultiples("", tasks)] * bool(first)


def main_table(result: GlueResult) -> Table:
    """A row for each name, pre-trained and from scratch, and a column for each task; the majority below them."""
    mean = Column(("mean", f"of {counted(len(result.in_mean), 'task')}", "[95%]"))
    heads = {
        task: Column((PARTS[task].folder, ", ".join(TITLES[one] for one in figures_of(task)), "[95%]"))
        for task in result.tasks
    }
    records: list[Record] = [
        {NAME: row_cell(row), mean: sections.estimated(row.mean, MEAN_FORM)}
        | {head: task_cell(row, task) for task, head in heads.items()}
        for row in result.rows
    ]
    majority = {one.task: one for one in result.majority}
    scores = [majority[task].score for task in result.in_mean]
    shown = {head: tuple(FORM.format(one) for one in majority[task].figures.values()) for task, head in heads.items()}
    records.append({NAME: "majority", mean: MEAN_FORM.format(fmean(scores)) if scores else "", **shown})
    if not result.in_mean:
        records = [{column: cell for column, cell in one.items() if column != mean} for one in records]
    return Table.of(records, notes=[reading_note(result), *seed_note(result)])


def row_cell(row: Row) -> Cell:
    """The row's name, and its scheme if the name is another."""
    return (row.title,) if row.name == label(row.scheme) else (row.title, Code(row.scheme))


def task_cell(row: Row, task: str) -> Cell:
    """The figures one below the other, each with its interval, then the setting and how many runs diverged."""
    found = row.on(task)
    shown = [line for one in found.figures.values() for line in sections.estimated(one, FORM)] or ["-"]
    lost = [f"({found.diverged} of {found.diverged + found.finished} diverged)"] if found.diverged else []
    return (*shown, *found.setting, *lost)


def reading_note(result: GlueResult) -> str:
    """How to read the table."""
    doubles = [PARTS[task].folder for task in result.in_mean if len(figures_of(task)) > 1]
    averaged = f", in which each task counts once ({listed(doubles)} by the mean of both figures)" if doubles else ""
    apart = [PARTS[task].folder for task in result.tasks if task not in result.in_mean]
    several = f"the mean of its {counted(result.fine_tunings, 'fine-tuning')}" if result.fine_tunings > 1 else "one run"
    chosen = any(run.setting for run in result.runs)
    return (
        f"Points on the published dev sets. Each pre-training seed is one value, {several}; intervals: 95%, Student's "
        f"t over pre-training seeds. The mean is GLUE's{averaged}.{f' Not in it: {listed(apart)}.' if apart else ''} "
        f"Majority: the commonest class of the training set.{' Settings were chosen on valid.' if chosen else ''}"
    )


def seed_note(result: GlueResult) -> list[str]:
    """How bodies are paired where that needs to be said."""
    names = [body.name for body in result.bodies]
    unknown = sorted({body.name for body in result.bodies if not body.seed_known})
    return [
        *[f"{listed(unknown)}: models without their runs, numbered from 0 in the order given; the numbers stand for "
          "pre-training seeds."] * bool(unknown),
        *["One pre-training seed for each name gives no interval, however many fine-tunings it has."]
        * (len(set(names)) == len(names)),
    ]  # fmt: skip


def differences(result: GlueResult) -> list[Table]:
    """Differences of two rows, a row for each pair."""
    mean = {MEAN: ("mean", "{:+.2f}")} if result.in_mean else {}
    tasks = {task: (PARTS[task].folder, "{:+.1f}") for task in result.tasks}
    note = "Paired by pre-training seed: differences of bodies that have the same seed. In points of each task's score."
    return sections.differences_table(result.differences, NAME, {**mean, **tasks}, note)


def without_table(result: GlueResult) -> Table:
    """Differences of pre-trained rows in the mean of all tasks but one: whether one task alone makes a difference."""
    arms = trained_arms(result)
    pairs = dict.fromkeys((one.of, one.to) for one in result.differences if {one.of, one.to} <= arms.keys())
    records: list[Record] = [
        {NAME: f"{of} - {to}"}
        | {
            Column((f"without {PARTS[task].folder}", "[95%]")): sections.estimated(
                arms[of][WITHOUT + task].minus(arms[to][WITHOUT + task]), "{:+.2f}"
            )
            for task in result.in_mean
        }
        for of, to in pairs
        if len(result.in_mean) > 2
    ]
    note = "Paired by pre-training seed, in points. The rule is about the mean of all tasks; this table is in no rule."
    return Table.of(records, "Differences in the mean without one task", [note])


def pretraining_table(result: GlueResult) -> Table:
    """Held-out figures of the bodies, as their own runs measured them."""
    rows = [row for row in result.rows if row.kind == "pre-trained"]
    losses: dict[str, Difference] = {one.of: one for one in result.differences if one.what == LOSS}
    records: list[Record] = [
        {
            NAME: row_cell(row),
            Column("seeds", text=True): ", ".join(str(body.seed) for body in result.bodies if body.name == row.name),
            Column(("masked loss", "[95%]")): sections.estimated(row.masked_loss, "{:.4f}"),
            Column(("difference", "[95%]")): sections.difference_cell(losses.get(row.title), "{:+.4f}"),
            Column(("masked accuracy", "[95%]")): sections.estimated(row.masked_accuracy, MEAN_FORM),
            Column("parameters"): f"{row.parameters:,}",
        }
        for row in rows
        if any(one.masked_loss for one in rows)
    ]
    note = "Nats per masked token and masked tokens that were right, on the test split of the pre-training text."
    return Table.of(records, "Pre-training", [note])


def run_record(run: FineTuning) -> Record:
    """A row of the table of all runs."""
    valid, dev = (FORM.format(run.score(split)) if run.status == "finished" else "-" for split in ("valid", "test"))
    return {
        NAME: run.title,
        Column("task"): PARTS[run.task].folder,
        Column("setting"): ", ".join(run.setting),
        Column("pre-training seed"): str(run.body),
        Column("seed"): str(run.seed),
        Column("status"): sections.status_cell(run),
        Column("valid"): valid,
        Column("dev"): dev,
        Column("steps"): f"{run.steps:,}",
        Column("seconds"): f"{run.seconds:,.1f}",
    }

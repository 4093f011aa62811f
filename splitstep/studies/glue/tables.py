"""The tables of the study: GLUE with intervals, the claims, differences, pre-training, all runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ...experiments.experiment import Difference
from ...experiments.sections import claims_table, difference_cell, differences_table, estimated, status_cell
from ...report.tables import ON_PAGES, Cell, Code, Column, Record, Table
from ...schemes import label
from ...support.words import counted, listed
from ...tasks.glue import PARTS
from .result import LOSS, MEAN, GlueResult, Majority, OnTask, Row, title_of
from .rows import Grouped, score_on, without_each
from .scores import TITLES, figures_of

NAME = Column("start", text=True)
FORM, MEAN_FORM = "{:.1f}", "{:.2f}"  # of points


def glue_tables(result: GlueResult) -> list[Table]:
    """All tables."""
    claims = claims_table(result.claims, "docs/results/pretrain.md")
    begin = [main_table(result), *claims, *differences(result), *without_table(result)]
    return [*begin, *pretraining_table(result), runs_table(result)]


def main_table(result: GlueResult) -> Table:
    """A row for each name, pre-trained and from scratch, and a column for each task; the majority below them."""
    records = [*(record(result, row) for row in result.rows), majority_record(result)]
    return Table.of(records, notes=[reading_note(result), *seed_note(result)])


def columns(result: GlueResult) -> dict[str, Column]:
    titles = {task: ", ".join(TITLES[name] for name in figures_of(task)) for task in result.tasks}
    return {task: Column((PARTS[task].folder, title, "[95%]")) for task, title in titles.items()}


def mean_column(result: GlueResult) -> Column:
    return Column(("mean", f"of {counted(len(result.in_mean), 'task')}", "[95%]"))


def record(result: GlueResult, row: Row) -> Record:
    cells = {column: task_cell(row.on(task)) for task, column in columns(result).items()}
    mean = {mean_column(result): estimated(row.mean, MEAN_FORM)} if result.in_mean else {}
    return {NAME: row_cell(row), **mean, **cells}


def row_cell(row: Row) -> Cell:
    """The row's name, and its scheme if the name is another."""
    return (row.title,) if row.name == label(row.scheme) else (row.title, Code(row.scheme))


def task_cell(found: OnTask) -> Cell:
    """The figures one below the other, each with its interval, then the setting and how many runs diverged."""
    shown = [line for one in found.figures.values() for line in estimated(one, FORM)] or ["-"]
    lost = [f"({found.diverged} of {found.diverged + found.finished} diverged)"] if found.diverged else []
    return (*shown, *found.setting, *lost)


def majority_record(result: GlueResult) -> Record:
    found = {one.task: one for one in result.majority}
    cells = {column: majority_cell(found[task]) for task, column in columns(result).items()}
    means = [found[task].score for task in result.in_mean]
    mean = {mean_column(result): MEAN_FORM.format(fmean(means))} if means else {}
    return {NAME: "majority", **mean, **cells}


def majority_cell(found: Majority) -> Cell:
    return tuple(FORM.format(one) for one in found.figures.values())


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
    unknown = sorted({body.name for body in result.bodies if not body.seed_known})
    alone = all(sum(other.name == body.name for other in result.bodies) == 1 for body in result.bodies)
    return [
        *[f"{listed(unknown)}: models without their runs, numbered from 0 in the order given; the numbers stand for "
          "pre-training seeds."] * bool(unknown),
        *["One pre-training seed for each name gives no interval, however many fine-tunings it has."] * alone,
    ]  # fmt: skip


def differences(result: GlueResult) -> list[Table]:
    """Differences of two rows, a row for each pair."""
    mean = {MEAN: ("mean", "{:+.2f}")} if result.in_mean else {}
    tasks = {task: (PARTS[task].folder, "{:+.1f}") for task in result.tasks}
    note = "Paired by pre-training seed: differences of bodies that have the same seed. In points of each task's score."
    return differences_table(result.differences, NAME, {**mean, **tasks}, note)


def without_table(result: GlueResult) -> list[Table]:
    """Differences of pre-trained rows in the mean of all tasks but one: whether one task alone makes a difference."""
    trained = {row.title: row for row in result.rows if row.kind == "pre-trained"}
    pairs = dict.fromkeys((one.of, one.to) for one in result.differences if {one.of, one.to} <= trained.keys())
    if len(result.in_mean) < 3 or not pairs:
        return []
    records = [without_record(result, of, to) for of, to in pairs]
    note = "Paired by pre-training seed, in points. The rule is about the mean of all tasks; this table is in no rule."
    return [Table.of(records, "Differences in the mean without one task", [note])]


def without_record(result: GlueResult, of: str, to: str) -> Record:
    groups = [Grouped(name, "pre-trained", result.runs, result.in_mean) for name in (of, to)]
    found = without_each(*groups)
    heads = {task: Column((f"without {PARTS[task].folder}", "[95%]")) for task in found}
    return {NAME: f"{of} - {to}", **{heads[task]: estimated(one, "{:+.2f}") for task, one in found.items()}}


def pretraining_table(result: GlueResult) -> list[Table]:
    """Held-out figures of the bodies, as their own runs measured them."""
    rows = [row for row in result.rows if row.kind == "pre-trained"]
    if not any(row.masked_loss for row in rows):
        return []
    losses = {one.of: one for one in result.differences if one.what == LOSS}
    records = [pretraining_record(result, row, losses.get(row.title)) for row in rows]
    note = "Nats per masked token and masked tokens that were right, on the test split of the pre-training text."
    return [Table.of(records, "Pre-training", [note])]


def pretraining_record(result: GlueResult, row: Row, loss: Difference | None) -> Record:
    seeds = [str(body.seed) for body in result.bodies if body.name == row.name]
    return {
        NAME: row_cell(row),
        Column("seeds", text=True): ", ".join(seeds),
        Column(("masked loss", "[95%]")): estimated(row.masked_loss, "{:.4f}"),
        Column(("difference", "[95%]")): difference_cell(loss, "{:+.4f}"),
        Column(("masked accuracy", "[95%]")): estimated(row.masked_accuracy, MEAN_FORM),
        Column("parameters"): f"{row.parameters:,}",
    }


def runs_table(result: GlueResult) -> Table:
    """Every run, including those of settings that were not chosen."""
    heads = ("task", "setting", "pre-training seed", "seed", "status", "valid", "dev", "steps", "seconds")
    rows = [
        [title_of(run.name, run.kind), PARTS[run.task].folder,
         ", ".join(run.setting), str(run.body), str(run.seed), status_cell(run),
         *scores(run.status == "finished", [score_on(run, "valid"), score_on(run)]),
         f"{run.steps:,}", f"{run.seconds:,.1f}"]
        for run in result.runs
    ]  # fmt: skip
    return Table([NAME, *map(Column, heads)], rows, "All runs", ["Scores in points."], ON_PAGES, stacked=False)


def scores(finished: bool, values: Sequence[float]) -> list[Cell]:
    return [FORM.format(value) if finished else "-" for value in values]

"""The tables of the study: figures with intervals, the claims, differences, all runs."""

from __future__ import annotations

from ...distillation.judging.exam import Figures
from ...experiments.sections import claims_table, differences_table, estimated
from ...experiments.statistics import Estimate
from ...report.tables import ON_PAGES, Cell, Code, Column, Record, Table
from ...support.words import counted
from .result import BITS, ROUGE, DistilResult, DistilRun, MethodRow
from .rows import QUANTITIES

NAME = Column("method", text=True)
POINTS, PER_BYTE, SHARE, NATS = "{:.2f}", "{:.4f}", "{:.1%}", "{:.4f}"
ENDED = Column(("answers that end", "[95%]"))
CHANGES = {ROUGE: (ROUGE, "{:+.2f}"), BITS: (BITS, "{:+.4f}")}


def distil_tables(result: DistilResult) -> list[Table]:
    """All tables."""
    note = "Paired by seed: the same start and the same batches. In ROUGE-L more is better, in bits per byte less."
    return [
        main_table(result),
        *claims_table(result.claims, "docs/results/distil.md"),
        *differences_table(result.differences, NAME, CHANGES, note),
        runs_table(result),
    ]


def main_table(result: DistilResult) -> Table:
    """A row for each method; before them the teacher and the student before training."""
    others = [record(result, name, row_of_one(figures)) for name, figures in result.others.items()]
    return Table.of([*others, *(method_record(result, row) for row in result.rows)], notes=notes(result))


def method_record(result: DistilResult, row: MethodRow) -> Record:
    lost = (f"({row.diverged} of {row.diverged + row.finished} diverged)",) if row.diverged else ()
    name = (row.method,) if row.method == row.written else (row.method, Code(row.written))
    return record(result, (*name, *lost), row)


def row_of_one(figures: Figures) -> MethodRow:
    """The figures of a single model in a row's form."""

    def alone(value: float | None) -> Estimate | None:
        return None if value is None else Estimate(value, None, None, 1)

    on_sets = {name: Estimate(value, None, None, 1) for name, value in figures.rouge_on.items()}
    found = {name: alone(quantity.of(figures)) for name, quantity in QUANTITIES.items()}
    return MethodRow("", "", "", 1, 0, rouge_on=on_sets, **found)


def record(result: DistilResult, name: Cell, row: MethodRow) -> Record:
    single = not row.method
    plain = Column(("bits per byte of text", "[95%]"))
    sets = {Column((f"on {one}", "[95%]")): cell(row.rouge_on.get(one), POINTS, single) for one in result.sets}
    return {
        NAME: name,
        Column(("ROUGE-L", "[95%]")): cell(row.rouge, POINTS, single),
        **(sets if len(sets) > 1 else {}),
        **({ENDED: cell(row.ended, SHARE, single)} if any(one.ended is not None for one in result.rows) else {}),
        Column(("bits per byte of answers", "[95%]")): cell(row.bits_per_byte, PER_BYTE, single),
        **({plain: cell(row.text_bits_per_byte, PER_BYTE, single)} if "text" in result.data else {}),
        Column(("same token as the teacher", "[95%]")): cell(row.top1, SHARE, single),
        Column(("KL to the teacher", "[95%]"), detail=ON_PAGES): cell(row.kl, NATS, single),
    }


def cell(found: Estimate | None, form: str, single: bool) -> Cell:
    """A figure, with its interval if it is a mean over seeds; empty if there is none."""
    if found is None:
        return ""
    return form.format(found.mean) if single else estimated(found, form)


def notes(result: DistilResult) -> list[str]:
    answers = result.data["answers"]
    how = f"temperature {answers['temperature']:g}, top-p {answers['top_p']:g}, at most {answers['max_tokens']} tokens"
    shares = {run.figures.shared for run in result.runs if run.figures}
    other = [f"{share:.1%}" for share in shares if share is not None and share < 1]
    return [
        f"ROUGE-L in points: the mean over {counted(len(answers['seeds']), 'sampled answer')} to each row ({how}), "
        "then over sets. An answer that has not ended by then is cut off; if few end, ROUGE-L says little else. "
        "Bits per byte: the fewer the better. "
        "Intervals: 95%, Student's t over training seeds.",
        *[f"Teacher and student have different tokens: they are asked for one of those that they share, {one} of the "
          "teacher's, where both have read the same bytes." for one in other],
    ]  # fmt: skip


def runs_table(result: DistilResult) -> Table:
    heads = ("seed", "status", "ROUGE-L", "bits per byte", "mean distance", "steps", "seconds")
    rows = [[run.method, str(run.seed), run.status, *run_figures(run), f"{run.steps:,}", f"{run.seconds:,.1f}"]
            for run in result.runs]  # fmt: skip
    return Table([NAME, *map(Column, heads)], rows, "All runs", detail=ON_PAGES, stacked=False)


def run_figures(run: DistilRun) -> list[str]:
    if run.figures is None:
        return ["-"] * 3
    distances = [one.distance for one in run.figures.distances]
    mean = f"{sum(distances) / len(distances):.4f}" if distances else "-"
    return [POINTS.format(run.figures.rouge), PER_BYTE.format(run.figures.bits_per_byte), mean]

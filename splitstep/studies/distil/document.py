"""What the study says: figures with intervals, charts, claims, differences, answers side by side, runs."""

from ...distillation.judging.exam import Figures
from ...experiments import sections
from ...experiments.sections import READS, dots
from ...experiments.statistics import Estimate
from ...experiments.trials import Curve
from ...report.charts import Axis, LineChart, SmallMultiples
from ...report.document import Beside, Document, Evidence, Heading, Note, Part, Stacked, Verbatim, folded
from ...report.tables import ON_PAGES, Cell, Code, Column, Record, Table
from ...support.words import counted, listed
from .result import COMPARED, START, TEACHER, DistilResult, DistilRun, MethodRow, Said, distil_verdict

NAME, ENDED = Column("method", text=True), Column(("answers that end", "[95%]"))
POINTS, PER_BYTE, SHARE, NATS = "{:.2f}", "{:.4f}", "{:.1%}", "{:.4f}"
PAIRED = "Paired by seed: the same start and the same batches. In ROUGE-L more is better, in bits per byte less."


def document(result: DistilResult) -> Document:
    """The whole document."""
    changes = {what: (what, by.form.number) for what, by in COMPARED.items()}
    parts = [
        figure_charts(result),
        sections.summary(result.made, result.runs, {"method": len(result.rows), "seed": len(result.seeds)}),
        Evidence("Figures", [main_table(result)]),
        *folded(sections.claims_table(result.claims, "docs/results/distil.md")),
        *folded(sections.differences_table(result.differences, NAME, changes, PAIRED)),
        *charts(result),
        *answers(result),
        *folded([sections.runs_table(map(run_record, result.runs))]),
        *sections.reproduce(result.made, result.runs, "splitstep.studies.distil.compare_methods(...)"),
    ]
    title = f"Distillation: {', '.join(row.method for row in result.rows)}"
    return Document(title, parts, distil_verdict(result), headline(result))


def headline(result: DistilResult) -> str:
    """Which methods beat their bases, and in what."""
    found: dict[str, list[str]] = {}
    for what in COMPARED:
        for clause in better(result, what):
            found.setdefault(clause, []).append(what)
    said = "; ".join(f"{clause} in {listed(figures)}" for clause, figures in found.items())
    return f"{said}." if said else ""


def better(result: DistilResult, what: str) -> list[str]:
    """The methods that beat their bases in a figure, in words; none if nothing was compared in it."""
    told = [(one, by.answer) for one, by in zip(result.differences, result.claims, strict=True) if one.what == what]
    won = [(one.to, one.of) for one, answer in told if answer == "supported"]
    beaten = {base: [of for to, of in won if to == base] for base, _ in won}
    sure = "is sure to beat" if any(answer == "undecided" for _, answer in told) else "beats"
    clauses = [f"{listed(own)} beat{'s' * (len(own) == 1)} {base}" for base, own in beaten.items()]
    return clauses or [f"No method {sure} its base"] * bool(told)


def main_table(result: DistilResult) -> Table:
    """A row for each method; before them the teacher and the student before training."""
    others = [record(result, name, figures) for name, figures in result.others.items()]
    return Table.of([*others, *(record(result, name_of(row), row) for row in result.rows)], notes=notes(result))


def name_of(row: MethodRow) -> Cell:
    """The method, with all of its weights if it is written in short, and how many runs diverged."""
    lost = (f"({row.diverged} of {row.diverged + row.finished} diverged)",) if row.diverged else ()
    return (row.method, *lost) if row.method == row.written else (row.method, Code(row.written), *lost)


def record(result: DistilResult, name: Cell, found: Figures | MethodRow) -> Record:
    """A row of the table: figures of one model, or their means over seeds."""
    plain = Column(("bits per byte of text", "[95%]"))
    sets = {Column((f"on {one}", "[95%]")): cell(found.rouge_on.get(one), POINTS) for one in result.sets}
    return {
        NAME: name,
        Column(("ROUGE-L", "[95%]")): cell(found.rouge, POINTS),
        **(sets if len(sets) > 1 else {}),
        **({ENDED: cell(found.ended, SHARE)} if any(one.ended is not None for one in result.rows) else {}),
        Column(("bits per byte of answers", "[95%]")): cell(found.bits_per_byte, PER_BYTE),
        **({plain: cell(found.text_bits_per_byte, PER_BYTE)} if "text" in result.data else {}),
        Column(("same token as the teacher", "[95%]")): cell(found.top1, SHARE),
        Column(("KL to the teacher", "[95%]"), detail=ON_PAGES): cell(found.kl, NATS),
    }


def cell(found: Estimate | float | None, form: str) -> Cell:
    """A figure, with its interval if it is a mean over seeds; empty if there is none."""
    if found is None:
        return ""
    return sections.estimated(found, form) if isinstance(found, Estimate) else form.format(found)


def notes(result: DistilResult) -> list[str]:
    """How to read the table."""
    answers = result.data["answers"]
    how = f"temperature {answers['temperature']:g}, top-p {answers['top_p']:g}, at most {answers['max_tokens']} tokens"
    shares = {run.figures.shared for run in result.runs if run.figures}
    other = [f"{share:.1%}" for share in shares if share is not None and share < 1]
    return [
        f"ROUGE-L in points: the mean over {counted(len(answers['seeds']), 'sampled answer')} to each row ({how}), "
        "then over sets. An answer that has not ended by then is cut off; if few end, ROUGE-L says little else. "
        "Bits per byte: the fewer the better. Intervals: 95%, Student's t over training seeds.",
        *[f"Teacher and student have different tokens: they are asked for one of those that they share, {one} of the "
          "teacher's, where both have read the same bytes." for one in other],
    ]  # fmt: skip


def run_record(run: DistilRun) -> Record:
    """A row of the table of all runs."""
    rouge, bits, mean = "-", "-", "-"
    if run.figures is not None:
        rouge, bits = POINTS.format(run.figures.rouge), PER_BYTE.format(run.figures.bits_per_byte)
        distances = [one.distance for one in run.figures.distances]
        mean = f"{sum(distances) / len(distances):.4f}" if distances else "-"
    cells = {
        "seed": str(run.seed), "status": run.status, "ROUGE-L": rouge, "bits per byte": bits, "mean distance": mean,
        "steps": f"{run.steps:,}", "seconds": f"{run.seconds:,.1f}",
    }  # fmt: skip
    return {NAME: run.method, **{Column(head): cell for head, cell in cells.items()}}


def figure_charts(result: DistilResult) -> SmallMultiples:
    """ROUGE-L and bits per byte: a dot with its interval for each method, beside the teacher and the student before."""
    models = {name: one for name in (TEACHER, START) if (one := result.others.get(name))}
    models |= {row.method: row for row in result.rows}
    rouge, bits = ([(name, getattr(one, of)) for name, one in models.items()] for of in ("rouge", "bits_per_byte"))
    reads, per_byte = "mean [95% interval]", Axis("bits per byte", "{:.3f}")
    charts = [
        dots("ROUGE-L", Axis("points", "{:.2f}"), rouge, reads, "chart-rouge-l"),
        dots("Bits per byte of answers", per_byte, bits, reads, "chart-bits"),
    ]
    return SmallMultiples("Teacher, student before training, and after", charts)


def charts(result: DistilResult) -> list[Part]:
    """The distance to the teacher by layers, and losses against the step. Losses in training are of different methods,
    and are not compared."""
    distance = distance_chart(result)
    titles = {"valid_loss": "Validation loss (cross entropy)", "train_loss": "Each method's own loss"}
    losses = [chart for name, title in titles.items() if (chart := loss_chart(result, name, title)).lines]
    found: list[Part] = [*([distance] if distance.lines else []), *([Beside(losses)] if losses else [])]
    band = [Note(sections.BAND)] if len(result.seeds) > 1 else []
    return [Evidence("Distances and losses", [*found, *band])] if found else []


def distance_chart(result: DistilResult) -> LineChart:
    """The distance to the teacher after each layer, before training and after it."""
    models = {row.method: [run.figures for run in result.of(row.method)] for row in result.rows}
    models[START] = [result.others.get(START)]
    curves = {name: [by_layer(one) for one in own if one and one.distances] for name, own in models.items()}
    lines = [sections.band_line(name, own) for name, own in curves.items() if own]
    x, y = Axis("layer of the student", "{:.0f}", apart=1), Axis("1 - CKA", "{:.3f}")
    title, reads = "Distance to the teacher's states", READS if len(result.seeds) > 1 else ""
    return LineChart(title, x, y, lines, reads, name="chart-distance", muted=[START])


def by_layer(figures: Figures) -> Curve:
    """The distances of one student against its layers."""
    layers, _, distances = zip(*figures.distances, strict=True)
    return Curve(layers, distances)


def loss_chart(result: DistilResult, column: str, title: str) -> LineChart:
    """A loss of all methods against the step."""
    curves = [(row.method, [getattr(run, column) for run in result.of(row.method)]) for row in result.rows]
    known = [(method, own) for method, own in curves if any(curve.steps for curve in own)]
    return sections.curves_chart(title, known, len(result.seeds), f"chart-{column}")


def answers(result: DistilResult) -> list[Part]:
    """Some instructions, each with the reference and the answers of all models beside each other."""
    note = "The first sampled answer of the teacher and of each method's first seed, with its ROUGE-L in points."
    parts: list[Part] = [Note(note)]
    most = result.data["answers"]["max_tokens"]
    for one in result.shown:
        said = [answer(each, most) for each in one.answers]
        parts += [Heading(one.set, 3), Verbatim(one.instruction), Beside(said)]
    return [Evidence("Answers side by side", parts)] if result.shown else []


def answer(said: Said, most: int) -> Stacked:
    """An answer under its author, its ROUGE-L and whether it is cut off, for it has the most tokens."""
    score = "" if said.rouge is None else f", {said.rouge:.1f}"
    cut, more = (f", cut off after {counted(most, 'token')}", " …") if said.ended is False else ("", "")
    return Stacked([Note(f"{said.who}{score}{cut}"), Verbatim(f"{said.text or '(nothing)'}{more}", answer=True)])

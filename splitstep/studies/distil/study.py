"""Methods of distillation against each other: the same student by each method, with several seeds, all judged alike."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...distillation.judging.answers import Answers
from ...distillation.judging.exam import Exam, Figures, judge
from ...distillation.judging.reading import Causal
from ...distillation.judging.rouge import rouge_l
from ...distillation.method import Method, parse_method
from ...experiments.experiment import Difference, Observation, Quantity, Sample, difference, sample
from ...experiments.running import Job, made_by_runs, run_left
from ...experiments.statistics import Estimate
from ...experiments.trials import Curve
from ...jobs import check_engine
from ...training.processes import this_world
from ...training.progress import Progress, RunsProgress
from .directory import OTHERS, Found, Planned, Weights, claim, keep, plan, read_kept
from .result import COMPARED, QUANTITIES, REFERENCE, DistilResult, DistilRun, MethodRow, Said, Shown, with_claims

BASE = "ce"  # what every method without a base of its own is compared with
ADDED = "mta."  # terms that are added to another method
SHOWN = 3  # rows of each set whose answers stand beside each other on the page
NOTHING = Curve((), ())


class Distilled(NamedTuple):
    """What a run gives back. A student that diverged is None. A curve is steps and values."""

    student: Causal | None
    steps: int
    seconds: float
    device: str
    train_loss: Curve = NOTHING
    valid_loss: Curve = NOTHING


class DistilRuns(Protocol):
    """Trains students and opens the models that are there before. It is sent to workers, so it must be picklable.

    All methods of a seed must have the same start, see the same batches and differ in their loss alone: differences are
    paired by seed. None of the rows and texts of the exam may be trained on.
    """

    @property
    def steps(self) -> int:
        """The updates of a run."""
        ...

    def teacher(self) -> Causal: ...

    def start(self) -> Causal:
        """The student before it is trained."""
        ...

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        """Train a student; called again with the same folder it continues, or returns what it has."""
        ...


def compare_methods(
    runs: DistilRuns,
    exam: Exam,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    engine: str = "local",
    recipe: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    quiet: bool = False,
) -> DistilResult:
    """Train a student by every method with every seed, and judge all of them; what is in `out` already is kept.

    The teacher and the student before training are judged as well. `recipe` is what the runs have in common, and
    `weights` are the hashes of the two models; with others, `out` is refused.
    """
    check_engine(engine)
    planned = plan(methods, seeds)
    claim(out, recipe, weights)
    found = judge_all(runs, planned, out.resolve(), exam, engine, quiet)
    students = [run for one in planned if (run := found[one.folder].run)]
    rows = [row_of(students, method, methods, list(exam.sets)) for method in methods]
    result = DistilResult(
        seeds=tuple(seeds),
        sets=tuple(exam.sets),
        rows=tuple(rows),
        others={one.method: figures for one in OTHERS if (figures := found[one.folder].figures)},
        differences=tuple(differences_of(rows, students)),
        claims=(),
        runs=tuple(students),
        shown=tuple(shown_of(exam, planned, found)),
        made=made_by_runs(dict(recipe or {}), exam.describe(), engine),
    )
    return with_claims(result)


def judge_all(
    runs: DistilRuns, planned: Sequence[Planned], out: Path, exam: Exam, engine: str, quiet: bool
) -> dict[str, Found]:
    """All models by their folders, those of an earlier call first."""
    steps = {one: 0 for one in OTHERS} | {one: runs.steps for one in planned}
    jobs = [Job(one.folder, count, judge_one, (one, runs, out, exam)) for one, count in steps.items()]
    with Progress("compare distil", sum(steps.values()), quiet) as bar:
        watch = RunsProgress(bar, len(jobs))
        return dict(run_left(jobs, lambda job: read_kept(out / job.folder, exam), out, engine, watch))


def judge_one(one: Planned, runs: DistilRuns, out: Path, exam: Exam) -> Found:
    """Judge a model in a worker, after its training; from its files if an earlier try has judged it."""
    folder = out / one.folder
    if (kept := read_kept(folder, exam)) is not None:
        return kept
    if one == OTHERS[0]:  # the teacher itself
        return keep(folder, exam, Found(*judge(placed(runs.teacher()), exam)))
    made = Distilled(runs.start(), 0, 0, "") if one in OTHERS else runs.train(one.method, one.seed, folder)
    figures, answers = None, {}
    if made.student is not None:
        figures, answers = judge(placed(made.student), exam, placed(runs.teacher()))
    run = DistilRun(*one, "diverged" if figures is None else "finished", *made[1:], figures)
    return keep(folder, exam, Found(figures, answers, None if one in OTHERS else run))


def placed(one: Causal) -> Causal:
    """The model on the device where runs train."""
    return one._replace(model=one.model.to(this_world().device))


def base_of(method: str, methods: Sequence[str]) -> str:
    """The method of the list that this one adds terms to; empty if it is not there.

    A method with terms of MTA is compared with the same method without them, every other one with `ce`.
    """
    summands = parse_method(method).summands
    rest = tuple(one for one in summands if not one.name.startswith(ADDED))
    wanted = str(Method(rest)) if rest and rest != summands else BASE
    found = (other for other in methods if other != method and str(parse_method(other)) == wanted)
    return next(found, "")


def judged(runs: Sequence[DistilRun], method: str, quantity: Quantity[Figures]) -> Sample:
    """The figure of each run of a method that has it."""
    own = [Observation(method, run.seed, (), True, run.figures) for run in runs if run.method == method if run.figures]
    return sample(own, quantity)


def row_of(runs: Sequence[DistilRun], method: str, methods: Sequence[str], sets: Sequence[str]) -> MethodRow:
    """The row of a method, with the means of the figures that all of its runs have; those of an older version may lack
    one."""
    own = [run for run in runs if run.method == method]
    statuses, many = [run.status for run in own], sum(run.figures is not None for run in own)

    def mean(quantity: Quantity[Figures]) -> Estimate | None:
        found = judged(own, method, quantity)
        return found.mean() if len(found.values) == many else None

    on_sets = {
        name: mean(Quantity(lambda one, name=name: one.rouge_on.get(name), QUANTITIES["rouge"].bounds)) for name in sets
    }
    return MethodRow(
        method=method,
        written=str(parse_method(method)),
        base=base_of(method, methods),
        finished=statuses.count("finished"),
        diverged=statuses.count("diverged"),
        rouge_on={name: found for name, found in on_sets.items() if found is not None},
        **{name: mean(quantity) for name, quantity in QUANTITIES.items()},
    )


def differences_of(rows: Sequence[MethodRow], runs: Sequence[DistilRun]) -> list[Difference]:
    """Each method minus its base in ROUGE-L, then in bits per byte."""
    return [
        difference(what, row.method, row.base, *(judged(runs, one, by.quantity) for one in (row.method, row.base)))
        for what, by in COMPARED.items()
        for row in rows
        if row.base
    ]


def shown_of(exam: Exam, planned: Sequence[Planned], found: Mapping[str, Found]) -> list[Shown]:
    """Some rows of each set, evenly spread, with the first answers of the others and of each method's first seed."""
    answers, first, shown = dict[str, Mapping[str, Answers]](), exam.writing.seeds[0], list[Shown]()
    for one in (*OTHERS, *planned):
        answers.setdefault(one.method, found[one.folder].answers)
    for name, rows in exam.sets.items():
        for number in sorted({k * len(rows) // SHOWN for k in range(min(SHOWN, len(rows)))}):
            row = rows[number]
            said = {who: own[name][first][number] for who, own in answers.items() if own}
            scored = [Said(who, one.text, rouge_l(one.text, row.answer), one.ended) for who, one in said.items()]
            shown.append(Shown(name, row.shown, (Said(REFERENCE, row.answer, None), *scored)))
    return shown

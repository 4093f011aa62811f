"""Methods of distillation against each other: the same student by each method, with several seeds, all judged alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...distillation.judging.exam import Answers, Exam
from ...distillation.judging.rouge import rouge_l
from ...experiments.running import made_by_runs
from ...jobs import check_engine
from ...training.progress import Progress, RunsProgress
from .claims import claims_of
from .directory import Weights, claim, claim_weights
from .plan import Planned, plan
from .result import REFERENCE, DistilResult, Said, Shown
from .rows import differences_of, row_of
from .running import OTHERS, DistilRuns, Found, judge_all

SHOWN = 3  # rows of each set whose answers stand beside each other on the page


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
    command: str | None = None,
    quiet: bool = False,
) -> DistilResult:
    """Train a student by every method with every seed, and judge all of them; what is in `out` already is kept.

    The teacher and the student before training are judged as well. `recipe` is what the runs have in common, and
    `weights` are the hashes of the two models; with others, `out` is refused.
    """
    check_engine(engine)
    planned = plan(methods, seeds)
    if recipe is not None:
        claim(out, recipe)
    if weights is not None:
        claim_weights(out, weights)
    with Progress("compare distil", len(planned) * runs.steps, quiet) as bar:
        watch = RunsProgress(bar, len(planned) + len(OTHERS))
        found = judge_all(runs, planned, out.resolve(), exam, engine, watch)
    students = [run for one in planned if (run := found[one.folder].run)]
    rows = [row_of(students, method, methods, list(exam.sets)) for method in methods]
    differences = differences_of(rows, students)
    return DistilResult(
        seeds=tuple(seeds),
        sets=tuple(exam.sets),
        rows=tuple(rows),
        others={name: figures for name, folder in OTHERS.items() if (figures := found[folder].figures)},
        differences=tuple(differences),
        claims=tuple(claims_of(differences)),
        runs=tuple(students),
        shown=tuple(shown_of(exam, answers_of(planned, found))),
        made=made_by_runs(dict(recipe or {}), exam.describe(), engine, command),
    )


def answers_of(planned: Sequence[Planned], found: Mapping[str, Found]) -> dict[str, Answers]:
    """The answers that are shown: of the others, and of each method's first seed."""
    answers = {name: found[folder].answers for name, folder in OTHERS.items()}
    for one in planned:
        answers.setdefault(one.method, found[one.folder].answers)
    return answers


def shown_of(exam: Exam, answers: Mapping[str, Answers]) -> list[Shown]:
    """Some rows of each set, evenly spread, with the first answers of all."""
    first, found = exam.writing.seeds[0], list[Shown]()
    for name, rows in exam.sets.items():
        for number in sorted({k * len(rows) // SHOWN for k in range(min(SHOWN, len(rows)))}):
            row = rows[number]
            said = {who: own[name][first][number] for who, own in answers.items() if own}
            scored = [Said(who, one.text, rouge_l(one.text, row.answer), one.ended) for who, one in said.items()]
            found.append(Shown(name, row.shown, (Said(REFERENCE, row.answer, None), *scored)))
    return found

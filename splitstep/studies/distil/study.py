"""Methods of distillation against each other: the same student by each method, with several seeds, all judged alike."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...distil.judging.exam import Answers, Exam
from ...distil.judging.rouge import rouge_l
from ...distil.judging.tokens import Causal
from ...jobs.engines import threads_per_job
from ...training.directory import stamp
from .claims import claims_of
from .plan import plan
from .result import REFERENCE, START, TEACHER, DistilResult, DistilRun, Said, Shown
from .rows import differences_of, row_of
from .running import Distil, judge_once, run_one

SHOWN = 3  # rows of each set whose answers stand beside each other on the page


def compare_methods(
    distil: Distil,
    teacher: Causal,
    exam: Exam,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    start: Causal | None = None,
    recipe: Mapping[str, Any] | None = None,
    command: str | None = None,
    quiet: bool = False,
) -> DistilResult:
    """Train a student by every method with every seed, and judge all of them; what is in `out` already is kept.

    `distil` trains one student. `start` is the student before training, which is judged as well. `recipe` is what the
    runs have in common, for the page.
    """
    runs = plan(methods, seeds)
    out = out.resolve()
    others = {TEACHER: judge_once(TEACHER, teacher, out, exam, None)}
    if start is not None:
        others[START] = judge_once(START, start, out, exam, teacher)
    found, answers = list[DistilRun](), {name: judged.answers for name, judged in others.items()}
    for one in runs:
        run, own = run_one(distil, one, out, exam, teacher)
        found.append(run)
        answers.setdefault(run.method, own)  # those of the first seed are shown
        tell(f"{one.folder}: {said(run)}", quiet)
    rows = [row_of(found, method, methods, list(exam.sets)) for method in methods]
    differences = differences_of(rows, found)
    return DistilResult(
        seeds=tuple(seeds),
        sets=tuple(exam.sets),
        rows=tuple(rows),
        others={name: judged.figures for name, judged in others.items()},
        differences=tuple(differences),
        claims=tuple(claims_of(differences)),
        runs=tuple(found),
        shown=tuple(shown_of(exam, answers)),
        recipe=dict(recipe or {}),
        data=exam.describe(),
        engine="this process",
        threads=threads_per_job(),
        command=command,
        **stamp(),
    )


def tell(line: str, quiet: bool) -> None:
    if not quiet:
        print(line, file=sys.stderr)


def said(run: DistilRun) -> str:
    if run.figures is None:
        return f"diverged after {run.steps} steps"
    return f"ROUGE-L {run.figures.rouge:.2f}, {run.figures.bits_per_byte:.4f} bits per byte"


def shown_of(exam: Exam, answers: Mapping[str, Answers]) -> list[Shown]:
    """Some rows of each set, evenly spread, with the first answers of all."""
    first, found = exam.writing.seeds[0], list[Shown]()
    for name, rows in exam.sets.items():
        for number in sorted({k * len(rows) // SHOWN for k in range(min(SHOWN, len(rows)))}):
            row = rows[number]
            texts = {who: own[name][first][number] for who, own in answers.items() if own}
            scored = [Said(who, text, rouge_l(text, row.answer)) for who, text in texts.items()]
            found.append(Shown(name, row.shown, (Said(REFERENCE, row.answer, None), *scored)))
    return found

"""`splitstep compare distil`: methods of distillation against each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .output import Output

RECIPE = "distil"
TEST = 500  # rows at the end of the text, on which students are judged, unless data.test says otherwise
SAMPLES, TOKENS = (10, 20, 30, 40, 50), 256  # the seeds of answers, as in the papers


class Asked(NamedTuple):
    """What the command line says."""

    words: Sequence[str]  # teacher, student, entries
    methods: str
    seeds: int
    text: Sequence[Path]
    questions: Sequence[Path]
    student_layers: int | None
    answer_tokens: int | None
    out: Path
    data: Path | None
    as_json: bool
    command: str
    engine: str = "local"
    plain: Path | None = None


def compare_distil(asked: Asked) -> None:
    """Train and judge students by all methods with all seeds."""
    teacher, student = models_of(asked)
    if not asked.text:
        raise ValueError("--text is missing: name a file of instructions with answers.")
    from ..distil.judging.answers import Writing
    from ..jobs.engines import check_engine
    from ..studies.distil import STUDY, compare_methods
    from ..studies.distil.exams import ExamFiles, make_exam
    from ..studies.distil.plan import plan, split_methods
    from ..studies.distil.recipe_runs import RecipeRuns

    check_engine(asked.engine)
    methods, seeds = split_methods(asked.methods), range(asked.seeds)
    plan(methods, seeds)  # refuses wrong ones before models are opened
    runs = RecipeRuns(document_of(asked, teacher, student), asked.data)
    recipe = runs.recipe(methods[0], 0)
    output = Output(asked.as_json, asked.out).check()
    writing = Writing(SAMPLES, asked.answer_tokens or TOKENS)
    files = ExamFiles(asked.text, {path.stem: path for path in asked.questions}, asked.plain, asked.data)
    exam, left_out = make_exam(files, runs.models(), writing, runs.document["data"])
    for name, count in left_out.items():
        if count:
            print(f"{name}: {count} rows are too long for a model, and are left out", file=sys.stderr)
    runs.write_cache(methods)
    result = compare_methods(
        runs, exam, methods, seeds, asked.out, engine=asked.engine, recipe=recipe.document(), command=asked.command
    )
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, asked.out)}", file=sys.stderr)


def models_of(asked: Asked) -> tuple[str, str]:
    """The teacher, and the model that the student begins as: the teacher itself if the student is cut from it."""
    named = [word for word in asked.words if "=" not in word]
    layers = asked.student_layers
    if not named:
        raise ValueError("There is no teacher: write `splitstep compare distil TEACHER STUDENT --methods ce,kl ...`.")
    if len(named) > 2 or (len(named) == 2 and layers is not None):
        raise ValueError(f"{named[-1]} is one model too many: name a teacher, and a student or --student-layers.")
    if len(named) == 1 and layers is None:
        raise ValueError("There is no student: name one after the teacher, or add --student-layers N.")
    return named[0], named[-1]


def document_of(asked: Asked, teacher: str, student: str) -> dict[str, Any]:
    """The recipe that all runs share."""
    from ..training.recipe import load_document, override

    document: dict[str, Any] = {key: value for key, value in load_document(RECIPE).items() if key != "about"}
    document |= {"start": student, "data": {"path": [str(file) for file in asked.text], "test": TEST}}
    document["objective"] = {"name": "distil", "teacher": teacher, "cache": str(asked.out / "teacher")}
    if asked.student_layers is not None:
        document["model"] = {"layers": asked.student_layers}
    return override(document, [word for word in asked.words if "=" in word])

"""`splitstep compare distil`: methods of distillation against each other."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from .compare import checked_count, refuse_launchers
from .distil import StudentLayers, Teacher
from .options import Data, EngineOption, Json, NewDirectory
from .output import Output

RECIPE = "distil"
TEST = 500  # rows at the end of the text, on which students are judged, unless data.test says otherwise
SAMPLES, TOKENS = (10, 20, 30, 40, 50), 256  # the seeds of answers, as in the papers


def checked_tokens(tokens: int) -> int:
    """The most tokens of an answer, unless it has none."""
    if tokens < 1:
        raise ValueError(f"--answer-tokens {tokens}: give at least 1.")
    return tokens


Student = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="STUDENT|KEY=VALUE",
        help="The model that learns, unless --student-layers is given; then recipe entries, such as train.steps=500.",
    ),
]
Methods = Annotated[
    str, typer.Option("--methods", help="Methods of distillation, separated by commas, such as ce,kl,skl,skl+mta.")
]
Seeds = Annotated[
    int,
    typer.Option("--seeds", help="Students of each method: 3 means the seeds 0 to 2.", callback=checked_count),
]
Text = Annotated[
    list[Path],
    typer.Option("--text", metavar="FILE", help="JSON lines with instruction and response; repeatable."),
]
Questions = Annotated[
    list[Path] | None,
    typer.Option("--questions", metavar="FILE", help="More instructions to judge students on; repeatable."),
]
Plain = Annotated[
    Path | None,
    typer.Option("--plain", metavar="FILE", help="Plain text, of which bits per byte are measured as well."),
]
AnswerTokens = Annotated[
    int, typer.Option("--answer-tokens", metavar="N", help="The most tokens of an answer.", callback=checked_tokens)
]


class Asked(NamedTuple):
    """What the command line says."""

    words: Sequence[str]  # teacher, student, entries
    methods: str
    seeds: int
    text: Sequence[Path]
    questions: Sequence[Path]
    student_layers: int | None
    answer_tokens: int
    out: Path
    data: Path | None
    as_json: bool
    command: str
    engine: str = "local"
    plain: Path | None = None


def compare_students(
    teacher: Teacher,
    student: Student = None,
    *,
    context: typer.Context,
    methods: Methods,
    seeds: Seeds = 3,
    text: Text,
    questions: Questions = None,
    student_layers: StudentLayers = None,
    plain: Plain = None,
    answer_tokens: AnswerTokens = TOKENS,
    out: NewDirectory,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Distil one model into students by several methods, and compare the students over seeds.

    \b
    Example:
      splitstep compare distil TEACHER STUDENT --text rows.jsonl --methods ce,skl,skl+mta --seeds 3 --out runs/terms
      splitstep compare distil TEACHER --student-layers 10 --text rows.jsonl --methods ce,skl --out runs/terms

    Students are judged on the last rows of the text, which they are not trained on (data.test=500), and on --questions.
    Prints a table with 95% intervals and writes DIR/result.json and DIR/report.html. If interrupted, the same command
    continues: finished runs are kept.
    """
    asked = Asked(
        words=[teacher, *(student or [])],
        methods=methods,
        seeds=seeds,
        text=text,
        questions=questions or [],
        student_layers=student_layers,
        answer_tokens=answer_tokens,
        out=out,
        data=data,
        as_json=as_json,
        command=shlex.join(context.obj),
        engine=engine,
        plain=plain,
    )
    compare_distil(asked)


def compare_distil(asked: Asked) -> None:
    """Train and judge students by all methods with all seeds."""
    teacher, student = models_of(asked)
    refuse_launchers("compare distil")
    from ..distillation.judging.answers import Writing
    from ..jobs.engines import check_engine
    from ..studies.distil import compare_methods
    from ..studies.distil.directory import check_directory, check_weights, left_out
    from ..studies.distil.exams import ExamFiles, make_exam
    from ..studies.distil.plan import plan, split_methods
    from ..studies.distil.recipe_runs import RecipeRuns, weights_of

    check_engine(asked.engine)
    methods, seeds = split_methods(asked.methods), range(asked.seeds)
    plan(methods, seeds)  # refuses wrong ones before models are opened, as the next line does
    writing = Writing(SAMPLES, asked.answer_tokens)
    runs = RecipeRuns(document_of(asked, teacher, student), asked.data)
    recipe = runs.recipe(methods[0], 0)
    output = Output(asked.as_json, asked.out).check()
    check_directory(asked.out, recipe.document())
    files = ExamFiles(asked.text, sets_of(asked.questions), asked.plain, asked.data)
    models = runs.models()
    weights = weights_of(models)
    check_weights(asked.out, weights)
    exam, notes = make_exam(files, models, writing, runs.document["data"])
    del models  # they would stay in memory beside those of the runs
    for note in notes:
        print(note, file=sys.stderr)
    runs.write_cache(methods)
    result = compare_methods(
        runs, exam, methods, seeds, asked.out, engine=asked.engine, recipe=recipe.document(), weights=weights,
        command=asked.command,
    )  # fmt: skip
    fewer = left_out(asked.out, methods, seeds)
    output.emit_result(result)
    if fewer:
        print(fewer, file=sys.stderr)


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


def sets_of(questions: Sequence[Path]) -> dict[str, Path]:
    """The files by their names without the ending, as tables call them."""
    from ..studies.distil.exams import HELD_OUT

    names = [path.stem for path in questions]
    for number, name in enumerate(names):
        if name in (*names[:number], HELD_OUT):
            raise ValueError(f"--questions {questions[number]}: there is a set called {name} already: rename the file")
    return dict(zip(names, questions, strict=True))


def document_of(asked: Asked, teacher: str, student: str) -> dict[str, Any]:
    """The recipe that all runs share."""
    from ..recipe import load_document, override
    from ..studies.distil.directory import CACHE

    document: dict[str, Any] = {key: value for key, value in load_document(RECIPE).items() if key != "about"}
    document |= {"start": student, "data": {"path": [str(file) for file in asked.text], "test": TEST}}
    document["objective"] = {"name": "distil", "teacher": teacher, "cache": str(asked.out / CACHE)}
    if asked.student_layers is not None:
        document["model"] = {"layers": asked.student_layers}
    return override(document, [word for word in asked.words if "=" in word])

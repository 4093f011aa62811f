"""Doors to distillation: one student, and methods against each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .common import checked_count, default_folder, kept, refuse_launchers
from .door import door
from .runs import trained

if TYPE_CHECKING:
    from ..studies.distil.inputs import ExamFiles
    from ..studies.distil.result import DistilResult
    from .results import Trained

RECIPE = "distil"
TEST = 500  # rows at the end of the text, on which students are judged, unless data.test says otherwise
SAMPLES, TOKENS = (10, 20, 30, 40, 50), 256  # the seeds of answers, as in the papers


@door
def distil(
    teacher: str,
    *student: str,
    text: list[Path] | None = None,
    method: str = "kl",
    student_layers: int | None = None,
    out: Path | None = None,
    cache: Path | None = None,
    online: bool = False,
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
    stop: Callable[[], Any] | None = None,
) -> Trained:
    """Train a small model to imitate a large one. If the run is stopped or killed, the same command continues
    it.

    Example:
      splitstep distil TEACHER STUDENT --text instructions.jsonl --method kl --out runs/small
      splitstep distil TEACHER STUDENT --text instructions.jsonl --method mta --out runs/spans
      splitstep distil TEACHER --student-layers 10 --text instructions.jsonl train.steps=2000
      splitstep distil TEACHER OTHER --text instructions.jsonl --method sra

    The teacher reads the text once, into a cache; with --online it is kept in memory. Both models are causal.

    The student is saved in DIR/model; a Hugging Face model loads with AutoModelForCausalLM.

    Parameters:
    teacher TEACHER: A causal model: a finished run, a folder, a GGUF file, or a name on the Hub.
    student [STUDENT] [KEY=VALUE]: The model that learns, unless --student-layers is given; then recipe entries, such as
      train.steps=500.
    text FILE: JSON lines with instruction and response, or plain text; repeatable.
    method SUM: A sum of terms (ce, kl, skl, uld, ...), such as "skl + 2 mta.dsa + .2 mta.hid", or a preset: mta, sra.
    student_layers N: Cut the student from the teacher: N of its layers, evenly.
    cache DIR: Where to keep what the teacher shows, which it does once. Default: OUT-teacher.
    online: Keep the teacher in memory beside the student; nothing is cached.
    """
    begin, changes = student_and_changes(teacher, student, student_layers)
    if online and cache is not None:
        raise ValueError(f"--online and --cache {cache} exclude each other: leave one of them out.")
    if not text:
        raise ValueError("--text is missing: name a file of instructions with answers, or of plain text.")
    from ..recipe import override, read_recipe

    out = default_folder("distil", begin, out)
    kept_in = None if online else cache or out.with_name(f"{out.name}-teacher")
    document = document_of(teacher, begin, text, student_layers, kept_in, method=method)
    return trained(read_recipe(override(document, changes), "distil"), out, data, False, stop)


def document_of(
    teacher: str, begin: str, text: Sequence[Path], layers: int | None, cache: Path | None, **objective: str
) -> dict[str, Any]:
    """The recipe of a student; `objective` has more of its entries."""
    from ..recipe import load_document

    document: dict[str, Any] = {key: value for key, value in load_document(RECIPE).items() if key != "about"}
    document |= {"start": begin, "data": {"train": [str(file) for file in text]}}
    document["objective"] = {"name": "distil", "teacher": teacher, **objective}
    if cache is not None:
        document["objective"]["cache"] = str(cache)
    if layers is not None:
        document["model"] = {"layers": layers}
    return document


def student_and_changes(teacher: str, words: Sequence[str], layers: int | None) -> tuple[str, list[str]]:
    """The model that the student begins as, and the recipe entries that are given after it."""
    if "=" in teacher and not Path(teacher).exists():
        raise ValueError(
            f"There is no teacher: {teacher} is a recipe entry; name the teacher and the student before it."
        )
    named = [word for word in words if "=" not in word]
    changes = [word for word in words if "=" in word]
    if len(named) > 1:
        raise ValueError(f"{named[1]} is a second student: name one, and recipe entries as key=value.")
    if named and layers is not None:
        raise ValueError(f"{named[0]} and --student-layers {layers} are two students: give one of them.")
    if not named and layers is None:
        raise ValueError("There is no student: name one after the teacher, or add --student-layers N.")
    return (named[0] if named else teacher), changes


@door
def compare_distil(
    teacher: str,
    *student: str,
    methods: tuple[str, ...],
    seeds: int = 3,
    text: list[Path],
    questions: list[Path] | None = None,
    student_layers: int | None = None,
    plain: Path | None = None,
    answer_tokens: int = TOKENS,
    out: Path | None = None,
    engine: str = "local",
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> DistilResult:
    """Distil one model into students by several methods, and compare the students over seeds.

    Example:
      splitstep compare distil TEACHER STUDENT --text rows.jsonl --methods ce,skl,skl+mta --seeds 3 --out runs/terms
      splitstep compare distil TEACHER --student-layers 10 --text rows.jsonl --methods ce,skl --out runs/terms

    Students are judged on the last rows of the text, which they are not trained on (data.test=500), and on --questions.
    Prints a table with 95% intervals and writes DIR/result.json and DIR/report.html.

    Parameters:
    teacher TEACHER: A causal model: a finished run, a folder, a GGUF file, or a name on the Hub.
    student STUDENT|KEY=VALUE: The model that learns, unless --student-layers is given; then recipe entries.
    methods LIST: Methods of distillation, separated by commas, such as ce,kl,skl,skl+mta.
    seeds N: Students of each method: 3 means the seeds 0 to 2.
    text FILE: JSON lines with instruction and response; repeatable.
    questions FILE: More instructions to judge students on; repeatable.
    student_layers N: Cut the student from the teacher: N of its layers, evenly.
    plain FILE: Plain text, of which bits per byte are measured as well.
    answer_tokens N: The most tokens of an answer.
    """
    checked_count(seeds)
    if answer_tokens < 1:
        raise ValueError(f"--answer-tokens {answer_tokens}: give at least 1.")
    begin, changes = student_and_changes(teacher, student, student_layers)
    refuse_launchers("compare distil")
    out = default_folder("compare", "distil", out, "distil")
    from ..recipe import override
    from ..studies.distil.directory import CACHE
    from ..studies.distil.inputs import ExamFiles

    document = document_of(teacher, begin, text, student_layers, out / CACHE)
    document["data"]["test"] = TEST
    files = ExamFiles(text, sets_of(questions or []), plain, data)
    return judged(override(document, changes), files, list(methods), range(seeds), answer_tokens, out, engine)


def judged(
    document: dict[str, Any], files: ExamFiles, methods: list[str], seeds: range, tokens: int, out: Path, engine: str
) -> DistilResult:
    """Students trained and judged by all methods with all seeds."""
    from ..distillation.judging.answers import Writing
    from ..jobs import check_engine
    from ..opening.network import sha256_of_weights
    from ..recipe import read_recipe
    from ..studies.distil import compare_methods
    from ..studies.distil.directory import Weights, check_recipe, check_weights, left_out, plan
    from ..studies.distil.inputs import RecipeRuns, make_exam

    check_engine(engine)
    plan(methods, seeds)  # refuses wrong methods before models are opened
    runs = RecipeRuns(read_recipe(document, "compare distil"), files.data)
    recipe = runs.recipe(methods[0], 0).document()
    check_recipe(out, recipe)
    models = [runs.teacher(), runs.start()]
    weights = Weights(*(sha256_of_weights(one.model) for one in models))
    check_weights(out, weights)
    exam, notes = make_exam(files, models, Writing(SAMPLES, tokens), document["data"])
    del models  # they would stay in memory beside those of the runs
    print(*notes, sep="\n", end="\n" * bool(notes), file=sys.stderr)
    runs.write_cache(methods)
    result = compare_methods(runs, exam, methods, seeds, out, engine=engine, recipe=recipe, weights=weights)
    if fewer := left_out(out, methods, seeds):
        print(fewer, file=sys.stderr)
    return kept(result, out)


def sets_of(questions: Sequence[Path]) -> dict[str, Path]:
    """The files by their names without the ending, as tables call them."""
    from ..studies.distil.inputs import HELD_OUT

    names = [path.stem for path in questions]
    for number, name in enumerate(names):
        if name in (*names[:number], HELD_OUT):
            raise ValueError(f"--questions {questions[number]}: there is a set called {name} already: rename the file")
    return dict(zip(names, questions, strict=True))

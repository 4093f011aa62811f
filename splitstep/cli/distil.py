"""The verb that distils a model into a smaller one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Data, Json
from .runs import run_and_tell

RECIPE = "distil"
Teacher = Annotated[
    str,
    typer.Argument(
        metavar="TEACHER", help="A causal model: a finished run, a folder, a GGUF file, or a name on the Hub."
    ),
]
Student = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDENT] [KEY=VALUE]...",
        help="The model that learns, unless --student-layers is given; then recipe entries, such as train.steps=500.",
    ),
]
Text = Annotated[
    list[Path] | None,
    typer.Option("--text", metavar="FILE", help="JSON lines with instruction and response, or plain text; repeatable."),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help='A sum of terms (ce, kl, skl, uld, ...), such as "skl + 2 mta.dsa + .2 mta.hid", or a preset: mta, sra.',
    ),
]
StudentLayers = Annotated[
    int | None,
    typer.Option("--student-layers", metavar="N", help="Cut the student from the teacher: N of its layers, evenly."),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="Where to keep what the teacher shows, which it does once. Default: OUT-teacher."
    ),
]
Online = Annotated[
    bool, typer.Option("--online", help="Keep the teacher in memory beside the student; nothing is cached.")
]
RunOut = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="A new directory for the run, or an interrupted one.")
]


def distil(
    context: typer.Context,
    teacher: Teacher,
    student: Student = None,
    text: Text = None,
    method: Method = "kl",
    student_layers: StudentLayers = None,
    out: RunOut = Path("runs/distil"),
    cache: CacheFolder = None,
    online: Online = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train a small model to show what a large one shows. If the run is stopped or killed, the same command continues
    it.

    \b
    Example:
      splitstep distil TEACHER STUDENT --text instructions.jsonl --method kl --out runs/small
      splitstep distil TEACHER STUDENT --text instructions.jsonl --method mta --out runs/spans
      splitstep distil TEACHER --student-layers 10 --text instructions.jsonl train.steps=2000
      splitstep distil TEACHER OTHER --text instructions.jsonl --method sra

    The teacher reads the text once, into a cache; with --online it is kept in memory. Both models are causal.

    The student is saved in DIR/model; a Hugging Face model loads with AutoModelForCausalLM.
    """
    begin, overrides = student_and_overrides(teacher, student or [], student_layers)
    if online and cache is not None:
        raise ValueError(f"--online and --cache {cache} exclude each other: leave one of them out.")
    if not text:
        raise ValueError("--text is missing: name a file of instructions with answers, or of plain text.")
    from ..recipe import load_document, override, read_recipe

    document: dict[str, Any] = dict(load_document(RECIPE))
    del document["about"]
    document |= {"start": begin, "data": {"path": [str(file) for file in text]}}
    document["objective"] = {"name": "distil", "teacher": teacher, "method": method}
    if not online:
        document["objective"]["cache"] = str(cache or out.with_name(f"{out.name}-teacher"))
    if student_layers is not None:
        document["model"] = {"layers": student_layers}
    recipe = read_recipe(override(document, overrides), "distil")
    run_and_tell(context, recipe, out, data, False, as_json)


def student_and_overrides(teacher: str, words: list[str], layers: int | None) -> tuple[str, list[str]]:
    """The model that the student begins as, and the recipe entries that are given after it."""
    if "=" in teacher and not Path(teacher).exists():
        raise ValueError(
            f"There is no teacher: {teacher} is a recipe entry; name the teacher and the student before it."
        )
    named = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    if len(named) > 1:
        raise ValueError(f"{named[1]} is a second student: name one, and recipe entries as key=value.")
    if named and layers is not None:
        raise ValueError(f"{named[0]} and --student-layers {layers} are two students: give one of them.")
    if not named and layers is None:
        raise ValueError("There is no student: name one after the teacher, or add --student-layers N.")
    return (named[0] if named else teacher), overrides

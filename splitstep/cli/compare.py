"""The verb that compares schemes, pre-trained networks on GLUE, or methods of distillation."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..recipes import find_recipe, recipe_of_task
from .options import Data, Json, NewDirectory
from .output import Output

if TYPE_CHECKING:
    from ..training import Recipe

MOST_SEEDS = 10_000  # a run each
SEEDS, FINE_TUNINGS = 5, 2  # unless --seeds says otherwise
GLUE, DISTIL = "glue", "distil"  # in the place of a recipe
STUDENTS = 3  # seeds of each method of distillation
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RECIPE|KEY=VALUE",
        help="A recipe's name or YAML file, then entries to change, such as train.steps=500.",
    ),
]
Task = Annotated[str | None, typer.Option("--task", help="Use the recipe of this task, if no recipe is named.")]
Match = Annotated[
    str | None,
    typer.Option("--match", help="Match parameters, flops or none (equal shapes). Default: as in the recipe."),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", help="Where runs execute: local, local=N for N processes at once, or dask=ADDRESS of a scheduler."
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=VALUE,...",
        help="Recipe values to try for each scheme; its best on validation is reported. Several --sweep form a grid.",
    ),
]
Arms = Annotated[
    str | None,
    typer.Option("--arms", help="Also train each scheme without some of its structure, such as full,no-norm."),
]
Schemes = Annotated[str | None, typer.Option("--schemes", help="Names or notations of schemes, separated by commas.")]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        help="The number of seeds: 5, the default, means 0 to 4 (from train.seed). For glue: fine-tunings, 2.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="NAME=RUN,...|DIR",
        help="For glue: pre-trained runs, several of one name joined by + or matched by *; or a whole comparison.",
    ),
]
Scratch = Annotated[
    bool, typer.Option("--scratch", help="For glue: also train the same networks without pre-training.")
]
GlueTasks = Annotated[
    str | None, typer.Option("--tasks", help="For glue: its tasks. Default: cola,sst2,mrpc,rte,stsb.")
]
Grid = Annotated[
    str | None,
    typer.Option("--grid", help="For glue: paper tries epochs, batches and rates as the Macaron paper does."),
]

Methods = Annotated[
    str | None, typer.Option("--methods", help="For distil: methods, separated by commas, such as ce,kl,skl,skl+mta.")
]
Text = Annotated[
    list[Path] | None,
    typer.Option("--text", metavar="FILE", help="For distil: JSON lines with instruction and response; repeatable."),
]
Questions = Annotated[
    list[Path] | None,
    typer.Option("--questions", metavar="FILE", help="For distil: more instructions to judge students on; repeatable."),
]
StudentLayers = Annotated[
    int | None,
    typer.Option("--student-layers", metavar="N", help="For distil: cut the student from the teacher, N layers."),
]
AnswerTokens = Annotated[
    int | None,
    typer.Option("--answer-tokens", metavar="N", help="For distil: the most tokens of an answer. Default: 256."),
]

Plain = Annotated[
    Path | None,
    typer.Option(
        "--plain", metavar="FILE", help="For distil: plain text, of which bits per byte are measured as well."
    ),
]


class Line(NamedTuple):
    """The options that all comparisons share."""

    seeds: int | None
    out: Path
    sweep: list[str]
    engine: str
    data: Path | None
    as_json: bool
    command: str

    def output(self) -> Output:
        """Where the result goes; the first run makes the directory, after everything is checked."""
        return Output(self.as_json, self.out).check()


class Students(NamedTuple):
    """The options of a comparison of distillations."""

    methods: str | None
    text: list[Path]
    questions: list[Path]
    student_layers: int | None
    answer_tokens: int | None
    plain: Path | None

    def options(self) -> dict[str, object]:
        return {f"--{name.replace('_', '-')}": value for name, value in self._asdict().items()}


def compare(
    words: Words = None,
    *,
    context: typer.Context,
    task: Task = None,
    schemes: Schemes = None,
    seeds: Seeds = None,
    out: NewDirectory,
    match: Match = None,
    sweep: Sweep = None,
    arms: Arms = None,
    start: Start = None,
    scratch: Scratch = False,
    tasks: GlueTasks = None,
    grid: Grid = None,
    methods: Methods = None,
    text: Text = None,
    questions: Questions = None,
    student_layers: StudentLayers = None,
    answer_tokens: AnswerTokens = None,
    plain: Plain = None,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train schemes at equal cost and compare them over seeds; or fine-tune on GLUE; or compare distillations.

    \b
    Example:
      splitstep compare --task digits --schemes lie,macaron,strang-midpoint --seeds 5 --out runs/digits
      splitstep compare stdlib train.steps=500 --schemes "lie,F/2 A F/2" --match flops --out runs/lm
      splitstep compare glue --start runs/pretrain --seeds 2 --scratch --out runs/glue
      splitstep compare distil TEACHER STUDENT --text rows.jsonl --methods ce,skl,skl+mta --seeds 3 --out runs/terms

    Prints a table with 95% intervals and writes DIR/result.json and DIR/report.html. Schemes are resized to the cost of
    the recipe's model in its reference scheme. If interrupted, the same command continues: finished runs are kept.
    """
    given, line = list(words or []), Line(seeds, out, sweep or [], engine, data, as_json, shlex.join(context.obj))
    of_glue = {"--start": start, "--scratch": scratch, "--tasks": tasks, "--grid": grid}
    of_schemes = {"--schemes": schemes, "--match": match, "--arms": arms, "--task": task}
    students = Students(methods, text or [], questions or [], student_layers, answer_tokens, plain)
    if given[:1] == [DISTIL]:
        refuse(DISTIL, {**of_schemes, **of_glue, "--sweep": sweep})
        compare_students(given[1:], line, students)
    elif given[:1] == [GLUE]:
        refuse(GLUE, {**of_schemes, **students.options()})
        compare_glue(given[1:], line, start, scratch, tasks, grid)
    else:
        refuse("a comparison of schemes", {**of_glue, **students.options()})
        compare_schemes(given, line, task, schemes, "full" if arms is None else arms, match)


def compare_students(words: list[str], line: Line, students: Students) -> None:
    """Methods of distillation against each other."""
    seeds = STUDENTS if line.seeds is None else line.seeds
    check_count(seeds)
    if students.methods is None:
        raise ValueError("Missing option '--methods': name some, as in --methods ce,kl,skl,skl+mta.")
    refuse_launchers("compare")
    from .compare_distil import Asked, compare_distil

    made = line.out, line.data, line.as_json, line.command, line.engine, students.plain
    compare_distil(Asked(words, students.methods, seeds, *students[1:-1], *made))


def compare_schemes(
    words: list[str], line: Line, task: str | None, schemes: str | None, arms: str, match: str | None
) -> None:
    """Schemes against each other."""
    seeds = SEEDS if line.seeds is None else line.seeds
    check_count(seeds)
    if schemes is None:
        raise ValueError("Missing option '--schemes': name some, as in --schemes lie,macaron.")
    name, document = document_of("compare", words, task, [] if match is None else [f"match={match}"])
    from ..studies.arms import read_ablate, split_arms
    from ..studies.compare import STUDY
    from ..studies.compare import compare as study
    from ..studies.compare.plan import read_sweep, split_schemes

    recipe = recipe_for(task, name, document)
    output = line.output()
    result = study(
        recipe,
        split_schemes(schemes),
        seeds_of(recipe, seeds),
        line.out,
        sweep=read_sweep(line.sweep),
        arms=split_arms(arms),
        own_arms=read_ablate(document, name).arms,
        engine=line.engine,
        data=line.data,
        command=line.command,
    )
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, line.out)}", file=sys.stderr)


def compare_glue(
    words: Sequence[str], line: Line, start: str | None, scratch: bool, tasks: str | None, grid: str | None
) -> None:
    """Pre-trained networks against each other, fine-tuned on GLUE."""
    if start is None:
        raise ValueError("Missing option '--start': name pre-trained runs, as in --start lie=runs/a,macaron=runs/b.")
    for word in words:
        if "=" not in word:
            raise ValueError(f"compare glue takes entries to change, such as train.steps=500, but not {word!r}.")
    refuse_launchers("compare")
    from ..studies.glue import STUDY, glue, read_starts
    from ..studies.glue.scores import DEFAULT

    output = line.output()
    result = glue(
        read_starts(start),
        line.out,
        seeds=FINE_TUNINGS if line.seeds is None else line.seeds,
        tasks=DEFAULT if tasks is None else [task.strip() for task in tasks.split(",")],
        scratch=scratch,
        changes=words,
        sweep=line.sweep,
        grid=grid,
        engine=line.engine,
        data=line.data,
        command=line.command,
    )
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, line.out)}", file=sys.stderr)


def refuse(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that are for the other kind of comparison."""
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} does not go with {what}: leave it out.")


def document_of(verb: str, words: list[str], task: str | None, more: Sequence[str] = ()) -> tuple[str, Any]:
    """The name and the document of the recipe that is named first, or of the task's, with its entries changed."""
    name = words.pop(0) if words and "=" not in words[0] else None
    if name is None and task is None:
        raise ValueError(f"Missing recipe: name one, as in `splitstep {verb} digits ...`, or give --task digits.")
    found = recipe_of_task(str(task)) if name is None else name
    find_recipe(found)  # refuses a wrong name before torch is imported
    from ..training.recipe import load_document

    refuse_launchers(verb)
    return found, load_document(found, [*words, *more])


def recipe_for(task: str | None, name: str, document: Any) -> Recipe:
    """The recipe of a document, which must be for the task if one is given."""
    from ..training import read_recipe

    recipe = read_recipe(document, name)
    if task is not None and recipe.task != task:
        raise ValueError(f"--task {task}, but the recipe {name} is for {recipe.task}: leave one of the two out.")
    return recipe


def check_count(seeds: int) -> None:
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds {seeds}: give at least 1 and at most {MOST_SEEDS:,}.")


def seeds_of(recipe: Recipe, count: int) -> range:
    """So many seeds, from the recipe's own on."""
    check_count(count)
    return range(recipe.train.seed, recipe.train.seed + count)


def refuse_launchers(verb: str) -> None:
    """Refuse to run under torchrun: a study starts its own processes."""
    from ..training.processes import launched

    if launched("WORLD_SIZE") > 1:
        raise ValueError(f"{verb} starts its own processes: run it without torchrun, with --engine local=N.")

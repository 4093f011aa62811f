"""The verbs: which function each is derived from, and what is printed of what it returns."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ..doors import distil, lists, looks, runs, studies
from ..support.provenance import COMMAND
from .output import Output
from .printed import figures_table, run_table
from .verb import called, derived, standard_input

if TYPE_CHECKING:
    from ..training.processes import Stop

Values = dict[str, Any]
DIVERGED = 1  # the exit code: the input was right, and yet there is no model


class Verb(NamedTuple):
    """A verb: its function, and what is done with its values."""

    function: Callable[..., Any]
    act: Callable[[Callable[..., Any], Values, bool], None]

    def derived(self) -> Callable[..., None]:
        """What a command line is read for."""
        return derived(self.function, lambda values, as_json: self.act(self.function, values, as_json))


def look(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Print the verdict and the tables of a study's result."""
    from ..report.drawing import document_to_terminal

    result = called(function, values)
    Output(as_json, None).emit(result.json(), lambda: document_to_terminal(result.document()))


def listing(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Print a listing, or text as it is."""
    if as_json and values["markdown"]:
        raise ValueError("--markdown only prints a table: leave out --json and --out.")
    if as_json and values.get("name"):
        raise ValueError(f"recipes {values['name']} prints a YAML file: leave out --markdown, --json and --out.")
    result = called(function, values)
    if isinstance(result, str):
        sys.stdout.write(result)
        return
    from ..report.tables import to_terminal

    Output(as_json, values["out"]).emit(result.json(), lambda: to_terminal([result.table]))


def reports(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Print stored results again and write their pages."""
    if as_json and values["markdown"]:
        raise ValueError("--markdown only prints tables: leave out --json and --out.")
    if as_json and len(values["directories"]) > 1:
        many = len(values["directories"])
        raise ValueError(f"--json and --out need one directory, not {many}: leave them out, or name one.")
    from ..report.drawing import document_to_terminal

    found = called(function, values)
    if isinstance(found, str):
        sys.stdout.write(found)
        return
    for one in found:
        page = one.result.save_page(values["out"] or one.directory)
        output = Output(as_json, values["out"])
        output.emit(one.result.json(), lambda one=one: document_to_terminal(one.result.document()))
        print(f"Report: {page}", file=sys.stderr)


def training(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Train, and print what the run ended with; a signal saves a checkpoint first."""
    from ..training.processes import Stop, Stopped

    prints = os.environ.get("RANK", "0") == "0"  # one of several processes

    def stop() -> Stop:
        return Stop(signal.SIGINT, signal.SIGTERM)

    try:
        run = called(function, values | {"stop": stop})
    except Stopped as stopped:
        if prints:
            print(f"The run {stopped}. To continue: {COMMAND.get()}", file=sys.stderr)
        raise typer.Exit(128 + stopped.number) from None
    if prints:
        Output(as_json, None).emit(run.json(), lambda: run_table(run.result, run.folder))
    if run.result.diverged:
        if prints:
            told_diverged(run.result.diverged)
        raise typer.Exit(DIVERGED)


def told_diverged(diverged: Any) -> None:
    """What to do about a run without a model."""
    sys.stdout.flush()
    told = f"The run diverged at step {diverged.step} (loss {diverged.loss}), so there is no model"
    print(f"{told}: lower train.lr, or raise train.warmup, with another --out.", file=sys.stderr)


def evaluation(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Print the figures of a split."""
    result = called(function, values)
    Output(as_json, values["out"]).emit(result.document(), lambda: figures_table(result))


def writing(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Print a text as it comes."""
    result = called(function, values | {"say": (lambda piece: None) if as_json else print_at_once})
    Output(as_json, values["out"]).emit(result.document(), lambda: "\n")  # all but the end of the line is there


def print_at_once(piece: str) -> None:
    """Print a piece of text without waiting for the end of the line."""
    sys.stdout.write(piece)
    sys.stdout.flush()


def translation(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Translate standard input."""
    lines = standard_input(f"splitstep translate {values['run']} < in.txt > out.txt")
    found = called(function, values | {"lines": lines})
    if found.longer:
        many = "1 line is" if len(found.longer) == 1 else f"{len(found.longer):,} lines are"
        print(f"{many} more than twice as long as any in training, line {found.longer[0]} first.", file=sys.stderr)
    Output(as_json, values["out"]).emit(found.json(), lambda: "".join(f"{line}\n" for line in found.lines))


def prediction(function: Callable[..., Any], values: Values, as_json: bool) -> None:
    """Label standard input, or write a submission."""
    from ..support.words import counted

    wanted = values["submission"] is None
    lines = standard_input(f"splitstep predict {values['run']} < lines.txt") if wanted else []
    found, output = called(function, values | {"lines": lines}), Output(as_json, values["out"])
    if not wanted:
        output.emit(found.json(), lambda: "".join(f"{path}\n" for path in found.written))
        return
    if found.cut:
        many = counted(len(found.cut), "line")
        print(f"Too long for the model, so cut: {many}, line {found.cut[0]} first.", file=sys.stderr)
    output.emit(found.document(), lambda: "".join(f"{line}\n" for line in found.lines()))


VERBS: Mapping[str, Verb] = {
    "schemes": Verb(looks.schemes, look),
    "recipes": Verb(lists.recipes, listing),
    "tasks": Verb(lists.tasks, listing),
    "train": Verb(runs.train, training),
    "evaluate": Verb(runs.evaluate, evaluation),
    "translate": Verb(runs.translate, translation),
    "generate": Verb(runs.generate, writing),
    "predict": Verb(runs.predict, prediction),
    "distil": Verb(distil.distil, training),
    "compare": Verb(studies.compare, look),
    "compare glue": Verb(studies.compare_glue, look),
    "compare distil": Verb(distil.compare_distil, look),
    "ablate": Verb(studies.ablate, look),
    "converge": Verb(looks.converge, look),
    "inspect": Verb(looks.inspect, look),
    "approximate": Verb(looks.approximate, look),
    "report": Verb(lists.report, reports),
}


def typed(words: list[str]) -> str:
    """The command line as it was typed."""
    return shlex.join(["splitstep", *words])

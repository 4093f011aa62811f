"""The verbs: which door each is derived from, and what is printed of what it returns."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ..doors import compare, distil, lists, looks, runs, studies
from ..support.provenance import COMMAND
from ..support.typed import json_text
from .verb import Act, Door, called, standard_input

if TYPE_CHECKING:
    from ..report.result import Report
    from ..training.processes import Stop

Values = dict[str, Any]
DIVERGED = 1  # the exit code: the input was right, and yet there is no model
BROKEN = 1  # likewise, and a promise is broken


class Verb(NamedTuple):
    """A verb: its function, and what is done with its values."""

    function: Door
    act: Act


def show(result: Report, as_json: bool) -> None:
    """Print a result: its JSON, or its verdict and its tables."""
    from ..report.drawing import document_to_terminal

    sys.stdout.write(json_text(result.json()) if as_json else document_to_terminal(result.document()))


def show_lines(result: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print a result: its JSON, or these lines."""
    sys.stdout.write(json_text(result.json()) if as_json else "".join(f"{line}\n" for line in lines))


def study(door: Door, values: Values, as_json: bool) -> None:
    """Print what a study or an evaluation found."""
    show(called(door, values), as_json)


def checks(door: Door, values: Values, as_json: bool) -> None:
    """Print orders, and promises if they were tried."""
    result = called(door, values)
    show(result, as_json)
    if any(row.broken for row in result.rows):
        raise typer.Exit(BROKEN)


def listing(door: Door, values: Values, as_json: bool) -> None:
    """Print a listing, or text as it is."""
    if as_json and values["markdown"]:
        raise ValueError("--markdown only prints a table: leave out --json and --out.")
    if as_json and values.get("name"):
        raise ValueError(f"recipes {values['name']} prints a YAML file: leave out --markdown, --json and --out.")
    result = called(door, values)
    if isinstance(result, str):
        sys.stdout.write(result)
    else:
        show(result, as_json)


def reports(door: Door, values: Values, as_json: bool) -> None:
    """Print stored results again and write their pages."""
    if as_json and values["markdown"]:
        raise ValueError("--markdown only prints tables: leave out --json and --out.")
    if as_json and len(values["directories"]) > 1:
        many = len(values["directories"])
        raise ValueError(f"--json and --out need one directory, not {many}: leave them out, or name one.")
    found = called(door, values)
    if isinstance(found, str):
        sys.stdout.write(found)
        return
    for one in found:
        show(one.result, as_json)
        print(f"Report: {one.page}", file=sys.stderr)


def training(door: Door, values: Values, as_json: bool) -> None:
    """Train, and print what the run ended with; a signal saves a checkpoint first."""
    prints = os.environ.get("RANK", "0") == "0"  # one of several processes

    def stop() -> Stop:
        from ..training.processes import Stop

        return Stop(signal.SIGINT, signal.SIGTERM)

    try:
        run = called(door, values | {"stop": stop})
    except InterruptedError as stopped:  # torch is there by now
        from ..training.processes import Stopped

        if not isinstance(stopped, Stopped):
            raise
        if prints:
            print(f"The run {stopped}. To continue: {COMMAND.get()}", file=sys.stderr)
        raise typer.Exit(128 + stopped.number) from None
    if prints:
        show(run, as_json)
    if diverged := run.result.diverged:
        if prints:
            sys.stdout.flush()
            told = f"The run diverged at step {diverged.step} (loss {diverged.loss}), so there is no model"
            print(f"{told}: lower train.lr, or raise train.warmup, with another --out.", file=sys.stderr)
        raise typer.Exit(DIVERGED)


def writing(door: Door, values: Values, as_json: bool) -> None:
    """Print a text as it comes."""
    result = called(door, values | {"say": (lambda piece: None) if as_json else print_at_once})
    show_lines(result, [""], as_json)  # all but the end of the line is there


def print_at_once(piece: str) -> None:
    """Print a piece of text without waiting for the end of the line."""
    sys.stdout.write(piece)
    sys.stdout.flush()


def translation(door: Door, values: Values, as_json: bool) -> None:
    """Translate standard input."""
    lines = standard_input(f"splitstep translate {values['run']} < in.txt > out.txt")
    found = called(door, values | {"lines": lines})
    if found.longer:
        many = "1 line is" if len(found.longer) == 1 else f"{len(found.longer):,} lines are"
        print(f"{many} more than twice as long as any in training, line {found.longer[0]} first.", file=sys.stderr)
    show_lines(found, found.lines, as_json)


def prediction(door: Door, values: Values, as_json: bool) -> None:
    """Label standard input, or write a submission."""
    from ..support.words import counted

    wanted = values["submission"] is None
    lines = standard_input(f"splitstep predict {values['run']} < lines.txt") if wanted else []
    found = called(door, values | {"lines": lines})
    if wanted and found.cut:
        many = counted(len(found.cut), "line")
        print(f"Too long for the model, so cut: {many}, line {found.cut[0]} first.", file=sys.stderr)
    show_lines(found, found.lines() if wanted else found.written, as_json)


VERBS: Mapping[str, Verb] = {
    "schemes": Verb(looks.schemes, checks),
    "recipes": Verb(lists.recipes, listing),
    "tasks": Verb(lists.tasks, listing),
    "arms": Verb(lists.arms, listing),
    "train": Verb(runs.train, training),
    "evaluate": Verb(runs.evaluate, study),
    "translate": Verb(runs.translate, translation),
    "generate": Verb(runs.generate, writing),
    "predict": Verb(runs.predict, prediction),
    "distil": Verb(distil.distil, training),
    "compare": Verb(compare.compare, study),
    "compare glue": Verb(studies.compare_glue, study),
    "compare distil": Verb(distil.compare_distil, study),
    "ablate": Verb(studies.ablate, study),
    "converge": Verb(looks.converge, study),
    "inspect": Verb(looks.inspect, study),
    "approximate": Verb(looks.approximate, study),
    "report": Verb(lists.report, reports),
    "doctor": Verb(lists.doctor, study),
}


def typed(words: list[str]) -> str:
    """The command line as it was typed."""
    return shlex.join(["splitstep", *words])

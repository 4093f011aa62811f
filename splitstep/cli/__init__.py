"""The verbs of the command line. Each is one function: read the input, call a study, pass its result to `Output`.

For every verb, `--json` prints one JSON document and nothing else on standard output; `--out DIR` writes the same
document to DIR/result.json; wrong input ends with one line on standard error and exit code 2. A verb imports what it
needs when it runs, so `--help` is quick.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer
from typer.main import get_command

from ..support.words import did_you_mean
from .ablate import ablate
from .approximate import approximate
from .compare import compare
from .converge import converge
from .distil import distil
from .inspect import inspect
from .predict import predict
from .recipes import recipes, tasks
from .report import report
from .runs import evaluate, generate, train, translate
from .schemes import schemes

WRONG_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141

# Typer uses click or its own copy of it, depending on the release; its BadParameter says which.
_click: Any = import_module(typer.BadParameter.__module__)

app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"splitstep {version('splitstep')}")
        raise typer.Exit


@app.callback()
def splitstep(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Build, train and compare Transformers as splitting schemes.

    \b
    Example:
      splitstep schemes
      splitstep train digits --out runs/digits
      splitstep schemes "F/2 A F/2 @midpoint" macaron --measure
    """


for verb in (
    schemes,
    recipes,
    tasks,
    train,
    evaluate,
    translate,
    generate,
    predict,
    distil,
    compare,
    ablate,
    converge,
    inspect,
    approximate,
    report,
):
    app.command()(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code; an error becomes one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _open_streams()
        atexit.register(gc.freeze)  # else Python spends a second at exit on collecting the modules of transformers
    try:
        _run(words.copy())
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except _click.UsageError as error:
        return _fail(_explained(error, words))
    except BrokenPipeError:
        _abandon(sys.stdout)
        return PIPE_CLOSED
    except OSError as error:
        if error.errno is None:  # raised by us, with a message
            return _fail(str(error))
        if error.filename is None:
            _abandon(sys.stdout)
        return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}.")
    except ValueError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted.", INTERRUPTED)
    return 0


def _run(words: list[str]) -> None:
    command: Any = get_command(app)
    verbs = sorted(command.commands)
    if not words:
        raise ValueError(f"Missing verb, such as `splitstep schemes`. Verbs: {', '.join(verbs)}. See splitstep --help.")
    if not words[0].startswith("-") and words[0] not in verbs:
        raise ValueError(f"Unknown verb {words[0]!r}. {did_you_mean(words[0], verbs)} See splitstep --help.")
    with command.make_context("splitstep", words, obj=["splitstep", *words]) as context:
        command.invoke(context)


def _explained(error: Any, words: Sequence[str]) -> str:
    """The usage error, the nearest valid option and where to read more."""
    see = f"See {' '.join(['splitstep', *(w for w in words[:1] if not w.startswith('-'))])} --help."
    if not isinstance(error, _click.NoSuchOption):
        return f"{error.format_message()} {see}"
    options = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    return f"Unknown option {error.option_name}. {did_you_mean(error.option_name, [*options, '--help'])} {see}"


def _fail(message: str, code: int = WRONG_INPUT) -> int:
    try:
        print("Error:", " ".join(message.splitlines()), file=sys.stderr, flush=True)
    except OSError:  # standard error is closed
        _abandon(sys.stderr)
    return code


def _open_streams() -> None:
    """Open closed streams on the null device: Python makes them None, and print(file=None) uses standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _abandon(stream: TextIO) -> None:
    """Point a broken stream at the null device, for the interpreter flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""The verbs of the command line. Each is one function: read the input, call a study, hand its result to `Output`.

The contract of every verb: `--json` prints one JSON document on standard output and nothing else there; `--out DIR`
writes the same document to DIR/result.json; wrong input ends with one line on standard error and exit code 2.
A verb imports what it needs when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.main import get_command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .studies.orders import Orders

WRONG_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141

# Typer stands on click or on its own copy of it, depending on the release; its BadParameter says which.
_click: Any = import_module(typer.BadParameter.__module__)

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the document to DIR/result.json.")]


class Output(NamedTuple):
    """Where a result goes: a table for people or JSON for programs, and a file beside either."""

    as_json: bool
    out: Path | None

    def open(self) -> Output:
        """Make the directory, before work begins that would be lost without it."""
        if self.out is not None:
            if self.out.exists() and not self.out.is_dir():
                raise ValueError(f"--out {self.out} is not a directory: name one that is, or a new one.")
            self.out.mkdir(parents=True, exist_ok=True)
        return self

    def emit(self, document: Any, table: Callable[[], RenderableType]) -> None:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        if self.out is not None:
            write_atomically(self.out / "result.json", text)
        if self.as_json:
            sys.stdout.write(text)
        else:
            from rich.console import Console

            console = Console(highlight=False)
            with console.capture() as captured:  # rich would leave on a closed pipe by itself
                console.print(table())
            sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file or leave what was there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)


@app.callback()
def splitstep() -> None:
    """A Transformer is a splitting scheme: build, train and compare them.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" macaron --measure
    """


@app.command()
def schemes(
    notations: Annotated[
        list[str] | None,
        typer.Argument(metavar="NOTATION", help="Rows' names or notations; without any, the whole table."),
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Add orders measured in float64.")] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Show schemes with their cost and their orders, computed from the notation.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes

    A notation that starts with a minus sign goes after `--`.
    """
    from .schemes import scheme
    from .studies.orders import orders

    texts = [str(scheme(text)) for text in notations or []]
    output = Output(as_json, out).open()
    result = orders(texts, measure)
    output.emit(result.document(), lambda: _orders_table(result))


def _orders_table(result: Orders) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("scheme", no_wrap=True)
    table.add_column("notation", min_width=16)
    for head in ["evals", "split", "order", *(["f(x)", "f(t,x)"] if result.measured else [])]:
        table.add_column(head, justify="right", no_wrap=True)
    for row in result.rows:
        numbers = [str(row.evaluations), row.splitting, row.shown_order, *(f"{v:.2f}" for v in row.measured or ())]
        table.add_row(*map(Text, [row.name or "", _shortened(row.notation), *numbers]))
    return Group(table, Text(f"\n{NOTE}{MEASURED if result.measured else ''}"))


NOTE = (
    'evals: field evaluations per step. split: the order with exact sub-flows, "exact" where nothing is split. '
    "order: of the whole step; with own weights (F0, F1) that of the tied form; Strang with Euler sub-flows is first "
    "order."
)
MEASURED = " f(x), f(t,x): measured in float64 on smooth fields without and with time."


def _shortened(notation: str) -> str:
    """The notation with long decimals cut, for reading."""
    return re.sub(r"(\d\.\d{3})\d{5,}(e[-+]?\d+)?", r"\1..\2", notation)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code; what goes wrong becomes one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(words.copy())
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except _click.UsageError as error:
        return _fail(_explained(error, words))
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except OSError as error:
        if error.filename is None:
            _abandon_stdout()
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
        raise ValueError(f"Unknown verb {words[0]!r}.{_nearest(words[0], verbs)} See splitstep --help.")
    with command.make_context("splitstep", words) as context:
        command.invoke(context)


def _explained(error: Any, words: Sequence[str]) -> str:
    """The usage error, the nearest right option and where to read more."""
    see = f"See {' '.join(['splitstep', *(w for w in words[:1] if not w.startswith('-'))])} --help."
    if not isinstance(error, _click.NoSuchOption):
        return f"{error.format_message()} {see}"
    options = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    return f"Unknown option {error.option_name}.{_nearest(error.option_name, [*options, '--help'])} {see}"


def _nearest(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1, 0.5)
    return f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."


def _fail(message: str, code: int = WRONG_INPUT) -> int:
    print("Error:", " ".join(message.splitlines()), file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """Let nothing more be written where writing failed: the interpreter flushes again on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

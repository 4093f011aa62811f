"""The command line: it reads the words, calls a verb, and makes one line of an error.

For every verb, `--json` prints one JSON document and nothing else on standard output; `--out DIR` writes the same
document to DIR/result.json; wrong input ends with one line on standard error and exit code 2. A verb imports what it
needs when it runs, so `--help` is quick.
"""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ..doors.door import NUMBERS, parameters_of
from ..support.documents import half_character
from ..support.provenance import COMMAND
from ..support.words import listed, one_line
from .meant import option_meant, value_after, verb_meant
from .verb import derived
from .verbs import VERBS, typed

WRONG_INPUT, INTERRUPTED, PIPE_CLOSED, TERMINATED = 2, 130, 141, 143

COMPLETE = "_SPLITSTEP_COMPLETE"  # what the shell sets, as typer's completion has it
LONGEST = 1000  # characters of a first sentence

BATCH = "lower train.batch, perhaps with a higher train.accumulate, or end what else runs there"
JOBS = "end what else runs there, or run fewer jobs at once with --engine local=1; the same command continues"
ELSEWHERE = "end what else runs there, or write CUDA_VISIBLE_DEVICES= before the command to use the CPU"
SMALLER = {"train": BATCH, "distil": BATCH, "compare": JOBS, "ablate": JOBS}

# Typer uses click or its own copy of it, depending on the release; its BadParameter says which.
_click: Any = import_module(typer.BadParameter.__module__)


class Verbs(TyperGroup):
    """The verbs, of which some have two words: `compare glue` is one of its own beside `compare`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Every verb with the whole first sentence of its help."""
        rows = [(name, verb.get_short_help_str(LONGEST)) for name, verb in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        pair = " ".join(args[:2])
        return super().resolve_command(ctx, [pair, *args[2:]] if pair in self.commands else args)


app = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


CONTINUING, CONTINUED = (
    (["compare"], ["ablate"], ["distil"], ["inspect"]),
    "interrupted: the same command continues, and keeps what is finished.",
)
for name, one in VERBS.items():
    app.command(name)(derived(*one))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code; an error becomes one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETE in os.environ:  # the shell asks what may follow
        get_command(app)(prog_name="splitstep")
    if arguments is None:
        _open_streams()
        _end_in_order()
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
        return _fail(_of_the_system(error))
    except ValueError as error:
        return _fail(str(error))
    except (RuntimeError, MemoryError) as error:
        return _fail(_out_of_memory(error, words))
    except KeyboardInterrupt as end:
        code = TERMINATED if isinstance(end, Terminated) else INTERRUPTED
        return _fail(str(end) or (CONTINUED if words[:1] in CONTINUING else "interrupted."), code)
    return 0


def _run(words: list[str]) -> None:
    command: Any = get_command(app)
    verbs = sorted({name.split()[0] for name in command.commands})
    for one in (parameter for verb in command.commands.values() for parameter in verb.params):
        if one.param_type_name == "argument":  # its name says what it is
            one.display_type_rich = lambda ctx: None
    for word in words:
        if not word.isprintable() and (half := half_character(word)):
            raise ValueError(f"{word!r} has {half}, which is not UTF-8 text: type it again, or rename the file")
    if not words:
        names = ", ".join(verbs)
        raise ValueError(f"Missing command, such as `splitstep schemes`. Commands: {names}. See splitstep --help.")
    if not words[0].startswith("-") and words[0] not in verbs:
        raise ValueError(f"Unknown command {words[0]!r}. {verb_meant(words[0], verbs)} See splitstep --help.")
    token = COMMAND.set(typed(words))
    try:
        with command.make_context("splitstep", words) as context:
            command.invoke(context)
    finally:
        COMMAND.reset(token)


def _of_the_system(error: OSError) -> str:
    """The file and what is wrong with it; without a file it is standard output."""
    if error.errno is None:  # raised by us, with a message
        return str(error)
    if error.filename is None:
        _abandon(sys.stdout)
    return f"{error.filename or 'standard output'}: {error.strerror or error}."


def _out_of_memory(error: RuntimeError | MemoryError, words: Sequence[str]) -> str:
    """What to do about a full device, by the verb; other errors are ours, and go on."""
    from ..support.memory import no_memory

    if not no_memory(error):
        raise error
    advice = SMALLER.get(words[0], ELSEWHERE)
    return f"the device has too little memory: {advice}."


def _explained(error: Any, words: Sequence[str]) -> str:
    """The usage error, what would be right and where to read more."""
    pair = " ".join(words[:2])
    verb = [pair] if pair in VERBS else [word for word in words[:1] if not word.startswith("-")]
    said = error.format_message().replace("Value error, ", "")
    if isinstance(error, _click.NoSuchOption):
        said = f"Unknown option {error.option_name}. {_where(error.option_name, error.ctx, words)}"
    elif isinstance(error, _click.BadParameter) and (number := _no_number(error, words)):
        said = number
    elif isinstance(error, _click.MissingParameter):
        said = f"{said} {error.param.help}"
    return f"{said} See {' '.join(['splitstep', *verb])} --help."


def _no_number(error: Any, words: Sequence[str]) -> str | None:
    """What to say of an option whose value is no number; None of any other option."""
    options = getattr(error.param, "opts", ())
    for one in parameters_of(VERBS[error.ctx.info_name].function) if error.ctx.info_name in VERBS else ():
        if one.flag in options and one.kind in NUMBERS:
            given = " ".join(filter(None, [one.flag, value_after(one.flag, words)]))
            return f"{given}: give {NUMBERS[one.kind]}, such as {one.flag} 5."
    return None


def _where(option: str, context: Any, words: Sequence[str]) -> str:
    """The verb beside this one that has the option, as `compare glue` is beside `compare`; an option or an entry of a
    recipe that means the same; else the nearest option."""
    verbs = context.parent.command.commands if context.parent else {}
    beside = {name: verb for name, verb in verbs.items() if name.split()[0] == context.info_name.split()[0]}
    having = [f"splitstep {name}" for name, verb in beside.items() if option in _options(verb)]
    if having:
        return f"It belongs to {listed(having)}."
    return option_meant(option, value_after(option, words), context.info_name, _options(context.command))


def _options(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts if name.startswith("--")]


def _fail(message: str, code: int = WRONG_INPUT) -> int:
    try:
        print("Error:", one_line(message), file=sys.stderr, flush=True)
    except OSError:  # standard error is closed
        _abandon(sys.stderr)
    return code


def _open_streams() -> None:
    """Open closed streams on the null device: Python makes them None, and print(file=None) uses standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived."""


def _end_in_order() -> None:
    """End on SIGTERM as on Ctrl-C, with a line and without workers left behind, unless the signal is ignored."""

    def end(number: int, frame: Any) -> None:
        raise Terminated

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


def _abandon(stream: TextIO) -> None:
    """Point a broken stream at the null device, for the interpreter flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

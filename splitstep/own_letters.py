"""Letters of one's own, without a package: defined in a session of Python, or in a file that a verb is told of.

Models and recipes keep the hash of the source, and opening them needs the same source. Worker processes get its text.
No torch here, unless the file imports it.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .letters import LETTERS, Letter
from .support.typed import check_entries
from .support.words import first_line

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
GREY = "#8a93a3"


@dataclass(frozen=True)
class Source:
    """Where a letter was defined: the name of the file, its text, and whether another process may run it."""

    file: str
    text: str
    portable: bool

    @property
    def entry(self) -> dict[str, str]:
        """What a config and a recipe keep of it."""
        return {"file": self.file, "sha256": hashlib.sha256(self.text.encode()).hexdigest()}


SOURCES: dict[str, Source] = {}  # of each letter that was given in this process
READING: ContextVar[Source | None] = ContextVar("reading", default=None)  # the file that is being read


def letter(name: str, title: str = "", colour: str = GREY, **declared: Any) -> Callable[[F], F]:
    """A decorator: the class or function below it makes the field of this letter, in all schemes from now on.

    It takes a `FieldSpec` and returns a module f(t, x, context). `declared` says what the field does, as the entries
    of `splitstep.letters.Letter` do. The same letter may be defined again: the last one counts.
    """
    check_letter(name)
    known = [one.name for one in fields(Letter) if one.name not in ("title", "colour", "field")]
    check_entries(declared, known, f"the letter {name}", f"it may declare {', '.join(known)}")

    def given(field: F) -> F:
        LETTERS.give(name, Letter(title or field.__name__.lower(), colour, field=field, **declared))
        SOURCES[name] = READING.get() or source_of(field)
        return field

    return given


def check_letter(name: str) -> None:
    """Refuse what is no letter, and letters that are taken."""
    if not re.fullmatch("[A-Z]", name) or name in "NMP":
        raise ValueError(f"A letter is a capital other than N, M and P, which are projections; got {name!r}.")
    if name in LETTERS and name not in SOURCES:
        owner = "splitstep" if name in LETTERS.own else "an installed package"
        free = [one for one in "GHJKLQRTUVWXYZBEIO" if one not in LETTERS]
        raise ValueError(f"The letter {name} belongs to {owner}: use another one, such as {free[0]}.")
    here, before = READING.get(), SOURCES.get(name)
    if here and before and before.file != here.file:
        raise ValueError(f"The letter {name} is of {before.file} already: use another one, or only one of the files.")


def source_of(field: Callable[..., Any]) -> Source:
    """Where a field is defined that Python was given: its module's file, or what is known of a session."""
    module = sys.modules.get(field.__module__)
    file = Path(getattr(module, "__file__", None) or "")
    if file.is_file():
        return Source(file.name, file.read_text(encoding="utf-8"), field.__module__ != "__main__")
    try:
        return Source("a session of Python", inspect.getsource(field), False)
    except (OSError, TypeError):
        return Source("a session of Python", "", False)


def read_letters(paths: Iterable[Path]) -> None:
    """Run files of letters; one that this process has run already is left out."""
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(f"--letters {path} cannot be read ({first_line(error)}): name a Python file.") from None
        run_source(Source(path.name, text, True), str(path))


def run_source(source: Source, path: str) -> None:
    """Run the text of a file that defines letters, unless this process has."""
    if source in SOURCES.values():
        return
    before = SOURCES | {}, LETTERS.given | {}
    module = ModuleType(f"splitstep_letters_{source.entry['sha256'][:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    token = READING.set(source)
    try:
        exec(compile(source.text, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        restore(SOURCES, before[0])
        restore(LETTERS.given, before[1])
        where = f" in line {line}" if (line := line_of(error, path)) else ""
        raise ValueError(f"--letters {path}: {type(error).__name__}{where} ({first_line(error)}): repair it.") from None
    finally:
        READING.reset(token)
    if source not in SOURCES.values():
        raise ValueError(f'--letters {path} defines no letter: write @ss.letter("G") above the class of a field.')


def restore(now: dict[str, T], before: dict[str, T]) -> None:
    """Make a dictionary what it was before."""
    now.clear()
    now.update(before)


def line_of(error: BaseException, path: str) -> int | None:
    """The line of a file that an error comes from."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines, trace = [], error.__traceback__
    while trace is not None:
        lines += [trace.tb_lineno] * (trace.tb_frame.f_code.co_filename == path)
        trace = trace.tb_next
    return lines[-1] if lines else None


def portable_sources() -> list[Source]:
    """What another process needs of this one."""
    return list(dict.fromkeys(source for source in SOURCES.values() if source.portable))


def check_portable(names: Iterable[str]) -> None:
    """Refuse letters that other processes cannot have."""
    for name in names:
        if not SOURCES[name].portable:
            raise ValueError(
                f"The letter {name} is defined in {SOURCES[name].file}, which worker processes cannot run: move it to "
                "a file of its own, such as my.py, and give letters='my.py'."
            )


def receive(sources: Iterable[Source]) -> None:
    """Run sources that another process has sent."""
    for source in sources:
        run_source(source, source.file)


def sources_of(names: Iterable[str], stored: Mapping[str, Mapping[str, str]] | None) -> Any:
    """The entry `sources` of what uses these letters; None if all are of packages. Letters that a stored entry has
    from elsewhere are refused."""
    known, letters = stored or {}, sorted({name[0] for name in names})
    found = {one: SOURCES[one].entry for one in letters if one in SOURCES}
    for one in letters:
        if one in known and (here := found.get(one)) != known[one]:
            missing = f": add --letters {known[one].get('file')}, or import that file."
            other = f", and here in {told(here)}: use the file as it was." if here else missing
            raise ValueError(f"The letter {one} was defined in {told(known[one])}{other}")
    return found or None


def told(entry: Mapping[str, str]) -> str:
    """A file and its hash, for people."""
    return f"{entry.get('file')} (sha256 {entry.get('sha256', '')[:12]})"

"""Sections that the documents of several studies have: how much was run, the schemes, how it can be run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..report.document import Diagrams, Heading, Note, Pairs, Part, Verbatim
from ..schemes import scheme
from ..support.words import counted


class Made(Protocol):
    """A result that says what it was made with."""

    @property
    def command(self) -> str | None: ...
    @property
    def commit(self) -> str | None: ...
    @property
    def versions(self) -> Mapping[str, str]: ...
    @property
    def date(self) -> str: ...


class Reproducible(Made, Protocol):
    """A result that also says where its runs were executed, and from what."""

    @property
    def devices(self) -> Sequence[str]: ...
    @property
    def engine(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def recipe(self) -> Any: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


def summary(result: Reproducible, counts: Mapping[str, int]) -> Note:
    """How many of what were run, where and when."""
    many = ", ".join(counted(count, noun) for noun, count in counts.items())
    return Note(f"{many} on {', '.join(result.devices)}; {result.date}.")


def pictures(schemes: Iterable[tuple[str, str]], note: str = "") -> list[Part]:
    """The schemes of names and notations as diagrams; each notation once, under its first name."""
    names = dict[str, str]()
    for name, notation in schemes:
        names.setdefault(notation, name)
    shown = Diagrams([(name, scheme(notation)) for notation, name in names.items()])
    return [Heading("The schemes"), *([Note(note)] if note else []), shown]


def made(result: Made) -> list[tuple[str, str]]:
    """What a result was made with that no recipe describes."""
    return [("commit", result.commit or "unknown"), ("versions", versions_text(result.versions)), ("date", result.date)]


def reproduced(command: str, known: Iterable[tuple[str, str]]) -> list[Part]:
    """The command or the call that made a result, and what it was made with."""
    return [Heading("How to reproduce"), Verbatim(command), Pairs(list(known))]


def versions_text(versions: Mapping[str, str]) -> str:
    """The versions of the packages in one line."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def recipe_of_all(recipe: Any, note: str = "The recipe, with all defaults written out:") -> list[Part]:
    """A recipe under a note."""
    import yaml

    return [Note(note, plain=True), Verbatim(yaml.safe_dump(recipe, sort_keys=False))]


def reproduce(result: Reproducible, call: str) -> list[Part]:
    """The command or the call that made a result, and all that it depends on."""
    import yaml

    data = {name: value for name, value in result.data.items() if name != "sha256"}
    made = [
        ("commit", result.commit or "unknown"),
        ("versions", versions_text(result.versions)),
        ("devices", ", ".join(result.devices)),
        ("engine", f"{result.engine}, {counted(result.threads, 'thread')} per run"),
        ("date", result.date),
    ]
    return [
        *reproduced(result.command or f"{call} with the recipe below", made),
        *recipe_of_all(result.recipe),
        Note("The data, as the task read it; hashes are in result.json:", plain=True),
        Verbatim(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)),
    ]

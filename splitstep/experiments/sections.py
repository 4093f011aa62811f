"""Sections that the documents of several studies have: how much was run, the schemes, how it can be run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..report.document import Diagrams, Heading, Note, Pairs, Part, Verbatim
from ..schemes import scheme
from ..support.provenance import Provenance
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


class Run(Protocol):
    """A run of a study."""

    @property
    def device(self) -> str: ...


def devices_of(runs: Iterable[Run]) -> tuple[str, ...]:
    return tuple(sorted({run.device for run in runs}))


def summary(made: Provenance, runs: Sequence[Run], counts: Mapping[str, int]) -> Note:
    """How many of what were run, and how many runs these are; where and when."""
    many = ", ".join(counted(count, noun) for noun, count in {**counts, "run": len(runs)}.items())
    return Note(f"{many} on {', '.join(devices_of(runs))}; {made.date}.")


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


def reproduce(made: Provenance, runs: Iterable[Run], call: str) -> list[Part]:
    """The command or the call that made a result, and all that it depends on."""
    import yaml

    data = {name: value for name, value in (made.data or {}).items() if name != "sha256"}
    known = replace(made, devices=devices_of(runs)).entries("commit", "versions", "devices", "engine", "date")
    return [
        *reproduced(made.command or f"{call} with the recipe below", known),
        *recipe_of_all(made.recipe or {}),
        Note("The data, as the task read it; hashes are in result.json:", plain=True),
        Verbatim(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)),
    ]

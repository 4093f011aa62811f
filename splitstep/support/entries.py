"""Entries of nested settings by names with dots, and the first in which two differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """An entry that two settings have in different ways; None where one has it not."""

    name: str
    stored: Any
    given: Any

    def __str__(self) -> str:
        return f"{self.name}={self.stored}, and here it is {self.given}"


def flat(entries: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """All entries, those of sections as `section.entry`."""
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def first_difference(stored: Mapping[str, Any], given: Mapping[str, Any]) -> Difference | None:
    """The first entry by name that differs between two flat settings."""
    names = sorted(stored.keys() | given.keys())
    found = (Difference(name, stored.get(name), given.get(name)) for name in names)
    return next((one for one in found if one.stored != one.given), None)

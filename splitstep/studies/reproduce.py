"""What pages of studies share: how much was run, and how it can be run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

from ..report.page import pairs
from ..support.words import counted


class Reproducible(Protocol):
    """A result that says what it was made with."""

    @property
    def command(self) -> str | None: ...
    @property
    def commit(self) -> str | None: ...
    @property
    def versions(self) -> Mapping[str, str]: ...
    @property
    def devices(self) -> Sequence[str]: ...
    @property
    def engine(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def date(self) -> str: ...
    @property
    def recipe(self) -> Any: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


def summary(result: Reproducible, counts: Mapping[str, int]) -> str:
    """How many of what were run, where and when, as HTML."""
    many = ", ".join(counted(count, noun) for noun, count in counts.items())
    said = f"{many} on {', '.join(result.devices)}; {result.date}."
    return f'<p class="soft">{escape(said)}</p>'


def reproduce(result: Reproducible, call: str) -> list[str]:
    """The command or the call that made a result, and all that it depends on, as HTML."""
    import yaml

    known = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    data = {name: value for name, value in result.data.items() if name != "sha256"}
    return [
        "<h2>How to reproduce</h2>",
        f"<pre>{escape(result.command or f'{call} with the recipe below')}</pre>",
        pairs(
            [
                ("commit", result.commit or "unknown"),
                ("versions", known),
                ("devices", ", ".join(result.devices)),
                ("engine", f"{result.engine}, {counted(result.threads, 'thread')} per run"),
                ("date", result.date),
            ]
        ),
        "<p>The recipe, with all defaults written out:</p>",
        f"<pre>{escape(yaml.safe_dump(result.recipe, sort_keys=False))}</pre>",
        "<p>The data, as the task read it; hashes are in result.json:</p>",
        f"<pre>{escape(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100))}</pre>",
    ]

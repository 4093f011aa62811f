"""Provenance: what a result was made with, so that it can be made again. Every run and every study keeps one."""

import os
import platform
import subprocess
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .typed import plain
from .words import counted

PACKAGES = ("splitstep", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy")


COMMAND: ContextVar[str | None] = ContextVar("command", default=None)  # of the shell that is being executed


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a result was made with and when. A record holds one as `made: Inlined[Provenance]`, so its entries stand
    among the record's own in a file. What is None is not written; `commit` alone may be unknown."""

    recipe: dict[str, Any] | None = None  # with all defaults; a study of several tasks has one for each
    data: dict[str, Any] | None = None
    engine: str | None = None
    threads: int | None = None  # of each run
    devices: tuple[str, ...] | None = None
    command: str | None = None
    versions: dict[str, str]
    commit: str | None
    date: str = ""  # runs did not always say when they began

    def entries(self, *names: str) -> list[tuple[str, str]]:
        """These entries as people read them, with their names."""
        said = {
            "command": self.command or "unknown",
            "commit": self.commit or "unknown",
            "versions": ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            "devices": ", ".join(self.devices or ()),
            "engine": f"{self.engine}, {counted(self.threads or 1, 'thread')} per run",
            "date": self.date,
        }
        return [(name, said[name]) for name in names]


def made(**entries: Any) -> Provenance:
    """The provenance of a result that is made now, by what is installed here, with these other entries."""
    today = datetime.now(UTC).date().isoformat()
    return Provenance(**entries, versions=installed_versions(), commit=git_commit(), date=today)


def made_by_study(**more: Any) -> Provenance:
    """The provenance of a study's result, with the command that was typed, if Python was not called."""
    return made(command=COMMAND.get(), **more)


def stamp() -> dict[str, Any]:
    """The provenance of a document that is not a record: versions, commit and date."""
    return plain(made())


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide figures."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def git_commit() -> str | None:
    """$SPLITSTEP_COMMIT if it is set, for copies without git history; else the commit of the checkout, with a "+" if
    it has changes; None for an installed package, even inside somebody else's repository."""
    if given := os.environ.get("SPLITSTEP_COMMIT"):
        return given
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        run = subprocess.run(
            ["git", "-C", str(here.parent), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return run.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        changes = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.SubprocessError):
        return None

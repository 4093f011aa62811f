"""Where a verb's result goes, and what verbs share of how they put things."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType


class Output(NamedTuple):
    """Where a result goes: a table for people or JSON for programs, and a file beside either."""

    as_json: bool
    out: Path | None

    def open(self) -> Output:
        """Make the directory, before work begins that would be lost without it; others keep their own results."""
        self.check()
        if self.out is not None:
            for mark, owner in (("recipe.yaml", "belongs to a single run"), ("runs", "holds a comparison")):
                if (self.out / mark).exists():
                    raise ValueError(f"{self.out} {owner}: name a new directory with --out")
            self.out.mkdir(parents=True, exist_ok=True)
        return self

    def check(self) -> Output:
        """Refuse what cannot be a directory."""
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out {self.out} is not a directory: name one that is, or a new one.")
        return self

    def emit(self, document: Any, table: Callable[[], RenderableType]) -> None:
        """Write the document where it goes; people get the table, or the text as it stands where it is a str."""
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        if self.out is not None:
            from ..support.files import write_atomically

            write_atomically(self.out / "result.json", text)
        if self.as_json:
            sys.stdout.write(text)
        else:
            shown = table()
            if not isinstance(shown, str):
                shown = _drawn(shown)
            sys.stdout.write(shown)


def _drawn(table: RenderableType) -> str:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:  # rich would leave on a closed pipe by itself
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

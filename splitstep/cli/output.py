"""Where a verb's result goes: to the terminal, as JSON, into a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..support.typed import json_text

if TYPE_CHECKING:
    from rich.console import RenderableType


class Output(NamedTuple):
    """Where a result goes: a table or JSON on standard output, and a file if one is asked for."""

    as_json: bool
    out: Path | None

    def emit(self, document: Any, table: Callable[[], RenderableType]) -> None:
        """Write the document to its file, and print it or the table; a table that is a str is printed as it is."""
        text = json_text(document)
        if self.out is not None:
            from ..support.files import write_atomically

            write_atomically(self.out / "result.json", text)
        if self.as_json:
            sys.stdout.write(text)
        else:
            shown = table()
            sys.stdout.write(shown if isinstance(shown, str) else _drawn(shown))


def _drawn(table: RenderableType) -> str:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:  # else rich ends the process on a closed pipe
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

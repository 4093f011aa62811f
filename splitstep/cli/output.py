"""Where a verb's result goes: to the terminal, as JSON, into a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..support.typed import json_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..experiments.result import Result


class Output(NamedTuple):
    """Where a result goes: a table or JSON on standard output, and a file if one is asked for."""

    as_json: bool
    out: Path | None

    def open(self) -> Output:
        """Make the directory before any work is done for it; refuse one of a run or a comparison."""
        self.check()
        if self.out is not None:
            for mark, owner in (("recipe.yaml", "belongs to a single run"), ("runs", "holds a comparison")):
                if (self.out / mark).exists():
                    raise ValueError(f"{self.out} {owner}: name a new directory with --out")
            self.out.mkdir(parents=True, exist_ok=True)
        return self

    def check(self) -> Output:
        """Refuse a path that is not a directory."""
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out {self.out} is not a directory: name one that is, or a new one.")
        return self

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

    def emit_result(self, result: Result) -> None:
        """Emit the result of a study, and write its page if there is a directory for it."""
        from ..report.drawing import document_to_terminal

        self.emit(result.json(), lambda: document_to_terminal(result.document()))
        if self.out is not None:
            print(f"Report: {result.save_page(self.out)}", file=sys.stderr)


def _drawn(table: RenderableType) -> str:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:  # else rich ends the process on a closed pipe
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

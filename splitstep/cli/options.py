"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the document to DIR/result.json.")]
NewDirectory = Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory; the same one goes on.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="The data directory; else $SPLITSTEP_DATA, else ./data.")
]

"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document instead of text.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Also write the JSON document to DIR/result.json.")
]
NewDirectory = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="A new directory for all output, or an interrupted one to continue."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="The directory of the data sets. Default: $SPLITSTEP_DATA, else ./data."
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=VALUE,...",
        help="Recipe values to try for each row; its best on validation is reported. Several --sweep form a grid.",
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", help="Where runs execute: local, local=N for N processes at once, or dask=ADDRESS of a scheduler."
    ),
]

"""The verb for schemes and their orders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json
from .output import Output


def schemes(
    notations: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCHEME", help="Names or notations of schemes. Default: all named schemes."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure the orders numerically, in float64.")
    ] = False,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Also draw one step of each.")] = None,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write DIR/result.json and DIR/report.html.")
    ] = None,
) -> None:
    """Show the cost and the computed orders of schemes.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes
      splitstep schemes lie macaron --svg picture.svg

    A notation that starts with a minus sign goes after `--`.
    """
    from ..schemes import scheme

    texts = [str(scheme(text)) for text in notations or []]  # refuses a wrong one before torch is imported
    from ..studies.orders import orders

    output = Output(as_json, out).open()
    result = orders(texts, measure)
    output.emit_result(result)
    if svg is not None:
        from ..report.diagram import picture
        from ..support.files import write_atomically

        write_atomically(svg, picture([(row.name or row.notation, scheme(row.notation)) for row in result.rows]))

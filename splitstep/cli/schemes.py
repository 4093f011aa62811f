"""The verb for schemes and their orders."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json, Out
from .output import Output


def schemes(
    notations: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCHEME", help="Names or notations of schemes. Default: all named schemes."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure the orders numerically, in float64.")
    ] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Show the cost and the computed orders of schemes.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes

    A notation that starts with a minus sign goes after `--`.
    """
    from ..schemes import scheme
    from ..studies.orders import STUDY, orders

    texts = [str(scheme(text)) for text in notations or []]
    output = Output(as_json, out).open()
    result = orders(texts, measure)
    output.emit(result.document(), lambda: STUDY.to_terminal(result))

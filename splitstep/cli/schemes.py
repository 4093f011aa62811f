"""The verb for schemes and their orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, Out
from .output import Output, empty_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..studies.orders import Orders

NOTE = (
    'evals: field evaluations per step. split: the order with exact sub-flows, "exact" where nothing is split. '
    "order: of the whole step; with own weights (F0, F1) that of the tied form; own: the order if F0 and F1 are "
    "different functions. Strang with Euler sub-flows is first order."
)
MEASURED = " f(x), f(t,x): measured in float64 on smooth fields without and with time. f_i: with different F0 and F1."


def schemes(
    notations: Annotated[
        list[str] | None,
        typer.Argument(metavar="NOTATION", help="Rows' names or notations; without any, the whole table."),
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Add orders measured in float64.")] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Show schemes with their cost and their orders, computed from the notation.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes

    A notation that starts with a minus sign goes after `--`.
    """
    from ..schemes import scheme
    from ..studies.orders import orders

    texts = [str(scheme(text)) for text in notations or []]
    output = Output(as_json, out).open()
    result = orders(texts, measure)
    output.emit(result.document(), lambda: _orders_table(result))


def _orders_table(result: Orders) -> RenderableType:
    from rich.console import Group
    from rich.table import Column
    from rich.text import Text

    from ..notation import shortened

    texts = [Column("scheme", no_wrap=True), Column("notation", min_width=16)]
    slopes = ["f(x)", "f(t,x)", "f_i"] if result.measured else []
    table = empty_table(texts, ["evals", "split", "order", "own", *slopes])
    for row in result.rows:
        numbers = [str(row.evaluations), row.splitting, *row.shown_orders, *(f"{v:.2f}" for v in row.measured or ())]
        table.add_row(*map(Text, [row.name or "", shortened(row.notation), *numbers]))
    return Group(table, Text(f"\n{NOTE}{MEASURED if result.measured else ''}"))

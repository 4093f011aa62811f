"""The orders of schemes: computed from the notation, or also measured; with their table, charts and page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..experiments.result import Result
from ..experiments.study import Study
from ..notation import shortened
from ..order import HIGHEST
from ..report.charts import Axis, Line, LineChart
from ..report.document import Diagrams, Document, Evidence, Note, Verdict, folded
from ..report.tables import Code, Column, Table
from ..schemes import SCHEMES, name_of, scheme
from ..support.typed import Figure
from ..support.words import counted

COUNTS = (4, 8, 16, 32, 64, 128, 256)  # steps over the interval of a measurement
ERRORS = (
    "Of a problem that depends on time, in float64: if a scheme has order p, doubling the steps divides the error by "
    "2^p. With projections it is the distance between n and 2n steps. Errors below 3e-11 may be the reference's."
)
NOTE = (
    'evals: field evaluations per step. split: the order with exact sub-flows, "exact" if nothing is split. '
    "order: of the whole step; with own weights (F0, F1) that of the tied form; own: the order if F0 and F1 are "
    "different functions. Strang with Euler sub-flows is first order."
)
MEASURED = " f(x), f(t,x): measured in float64 on smooth fields without and with time. f_i: with different F0 and F1."
PROMISED = (
    "Logits do not move with later tokens or with padding; texts in one row do not mix; a cache changes nothing, beams "
    "and crops included; a field mixes tokens only if its letter says so, and gives the same values when it is called "
    "again; flops() is what PyTorch counts; a saved model is the same. Figures are of small models in float64."
)
ABOVE, MIDDLE = 2.0, 2  # where guide lines go through: so many times the largest error at this one of COUNTS
AGREES = 0.1  # a measured slope this near to an order is that order


class Measured(NamedTuple):
    """Measured orders on a problem that does not depend on time, on one that does, and on one with untied weights."""

    autonomous: Figure
    time_dependent: Figure
    untied: Figure  # equals time_dependent if no letter has several names


class Kept(NamedTuple):
    """What models of a kind promise: a figure for each promise, None if there was an error; and how those are broken
    that are."""

    kind: str
    figures: dict[str, Figure | None]
    broken: dict[str, str]


@dataclass(frozen=True)
class Row:
    """One scheme and its orders. If it is not in the table it has no name, and if it replaces the state no orders."""

    name: str | None
    notation: str
    fields: tuple[str, ...]
    evaluations: int
    splitting_order: int | None
    order: int | None
    untied_order: int | None
    unsplit: bool
    measured: Measured | None = None
    errors: tuple[Figure, ...] | None = None  # of the time-dependent problem, at COUNTS steps
    promises: tuple[Kept, ...] | None = None  # of small models of the scheme

    @property
    def broken(self) -> list[str]:
        """How promises are broken, each in a sentence."""
        found = [(one, says) for one in self.promises or () for says in one.broken.values()]
        return [f"{self.name or self.notation}, {one.kind}: {says}." for one, says in found]


@dataclass(frozen=True)
class Orders(Result):
    """The result of the study: a row per scheme."""

    study = "orders"

    rows: tuple[Row, ...]
    typed: tuple[str, ...] = field(default=(), repr=False, compare=False)  # for each row; charts call it so

    def json(self) -> dict[str, Any]:
        """The rows as JSON values."""
        return {name: value for name, value in super().json().items() if name != "typed"}

    @property
    def names(self) -> list[str]:
        """What charts call the rows: as they were typed, with the scheme's name in brackets, or by their names."""
        typed = self.typed or [row.name or row.notation for row in self.rows]
        more = (
            f" ({row.name})" if row.name not in (None, one) else "" for row, one in zip(self.rows, typed, strict=True)
        )
        return [f"{shortened(one)}{name}" for one, name in zip(typed, more, strict=True)]


def orders(texts: Iterable[str] = (), typed: Iterable[str] = ()) -> Orders:
    """The orders of these schemes (names or notations), or without any of all named schemes."""
    chosen = [scheme(text) for text in texts] or list(SCHEMES.values())  # every notation is read before work begins
    rows = (
        Row(
            name_of(s), str(s), s.fields, s.evaluations, s.splitting_order, s.order, s.untied_order,
            unsplit=len({part.colours for _, part in s.substeps}) == 1,
        )
        for s in chosen
    )  # fmt: skip
    return Orders(tuple(rows), tuple(typed))


def orders_tables(result: Orders) -> list[Table]:
    """A row per scheme with its cost and its orders, and with slopes if they were measured."""
    heads = ("evals", "split", "order", "own", "f(x)", "f(t,x)", "f_i")
    columns = [Column("scheme", text=True, whole=True), Column("notation", text=True), *map(Column, heads)]
    rows = [
        [row.name or "", Code(shortened(row.notation)), str(row.evaluations), _shown(row.splitting_order, row.unsplit),
         _shown(row.order), _shown(row.untied_order), *([f"{v:.2f}" for v in row.measured or ()] or ["", "", ""])]
        for row in result.rows
    ]  # fmt: skip
    measured = any(row.measured for row in result.rows)
    promises = [_promises_table(row, row.promises) for row in result.rows if row.promises]
    return [Table(columns, rows, notes=[f"{NOTE}{MEASURED if measured else ''}"]), *promises]


def _promises_table(row: Row, kinds: Sequence[Kept]) -> Table:
    """For each kind of models of a scheme, which promises hold, and the figures of those that do not."""
    names = dict.fromkeys(name for one in kinds for name in one.figures)
    cells = [[one.kind, *(_kept(one, name) for name in names)] for one in kinds]
    columns = [Column("models", text=True), *map(Column, names)]
    return Table(columns, cells, f"What models of {row.name or row.notation} promise", [*row.broken, PROMISED])


def _kept(one: Kept, name: str) -> str:
    """Whether a promise holds; if it does not, its figure."""
    if name not in one.figures:
        return "-"
    figure = one.figures[name]
    return "holds" if name not in one.broken else "error" if figure is None else f"{figure:.3g}"


def _shown(order: int | None, unsplit: bool = False) -> str:
    """An order for the table: "exact" if nothing is split, "5+" if no condition up to order 5 fails."""
    if order is None:
        return "-"
    return str(order) if order < HIGHEST else "exact" if unsplit else f"{order}+"


def orders_verdict(result: Orders) -> Verdict:
    """How far the measured slopes are from the computed orders, or the orders if nothing was measured."""
    gaps = [
        abs(slope - order)
        for row in result.rows
        if row.measured
        for slope, order in ((row.measured.time_dependent, row.order), (row.measured.untied, row.untied_order))
        if order is not None and order < HIGHEST
    ]
    if checked := [one for row in result.rows for one in row.promises or ()]:
        many = sum(len(one.figures) for one in checked)
        broken = sum(len(row.broken) for row in result.rows)
        kept = f"{broken} of {many} promises are broken" if broken else f"all {many} promises are kept"
        return Verdict("settled", f"Of models of {counted(len(result.rows), 'scheme')}, {kept}.")
    found = sorted({row.order for row in result.rows if row.order is not None})
    span = f"orders {found[0]} to {found[-1]}" if len(found) > 1 else f"order {found[0]}" if found else "no order"
    has = f"{counted(len(result.rows), 'scheme')} of {span}"
    if not gaps:
        return Verdict("open", f"{has}, computed from the notation; --measure measures them.")
    kind = "settled" if max(gaps) <= AGREES else "open"
    apart = f"the measured slopes are within {max(gaps):.2f} of the orders computed from the notation."
    return Verdict(kind, f"{has}: {apart}")


def document(result: Orders) -> Document:
    """The measured errors if there are any, the table and a picture of each scheme."""
    figures = [(row.name or row.notation, scheme(row.notation)) for row in result.rows]
    drawn, measured = Diagrams(figures), any(row.errors for row in result.rows)
    seen = [error_chart(result), Note(ERRORS)] if measured else [drawn]
    first, *promises = orders_tables(result)
    more = [Evidence("One step of each", [drawn])] if measured else []
    parts = [*seen, Evidence("Orders", [first]), *folded(promises), *more]
    return Document("Orders of schemes", parts, verdict := orders_verdict(result), headline(result, verdict))


def headline(result: Orders, verdict: Verdict) -> str:
    """The verdict without its figures."""
    if any(row.promises for row in result.rows):
        return f"The models {'break some' if any(row.broken for row in result.rows) else 'keep all'} of their promises."
    if not any(row.measured for row in result.rows):
        return "The notation gives the order of each scheme."
    agree = "agree" if verdict.kind == "settled" else "do not all agree"
    return f"The measured orders {agree} with those computed from the notation."


def error_chart(result: Orders) -> LineChart:
    """The errors of all schemes against the number of steps, with guide lines of the slopes that orders have."""
    rows = [(name, row) for name, row in zip(result.names, result.rows, strict=True) if row.errors]
    lines = [Line(name, COUNTS[: len(row.errors or ())], row.errors or ()) for name, row in rows]
    axes = (
        Axis("steps over the interval", "{:,.0f}", log=True, ticks=COUNTS),
        Axis("error in float64", "{:.2e}", log=True),
    )
    title, groups, guides = "Errors against the number of steps", dict[str, str](), list[Line]()
    for order in sorted({row.order for _, row in rows if row.order is not None}):
        own = {name: row.errors or () for name, row in rows if row.order == order}
        groups |= dict.fromkeys(own, f"order {order}: {', '.join(own)}")
        guides += [guide(order, list(own.values()))] if 0 < order < HIGHEST else []
    return LineChart(title, *axes, lines, "distance to the reference", guides=guides, groups=groups)


def guide(order: int, errors: Sequence[Sequence[float]]) -> Line:
    """A line of the slope that the order has, a little above the schemes that have it."""
    begin = ABOVE * max(own[MIDDLE] for own in errors)
    return Line(f"order {order}", COUNTS, [begin * (COUNTS[MIDDLE] / n) ** order for n in COUNTS])


STUDY = Study(Orders, document)

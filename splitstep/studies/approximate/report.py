"""An approximation as verdict, tables, charts and page."""

from __future__ import annotations

from html import escape
from typing import Any

from ...report.charts import Axis, HeatMap, Line, LineChart, SmallMultiples
from ...report.drawing import chart_to_html
from ...report.page import page, pairs, side_by_side
from ...report.tables import Column, Table, to_html
from ...report.verdict import Verdict, verdict_to_html
from ...support.words import counted
from .. import Study, read_document
from .study import FORMAT, SIDE, Approximation, Surface

TITLE = "A Transformer of one layer, built"
ROWS_NOTE = (
    "Certified: proved for the whole domain [0, 1]^(n d), if the Lipschitz constant is right. Sampled: the largest "
    "that was found at a point; it proves nothing."
)
STEPS_NOTE = "The certified error is the sum of gathering, cells and rounding, each the largest over the positions."
TICKS = [f"{i / (SIDE - 1):g}" for i in range(SIDE)]


def read(document: Any, where: str) -> Approximation:
    """The result that a result.json holds."""
    return read_document(Approximation, document, where, FORMAT)


def verdict(result: Approximation) -> Verdict:
    kind = "settled" if result.best.met else "too few" if result.best.error is None else "open"
    return Verdict(kind, result.best.sentence)


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def tables(result: Approximation) -> list[Table]:
    """Networks by eps, the steps of the certificate, and the trained network."""
    rows = [
        {
            Column("eps"): f"{row.eps:g}",
            Column("certified"): shown(row.error) if row.error is not None else "no constant",
            Column("sampled"): shown(row.sampled),
            Column("heads"): str(row.heads),
            Column("units"): f"{row.units:,}",
            Column("parameters"): f"{row.parameters:,}",
            Column("cells"): f"{row.cells:,}",
        }
        for row in result.rows
    ]
    steps = [
        {Column("step", text=True): s.name, Column("figure"): shown(s.bound), Column("how", text=True): s.text}
        for s in result.steps
    ]
    exponent = [] if result.exponent is None else [f"Units grow like eps^{result.exponent.text()}, a regression."]
    found = [Table.of(rows, "Networks", [ROWS_NOTE, *exponent]), Table.of(steps, "The certificate", [STEPS_NOTE])]
    return [*found, *trained_table(result)]


def trained_table(result: Approximation) -> list[Table]:
    one = result.trained
    if one is None:
        return []
    names = Column("network", text=True), Column("largest error, sampled"), Column("mean error, sampled")
    built = ["built", shown(result.best.sampled), shown(one.built_mean)]
    trained = ["trained", shown(one.sampled), shown(one.mean)]
    note = f"The same shape, trained from a random start: {one.steps:,} steps of Adam on {one.batch} random points, " \
        f"rate {one.rate:g}, one seed."  # fmt: skip
    return [Table(names, [built, trained], "Built and trained", [note])]


def heat_map(result: Approximation, title: str, values: list[list[float]], form: str = "{:.3f}") -> HeatMap:
    last = result.tokens * result.dim
    return HeatMap(title, f"variable {last}", "variable 1", TICKS, TICKS, values, form)


def surface_charts(result: Approximation, surface: Surface) -> str:
    both = zip(surface.target, surface.network, strict=True)
    error = [[b - a for a, b in zip(*rows, strict=True)] for rows in both]
    held = "" if surface.held is None else f", other variables at {surface.held:g}"
    where = f"{'Position' if len(surface.positions) == 1 else 'Positions'} {', '.join(map(str, surface.positions))}"
    maps = [
        heat_map(result, "target", surface.target),
        heat_map(result, "network", surface.network),
        heat_map(result, "network - target", error, "{:+.4f}"),
    ]
    return chart_to_html(SmallMultiples(f"{where}{held}", maps))


def attention_chart(result: Approximation) -> LineChart:
    betas = [one.beta for one in result.attention]
    bound = Line("(n - 1) exp(-beta)", betas, [one.bound for one in result.attention])
    lost = Line("1 - weight on the token", betas, [max(1 - one.weight, 1e-17) for one in result.attention])
    return LineChart(
        "What the other tokens add to a head, against its sharpness", Axis("beta", "{:g}", log=True),
        Axis("weight", "{:.1e}", log=True), [bound, lost], name="chart-attention",
    )  # fmt: skip


def cost_charts(result: Approximation) -> list[str]:
    if len(result.rows) < 2:
        return []
    eps = [row.eps for row in result.rows]
    kinds = (("units", [row.units for row in result.rows]), ("parameters", [row.parameters for row in result.rows]))
    lines = [Line(name, eps, list(map(float, values))) for name, values in kinds]
    axes = Axis("eps", "{:g}", log=True), Axis("number", "{:,.0f}", log=True)
    return [chart_to_html(LineChart("Units and parameters against eps", *axes, lines, name="chart-cost"))]


def approximation_page(result: Approximation) -> str:
    """The whole page."""
    title = f"{result.target}: {counted(result.tokens, 'token')} of dimension {result.dim}"
    constant = "unknown" if result.lipschitz is None else f"{result.lipschitz:g}, an assumption"
    body = [
        f"<h1>{escape(title)}</h1>",
        verdict_to_html(verdict(result)),
        f'<p class="soft">One layer, scheme A F, no norm, float64. Lipschitz constant in the sup norm: '
        f"{escape(constant)}. Sharpness of attention: {result.beta:g}.</p>",
        *map(to_html, tables(result)),
        "<h2>Surfaces</h2>",
        '<p class="soft">The first coordinate at each position over the first and the last variable.</p>',
        *(surface_charts(result, one) for one in result.surfaces),
        side_by_side([chart_to_html(attention_chart(result)), *cost_charts(result)]),
        "<h2>How to reproduce</h2>",
        f"<pre>{escape(result.command or 'splitstep.approximate(...)')}</pre>",
        pairs([("fits", "; ".join(result.how)), ("commit", result.commit or "unknown"), ("date", result.date)]),
    ]
    return page(title, body)


STUDY = Study(TITLE, read, tables, approximation_page, verdict=verdict)

"""An approximation as verdict, tables, charts and page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ...experiments.sections import reproduced
from ...experiments.study import Study
from ...report.charts import Axis, HeatMap, Line, LineChart, SliderChart, SmallMultiples
from ...report.document import Beside, Document, Heading, Note, Verdict
from ...report.tables import Column, Table
from ...support.words import counted
from .study import MIDDLE, SIDE, STOPS, Approximation, Surface, across

TITLE = "A Transformer of one layer, built"
ROWS_NOTE = (
    "Certified: proved for the whole domain [0, 1]^(n d), if the Lipschitz constant is right. Sampled: the largest "
    "that was found at a point; it proves nothing."
)
STEPS_NOTE = "The certified error is the sum of gathering, cells and rounding, each the largest over the positions."
SURFACES_NOTE = (
    "The first coordinate at each position, over the first coordinates of the first and the last token. Target and "
    "network share one scale of colours on the whole page, and the differences have another."
)
SLIDERS_NOTE = "A slider moves one of the other variables, from 0.5; the rest stays at 0.5."
Values = list[list[float]]
TICKS = [f"{i / (SIDE - 1):g}" for i in range(SIDE)]


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
            Column("certified"): shown(row.error) if row.error is not None else "not proved",
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
    proved = result.best.error is not None
    known = Table.of(steps, "The certificate" if proved else "No certificate", [STEPS_NOTE] if proved else [])
    found = [Table.of(rows, "Networks", [ROWS_NOTE, *exponent]), known]
    return [*found, *trained_table(result)]


def trained_table(result: Approximation) -> list[Table]:
    one = result.trained
    if one is None:
        return []
    names = Column("network", text=True), Column("largest error, sampled"), Column("mean error, sampled")
    built = ["built", shown(result.best.sampled), shown(one.built_mean)]
    trained = ["trained", shown(one.sampled), shown(one.mean)]
    note = (
        f"The same shape, trained from a random start: {one.steps:,} steps of Adam on {one.batch} random points, one "
        f"seed; the best of the rates {', '.join(map('{:g}'.format, one.rates))}, which is {one.rate:g}."
    )
    return [Table(names, [built, trained], "Built and trained", [note])]


def difference(surface: Surface) -> Values:
    return np.subtract(surface.network, surface.target).tolist()


def largest(many: Iterable[Values]) -> float:
    return max((float(np.abs(values).max()) for values in many), default=0.0)


def surface_charts(result: Approximation) -> Iterator[SmallMultiples | SliderChart]:
    """For each group of positions a row of charts, or a slider for each of the other variables."""
    rows = dict[tuple[str, int | None], list[SmallMultiples]]()
    most = largest(values for one in result.surfaces for values in (one.target, one.network))
    most_apart = largest(map(difference, result.surfaces))
    for one in result.surfaces:
        where = f"{'Position' if len(one.positions) == 1 else 'Positions'} {', '.join(map(str, one.positions))}"
        rows.setdefault((where, one.moved), []).append(small_charts(result, one, most, most_apart))
    for (where, moved), charts in sorted(rows.items(), key=lambda item: item[0][0]):
        if moved is None:
            yield replace(charts[0], title=where)
        else:
            yield SliderChart(f"{where}:", f"variable {moved}", charts, start=STOPS.index(MIDDLE))


def small_charts(result: Approximation, surface: Surface, most: float, most_apart: float) -> SmallMultiples:
    """Target, network and difference; equal colours are equal values, given the largest of all surfaces."""
    axes = f"variable {across(result.tokens, result.dim) + 1}", "variable 1", TICKS, TICKS
    maps = [
        HeatMap("target", *axes, surface.target, "{:.3f}", strongest=most),
        HeatMap("network", *axes, surface.network, "{:.3f}", strongest=most),
        HeatMap("network - target", *axes, difference(surface), "{:+.4f}", strongest=most_apart),
    ]
    return SmallMultiples("" if surface.at is None else f"variable {surface.moved} = {surface.at:g}", maps)


def attention(result: Approximation) -> str:
    """What the heads do, in words."""
    if result.positions == "learned":
        return f"One head for each position, of sharpness {result.beta:g}."
    if result.tokens == 2:
        return "No positions: one head computes the mean of both tokens."
    return f"No positions: heads compute exponential means of the tokens, of sharpness 0 and ±{result.beta:g}."


def line_charts(result: Approximation) -> Iterator[LineChart]:
    """The leak of a head that copies one of several tokens, which heads without positions do not; what eps costs."""
    if result.positions == "learned" and result.tokens > 1:
        betas = [one.beta for one in result.attention]
        bound = Line("(n - 1) exp(-beta)", betas, [one.bound for one in result.attention])
        lost = Line("weight on the other tokens", betas, [one.rest for one in result.attention])
        yield LineChart(
            "What the other tokens add to a head, against its sharpness", Axis("beta", "{:g}", log=True),
            Axis("weight", "{:.1e}", log=True), [bound, lost], name="chart-attention",
        )  # fmt: skip
    if len(result.rows) > 1:
        eps = [row.eps for row in result.rows]
        units = Line("units", eps, [float(row.units) for row in result.rows])
        parameters = Line("parameters", eps, [float(row.parameters) for row in result.rows])
        axes = Axis("eps", "{:g}", log=True), Axis("number", "{:,.0f}", log=True)
        yield LineChart("Units and parameters against eps", *axes, [units, parameters], name="chart-cost")


def document(result: Approximation) -> Document:
    """The tables, the surfaces, the charts, how to reproduce them."""
    constant = "unknown" if result.lipschitz is None else f"{result.lipschitz:g}, an assumption"
    about = f"One layer, scheme A F, no norm, float64. Lipschitz constant in the sup norm: {constant}."
    made = [("fits", "; ".join(result.how)), *result.made.entries("commit", "date")]
    parts = [
        Note(f"{about} {attention(result)}"),
        *tables(result),
        Heading("Surfaces"),
        Note(f"{SURFACES_NOTE} {SLIDERS_NOTE}" if result.tokens * result.dim > 2 else SURFACES_NOTE),
        *surface_charts(result),
        Beside(list(line_charts(result))),
        *reproduced(result.made, "splitstep.approximate(...)", made),
    ]
    title = f"{result.target}: {counted(result.tokens, 'token')} of dimension {result.dim}"
    return Document(title, parts, verdict(result))


STUDY = Study(Approximation, document)

"""The discretisation sensitivity of a network as verdict, tables, charts and page."""

from __future__ import annotations

from ...experiments.claims import Rule, decide
from ...experiments.sections import reproduced
from ...experiments.study import Study
from ...report.charts import Axis, Line, LineChart
from ...report.document import Beside, Document, Note, Verdict
from ...report.tables import Column, Table
from ...support.words import counted
from ...tasks.measures import title_of
from .discretisation import FINE, Discretisation
from .shared_parts import (
    FACTOR,
    LIMIT,
    SUBSTEPS,
    errors_chart,
    errors_table,
    lengths_table,
    lines_by_scheme,
    name_of,
    scrolling,
    ways_table,
)
from .variations import Variation

CLOSE = 0.95  # the share of common predictions that decides
TITLE = "Discretisation sensitivity"
MOST_LINES = 8  # of layers in one chart
WAYS_NOTE = (
    "change: of the centred logits, relative to the network's own; distance: of the same to those of the continuous "
    "limit; KL: from the network's own predictions, in nats; shared: the share of equal predictions."
)
REMAINDER = "What the commutator leaves over"
SHRINKS = (
    "The splitting part minus its leading term, relative to the splitting part. It falls in proportion to the step "
    "where the step is short enough for the leading term to lead."
)


def discretisation_verdict(result: Discretisation) -> Verdict:
    """Whether the network is close to its continuous limit, and where it stops working."""
    shared = result.shared
    assert shared.low is not None
    assert shared.high is not None
    answer = decide(shared, Rule(CLOSE, fewest=0))
    is_close = {"supported": "is close", "not supported": "is not close"}.get(answer, "may or may not be close")
    figures = (
        f"{shared.mean:.1%} of their predictions are equal (95% interval {shared.low:.1%} to {shared.high:.1%}, "
        f"{counted(result.examples, 'example')}); accuracy {result.own.accuracy:.1%} and {result.limit.accuracy:.1%}"
    )
    sentence = f"The trained network {is_close} to its continuous limit: {figures}. {stops_text(result)}"
    return Verdict("open" if answer == "undecided" else "settled", sentence)


def stops_text(result: Discretisation) -> str:
    """From which to which factor of its step the network works."""
    tried = [one.factor for one in result.longer]
    below, above = result.stops(upwards=False), result.stops(upwards=True)
    ends = [f"at {one:.3g} times its step" for one in (below, above) if one]
    if ends:
        return f"It stops working {' and '.join(ends)} (accuracy below {result.middle:.1%})."
    return f"It works (accuracy above {result.middle:.1%}) at {min(tried):.3g} to {max(tried):.3g} times its step."


def figures_of(result: Discretisation, one: Variation) -> dict[Column, str]:
    form, extra = result.metric.format, {}
    if result.metric.name != "accuracy":
        extra = {Column(title_of(result.metric)): form.format(one.figure)}
    return {
        Column("change"): f"{one.change:.3f}", Column("distance"): f"{one.distance:.4f}", Column("KL"): f"{one.kl:.3f}",
        Column("shared"): f"{one.shared:.1%}", Column("accuracy"): f"{one.accuracy:.1%}", **extra,
    }  # fmt: skip


def shown_tables(result: Discretisation) -> list[Table]:
    """Schemes by sub-steps, step lengths, local errors by layer."""

    def figures(one: Variation) -> dict[Column, str]:
        return figures_of(result, one)

    error = f"The continuous limit is known to {result.coarser.distance:.1g}, its distance to half the sub-steps."
    on = f"On {counted(result.probed, 'validation example')}."
    return scrolling(
        [
            ways_table((*result.ways, result.limit), figures, [WAYS_NOTE, error]),
            longer_table(result),
            errors_table(result.errors, f"In float64. {on}"),
            remainder_table(result),
        ]
    )


def longer_table(result: Discretisation) -> Table:
    ends = {one.factor: f"{one.accuracy:.1%}" for one in result.longer if one.scheme is None}
    own = [one for one in result.longer if one.scheme is not None]
    note = (
        "The same operators with a longer or a shorter step, so over another time. The last column is the continuous "
        f"limit over that time. The network does not work below an accuracy of {result.middle:.1%}, the middle "
        f"between its own and that of always naming the most frequent label ({result.majority:.1%})."
    )
    last = Column(("limit's", "accuracy"))
    return lengths_table(own, lambda one: {**figures_of(result, one), last: ends[one.factor]}, note)


def remainder_table(result: Discretisation) -> Table:
    """The error of the commutator's prediction, by layer and factor of the step."""
    factors = sorted({one.factor for one in result.errors}, reverse=True)
    by = {(one.layer, one.factor): one.remainder for one in result.errors}
    columns = [Column("layer"), *(Column(f"h \u00d7 {fraction(factor)}") for factor in factors)]
    layers = sorted({one.layer for one in result.errors}) if any(v is not None for v in by.values()) else []
    rows = [[str(i), *(f"{by[i, factor] or 0.0:.3f}" for factor in factors)] for i in layers]
    return Table(columns, rows, REMAINDER, [SHRINKS] if rows else [])


def fraction(factor: float) -> str:
    return f"1/{round(1 / factor)}" if factor < 1 else f"{factor:g}"


def orders_chart(result: Discretisation) -> LineChart:
    """The distance to the limit against the sub-steps."""
    lines = lines_by_scheme(result.ways, lambda name, x, some: Line(name, x, [one.distance for one in some]))
    y = Axis("distance", "{:.2e}", log=True)
    return LineChart(
        "Distance to the continuous limit", SUBSTEPS, y, lines, "of the centred logits", name="chart-order"
    )


def steps_chart(result: Discretisation) -> LineChart:
    """Accuracy against the factor of the step."""
    own, ends = ([one for one in result.longer if (one.scheme is None) == limit] for limit in (False, True))
    lines = [
        Line(name, [one.factor for one in some], [one.accuracy for one in some])
        for name, some in ((f"the network, {name_of(result.own)}", own), (LIMIT, ends))
    ]
    y = Axis("accuracy", "{:.1%}")
    return LineChart("Accuracy as the step grows", FACTOR, y, lines, level=result.middle, name="chart-steps")


def remainder_chart(result: Discretisation) -> list[LineChart]:
    """What the commutator leaves over, against the step; none if the scheme has no commutator."""
    layers = sorted({one.layer for one in result.errors})
    shown = layers if len(layers) <= MOST_LINES else layers[:: -(-len(layers) // MOST_LINES)]
    known = [one for one in result.errors if one.remainder is not None]
    by = {layer: own for layer in shown if (own := [one for one in known if one.layer == layer])}
    lines = [
        Line(f"layer {layer}", [one.factor for one in own], [one.remainder or 0.0 for one in own])
        for layer, own in by.items()
    ]
    y = Axis("left over", "{:.3f}", log=True)
    return [LineChart(REMAINDER, FACTOR, y, lines, name="chart-commutator")] if lines else []


def document(result: Discretisation) -> Document:
    """The charts, the tables and how to reproduce them."""
    title = f"{TITLE}: {result.task}, {name_of(result.own)}"
    parts = [
        Note(summary(result)),
        Beside([orders_chart(result), steps_chart(result)]),
        Note(f"The limit: rk4 on the sum of the fields, {FINE} sub-steps a layer."),
        Beside([errors_chart(result.errors, result.step), *remainder_chart(result)]),
        *shown_tables(result),
        *reproduced(result.made, f"splitstep converge {result.run}"),
    ]
    return Document(title, parts, discretisation_verdict(result))


def summary(result: Discretisation) -> str:
    step = f"{counted(result.layers, 'layer')} of step {result.step:g}, so t from 0 to {result.layers * result.step:g}"
    return f"{result.run}: {step}; {counted(result.examples, 'validation example')}; {result.made.date}."


STUDY = Study(Discretisation, document)

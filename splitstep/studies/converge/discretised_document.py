"""Networks under other discretisations as documents: a trained one on its task, a pretrained one on texts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ...experiments.experiment import Rule, all_of, decide, opposite
from ...experiments.sections import reproduced
from ...experiments.statistics import Estimate
from ...experiments.study import Study
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart
from ...report.document import Beside, Document, Evidence, Note, Verdict, folded, kind_of
from ...report.tables import Code, Column, Table
from ...schemes import label
from ...support.words import counted
from ...tasks.measures import title_of
from .discretisation import FINE, Discretisation, ExampleEffect
from .discretised_flow import PROBED_TOKENS, Change, DiscretisedFlow, TextEffect
from .ways import LocalError

SHARED_CLOSE = 0.95  # the share of common predictions that decides
LOSS_CLOSE = 0.1  # nats per token: the change of the loss that decides
GUESS = 0.5  # nats per token below a uniform guess: a model that is no better has learnt next to nothing
MOST_LINES = 8  # of layers in one chart
LIMIT = "continuous limit"
NOT_DEFINED = "not defined"  # the splitting part of a scheme that splits nothing
FACTOR = Axis("factor of the step", "{:.3g}", log=True)
SUBSTEPS = Axis("sub-steps of each layer", "{:,.0f}", log=True)
ERRORS_NOTE = (
    "Errors of one step from the network's own state, relative to how far the exact step moves it. Splitting: the same "
    "splitting with exact sub-flows against the exact flow. Sub-flows: the step against that splitting. Leading term: "
    "the commutator, h\u00b2/2 [A, F] for A F. The parts are vectors, so their lengths do not sum to the whole."
)
WAYS_NOTE = (
    "change: of the centred logits, relative to the network's own; distance: of the same to those of the continuous "
    "limit; KL: from the network's own predictions, in nats; shared: the share of equal predictions."
)
REMAINDER = "What the commutator leaves over"
SHRINKS = (
    "The splitting part minus its leading term, relative to the splitting part. It falls in proportion to the step "
    "where the step is short enough for the leading term to lead."
)
TEXTS_NOTE = (
    "Loss: its change in nats per token, each text against the model's own loss on it, with the 95% interval over "
    "texts. KL: from the model's own predictions, in nats; shared: the share of equal predictions; output: the "
    "change of the output, relative (of logits without their mean)."
)
HEADLINES = {
    "settled": "This model acts as a discretised flow.",
    "not supported": "This model does not act as a discretised flow.",
}
NAMED = {"halved": "two sub-steps", "strang": "Strang's splitting", "merged": "merged layers"}
LONGER = "The same fields with a longer or a shorter step, so over another time."
MERGED = (
    "Merged: every two neighbouring layers are one step, their fields added at the same state, so half as many steps."
)

T = TypeVar("T", ExampleEffect, TextEffect)
Figures = Callable[[T], Mapping[Column, str]]
LineOf = Callable[[str, list[int], list[T]], Line]


def name_of(one: ExampleEffect | TextEffect) -> str:
    return LIMIT if one.scheme is None else shortened(label(one.scheme))


def scrolling(tables: Iterable[Table]) -> list[Table]:
    """The tables that have rows, never as cards."""
    return [replace(table, stacked=False) for table in tables if table.rows]


def ways_table(ways: Sequence[T], figures: Figures[T], notes: Sequence[str] = (), below: bool = False) -> Table:
    """A row for each scheme with so many sub-steps."""
    records = [
        {
            Column("scheme", text=True, grouped=True): name_of(one),
            Column("notation", text=True, grouped=True, below=below): Code(shortened(one.scheme or "")),
            Column("sub-steps"): str(one.substeps),
            **figures(one),
        }
        for one in ways
    ]
    return Table.of(records, "Schemes and sub-steps", notes)


def lengths_table(ways: Sequence[T], figures: Figures[T], note: str) -> Table:
    """A row for each factor of the step."""
    records = [{Column("step"): f"{one.factor:.3g} \u00d7", **figures(one)} for one in ways]
    return Table.of(records, "Step lengths", [note])


def errors_table(errors: Sequence[LocalError], note: str) -> Table:
    records = [
        {
            Column("layer"): str(one.layer),
            Column("error"): f"{one.total:.3f}",
            Column(("splitting", "part")): NOT_DEFINED if one.splitting is None else f"{one.splitting:.3f}",
            Column(("sub-flow", "part")): f"{one.subflow:.3f}",
            Column(("leading", "term")): "" if one.leading is None else f"{one.leading:.3f}",
            Column(("reference's", "own error")): f"{one.reference:.0e}",
        }
        for one in errors
        if one.factor == 1
    ]
    return Table.of(records, "Local error of each layer", [f"{ERRORS_NOTE} {note}"])


def substeps_chart(title: str, y: Axis, ways: Sequence[T], line: LineOf[T], **more: Any) -> LineChart:
    """A figure against the sub-steps, a line for each scheme."""
    by = {text: [one for one in ways if one.scheme == text] for text in dict.fromkeys(one.scheme for one in ways)}
    lines = [line(name_of(some[0]), [one.substeps for one in some], some) for some in by.values()]
    return LineChart(title, SUBSTEPS, y, lines, **more)


def errors_chart(errors: Sequence[LocalError], step: float) -> LineChart:
    """The local error of each layer and its two parts, as far as it has them."""
    own = [one for one in errors if one.factor == 1]
    times = [one.layer * step for one in own]
    parts = {
        "error": [one.total for one in own],
        "splitting part": [one.splitting for one in own if one.splitting is not None],
        "sub-flow part": [one.subflow for one in own],
    }
    lines = [Line(name, times, values) for name, values in parts.items() if values]
    x, y = Axis("t at the start of the layer", "{:,.3g}"), Axis("relative to the step", "{:.3f}", log=True)
    return LineChart("Local error of each layer", x, y, lines, name="chart-local")


# A trained network on its task


def discretisation_document(result: Discretisation) -> Document:
    """The charts, the tables and how to reproduce them."""
    step = f"{counted(result.layers, 'layer')} of step {result.step:g}, so t from 0 to {result.layers * result.step:g}"
    examples = counted(result.examples, "validation example")
    error = f"The continuous limit is known to {result.coarser.distance:.1g}, its distance to half the sub-steps."
    figures = partial(figures_on_examples, result)
    distances = substeps_chart(
        "Distance to the continuous limit", Axis("distance", "{:.2e}", log=True), result.ways,
        lambda name, x, some: Line(name, x, [one.distance for one in some]),
        reads="of the centred logits", name="chart-order",
    )  # fmt: skip
    tables = [
        ways_table((*result.ways, result.limit), figures, [WAYS_NOTE, error]),
        longer_table(result, figures),
        errors_table(result.errors, f"In float64. On {counted(result.probed, 'validation example')}."),
        remainder_table(result),
    ]
    errors = Beside([errors_chart(result.errors, result.step), *remainder_chart(result)])
    parts = [
        Beside([distances, accuracy_chart(result)]),
        Note(f"{result.run}: {step}; {examples}; {result.made.date}."),
        Note(f"The limit: rk4 on the sum of the fields, {FINE} sub-steps a layer."),
        Evidence("Local errors, charts", [errors]),
        *folded(scrolling(tables)),
        *reproduced(result.made, f"splitstep converge {result.run}"),
    ]
    title = f"Discretisation sensitivity: {result.task}, {name_of(result.own)}"
    verdict = discretisation_verdict(result)
    return Document(title, parts, verdict, f"{verdict.sentence.partition(':')[0]}.")


def discretisation_verdict(result: Discretisation) -> Verdict:
    """Whether the network is close to its continuous limit, and where it stops working."""
    shared = result.shared
    answer = decide(shared, Rule(SHARED_CLOSE, fewest=0))
    is_close = {"supported": "is close", "not supported": "is not close"}.get(answer, "may or may not be close")
    figures = (
        f"{shared.mean:.1%} of their predictions are equal (95% interval {shared.low:.1%} to {shared.high:.1%}, "
        f"{counted(result.examples, 'example')}); accuracy {result.own.accuracy:.1%} and {result.limit.accuracy:.1%}"
    )
    sentence = f"The trained network {is_close} to its continuous limit: {figures}. {stops_text(result)}"
    return Verdict(kind_of([answer]), sentence)


def stops_text(result: Discretisation) -> str:
    """From which to which factor of its step the network works."""
    tried = [one.factor for one in result.longer]
    below, above = result.stops(upwards=False), result.stops(upwards=True)
    ends = [f"at {one:.3g} times its step" for one in (below, above) if one]
    if ends:
        return f"It stops working {' and '.join(ends)} (accuracy below {result.middle:.1%})."
    return f"It works (accuracy above {result.middle:.1%}) at {min(tried):.3g} to {max(tried):.3g} times its step."


def figures_on_examples(result: Discretisation, one: ExampleEffect) -> dict[Column, str]:
    metric = result.metric
    extra = {} if metric.name == "accuracy" else {Column(title_of(metric)): metric.format.format(one.figure)}
    return {
        Column("change"): f"{one.change:.3f}", Column("distance"): f"{one.distance:.4f}", Column("KL"): f"{one.kl:.3f}",
        Column("shared"): f"{one.shared:.1%}", Column("accuracy"): f"{one.accuracy:.1%}", **extra,
    }  # fmt: skip


def longer_table(result: Discretisation, figures: Figures[ExampleEffect]) -> Table:
    own, ends = result.by_length
    limits, head = {one.factor: f"{one.accuracy:.1%}" for one in ends}, Column(("limit's", "accuracy"))
    note = (
        "The same operators with a longer or a shorter step, so over another time. The last column is the continuous "
        f"limit over that time. The network does not work below an accuracy of {result.middle:.1%}, the middle "
        f"between its own and that of always naming the most frequent label ({result.majority:.1%})."
    )
    return lengths_table(own, lambda one: {**figures(one), head: limits[one.factor]}, note)


def remainder_table(result: Discretisation) -> Table:
    """The error of the commutator's prediction, by layer and factor of the step."""
    by = {(one.layer, one.factor): one.remainder for one in result.errors if one.remainder is not None}
    factors = sorted({factor for _, factor in by}, reverse=True)
    records = [
        {Column("layer"): str(i), **{Column(f"h \u00d7 {fraction(one)}"): f"{by[i, one]:.3f}" for one in factors}}
        for i in sorted({layer for layer, _ in by})
    ]
    return Table.of(records, REMAINDER, [SHRINKS])


def fraction(factor: float) -> str:
    return f"1/{round(1 / factor)}" if factor < 1 else f"{factor:g}"


def accuracy_chart(result: Discretisation) -> LineChart:
    """Accuracy against the factor of the step."""
    names = f"the network, {name_of(result.own)}", LIMIT
    lines = [
        Line(name, [one.factor for one in some], [one.accuracy for one in some])
        for name, some in zip(names, result.by_length, strict=True)
    ]
    y = Axis("accuracy", "{:.1%}")
    return LineChart("Accuracy as the step grows", FACTOR, y, lines, level=result.middle, name="chart-steps")


def remainder_chart(result: Discretisation) -> list[LineChart]:
    """What the commutator leaves over, against the step; none if the scheme has no commutator."""
    by: dict[int, list[tuple[float, float]]] = {}
    for one in result.errors:
        if one.remainder is not None:
            by.setdefault(one.layer, []).append((one.factor, one.remainder))
    few = sorted(by)[:: max(1, -(-len(by) // MOST_LINES))]
    lines = [Line(f"layer {layer}", *zip(*by[layer], strict=True)) for layer in few]
    y = Axis("left over", "{:.3f}", log=True)
    return [LineChart(REMAINDER, FACTOR, y, lines, name="chart-commutator")] if lines else []


# A pretrained model on texts


def discretised_flow_document(result: DiscretisedFlow) -> Document:
    """The charts, the tables and how to reproduce them."""
    what, y, level = "loss", Axis("nats per token", "{:+.3f}"), LOSS_CLOSE
    if result.loss is None:
        what, y, level = "output", Axis("relative change", "{:.3g}"), None
    line = line_of(name_of(result.own), [one.factor for one in result.longer], result.longer)
    charts = [
        substeps_chart(f"Change of the {what}", y, result.ways, line_of, level=level, name="chart-substeps"),
        LineChart(f"Change of the {what} as the step grows", FACTOR, y, [line], name="chart-steps"),
    ]
    where = f"In float32, on the first {PROBED_TOKENS} tokens of the first text, or fewer."
    tables = [
        deciding_table(result),
        ways_table(result.ways, figures_on_texts, below=True),
        lengths_table(result.longer, figures_on_texts, LONGER),
        errors_table(result.errors, where),
    ]
    errors = [Evidence("Local errors, chart", [errors_chart(result.errors, 1.0)])] if result.errors else []
    parts = [
        Beside(charts if len(result.ways) > 1 else charts[1:]),
        *(Note(one) for one in (summary(result), *result.notes)),
        *errors,
        *folded(scrolling(tables)),
        *reproduced(result.made, f"splitstep converge {result.model}"),
    ]
    verdict = discretised_flow_verdict(result)
    settled = HEADLINES.get(verdict.kind, "It is open whether this model is a discretised flow.")
    return Document(f"Is it a discretised flow? {result.model}", parts, verdict, settled)


def summary(result: DiscretisedFlow) -> str:
    loss = "" if result.loss is None else f"; its own loss is {result.loss:.3f} nats per token"
    return (
        f"{result.architecture}, {counted(result.layers, 'layer')} of {result.scheme}; "
        f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}{loss}; {result.made.date}."
    )


def discretised_flow_verdict(result: DiscretisedFlow) -> Verdict:
    """By the rule of docs/theory/inspection.md."""
    asked = f"{result.model} as a discretised flow"
    if result.halved is None or result.strang is None:
        why = "; ".join(dict.fromkeys(one.why for one in result.undefined))
        return Verdict("open", f"{asked}: not defined, because {why}.")
    halved, strang = result.halved.loss, result.strang.loss
    if halved is None or strang is None:
        return Verdict("open", f"{asked}: no verdict, because {without_loss(result)}")
    figures = (
        f"The loss changes by {spelt(halved)} nats per token with two sub-steps and by {spelt(strang)} with "
        f"{Code(shortened(result.strang.scheme))} (95% intervals over {counted(result.texts, 'text')}; the limit is "
        f"{LOSS_CLOSE:g})"
    )
    if result.chance is not None and result.loss is not None and result.loss > result.chance - GUESS:
        guess = f"its own loss of {result.loss:.2f} nats is that of a guess ({result.chance:.2f})"
        return Verdict("open", f"{asked}: undecided, because {guess}, which has little to lose. {figures}.")
    answer = all_of(opposite(decide(Estimate(*one), Rule(LOSS_CLOSE, fewest=0))) for one in (halved, strang))
    few = halved.low is None and strang.low is None
    kind = kind_of([answer], few)
    merged = None if result.merged is None else result.merged.loss
    more = f" With neighbouring layers merged it changes by {spelt(merged)}." if merged else ""
    return Verdict(kind, f"{asked}: {answer}. {figures}.{more}")


def without_loss(result: DiscretisedFlow) -> str:
    """Why there is no loss, and how far the output moves instead."""
    found = [f"{one.output:.3g} with {NAMED[name]}" for name in NAMED if (one := getattr(result, name)) is not None]
    whose = {"own": "it predicts the tokens that it reads", "nothing": "it predicts no tokens"}
    return (
        f"{whose.get(result.predicts, 'it has no loss')}, so it has no loss per token. Its output changes, relative to "
        f"itself, by {', by '.join(found)}."
    )


def spelt(change: Change | None) -> str:
    """A change with its interval: +0.031 [+0.020, +0.042]."""
    if change is None:
        return ""
    value, *ends = (f"{x:+.3f}" for x in (change.mean, change.low, change.high) if x is not None)
    return f"{value} [{', '.join(ends)}]" if ends else value


def figures_on_texts(one: TextEffect | None) -> dict[Column, str]:
    return {
        Column("loss"): NOT_DEFINED if one is None else spelt(one.loss),
        Column("KL"): "" if one is None or one.kl is None else f"{one.kl:.3f}",
        Column("shared"): "" if one is None or one.shared is None else f"{one.shared:.1%}",
        Column("output"): "" if one is None else f"{one.output:.3g}",
    }


def deciding_table(result: DiscretisedFlow) -> Table:
    ways = {"own": "its own scheme", **NAMED}
    records = [
        {Column("way", text=True, whole=True): title, **figures_on_texts(getattr(result, name))}
        for name, title in ways.items()
    ]
    undefined: dict[str, list[str]] = {}  # by the reason
    for one in result.undefined:
        undefined.setdefault(one.why, []).append(one.what)
    missing = [f"Not defined: {', '.join(names)}; {why}." for why, names in undefined.items()]
    return Table.of(records, "The two ways that decide, and merged layers", [TEXTS_NOTE, MERGED, *missing])


def line_of(name: str, x: Sequence[float], some: Sequence[TextEffect]) -> Line:
    """A line with a band, if points have intervals; the change of the model to itself is zero and needs none."""
    y = [one.output if one.loss is None else one.loss.mean for one in some]
    losses = [one.loss for one in some if one.loss is not None]
    band = [(one.mean if one.low is None else one.low, one.mean if one.high is None else one.high) for one in losses]
    known = any(one.low is not None for one in losses) and len(losses) == len(some)
    return Line(name, x, y, *(zip(*band, strict=True) if known else ()))


DISCRETISATION = Study(Discretisation, discretisation_document)
DISCRETISED_FLOW = Study(DiscretisedFlow, discretised_flow_document)

"""The continuous limit as verdict, tables, charts and page."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import TypeVar

from ...experiments.experiment import Answer, Rule, decide
from ...experiments.sections import recipe_of_all, reproduced
from ...experiments.statistics import Estimate, Slope
from ...experiments.study import Study
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart
from ...report.document import Document, Evidence, Note, Verdict, folded, in_pairs
from ...report.tables import EVERYWHERE, ON_PAGES, Cell, Code, Column, Record, Table
from ...schemes import label
from ...support.words import counted, listed
from ...tasks.measures import title_of
from ..pinned import PinnedRow
from .discretised_document import scrolling
from .limit import KINDS, ContinuousLimit, Gap, Network

NAMES = {"interpolated": "interpolated", "free": "trained as usual", "smooth": "trained from a smooth start"}
SMOOTH = 0.5  # the power of h that tells smooth weights (1) from independent ones (0)
GAPS_NOTE = (
    "Between the networks of two neighbouring depths, on the same validation examples, at the times that all depths "
    "share. Distance: root mean square, relative to the deeper network's states. Coordinates of networks that were "
    "trained separately from different starts need not correspond: CKA does not depend on them."
)
ROUGH_NOTE = (
    "Roughness: the root of sum |W(l+1) - W(l)|\u00b2 / sum |W(l)|\u00b2 over the matrices of all layers, 1.41 if "
    "layers are independent. Learned: of what training added to the start."
)
RECIPE_NOTE = "The recipe, with all defaults written out; the layers and the step differ from run to run:"
PINNED_NOTE = (
    "u' = alpha d\u00b2u/ds\u00b2 + r(s) u in float64, both parts exact, against a matrix exponential. Measured: the "
    "slope of the error when the number of steps doubles for the last time."
)
STIFF_NOTE = (
    "alpha grows with the square of the points, so the problem gets stiff while the steps stay as long. Where the "
    "measured order falls below the order, that is order reduction."
)
N = TypeVar("N", Network, Gap)
YES_OR_NO = {"supported": "yes", "not supported": "no", "undecided": "undecided"}
SHORT = 5  # rows of a table that a terminal shows


def decided(slope: Slope | None, level: float) -> Answer:
    """Whether a slope lies above a level, which itself is not above."""
    found = None if slope is None else Estimate(slope.value, slope.low, slope.high, slope.n)
    return decide(found, Rule(level, fewest=0, level_is="below"))


def limit_verdict(result: ContinuousLimit) -> Verdict:
    """Whether trajectories approach each other and weights become smooth, for each kind of network."""
    kinds = [kind for kind in ("free", "smooth", "interpolated") if result.slope(kind, "distance") is not None]
    if not kinds:
        few = "Two depths are too few for a rate" if len(result.depths) < 3 else "Too few networks finished for a rate"
        return Verdict("too few", f"{few}: a rate needs three depths, an interval four, such as --depths 3,6,12,24.")
    trained = [kind for kind in kinds if kind != "interpolated"]
    found = [decided(result.slope(kind, "distance"), 0.0) for kind in trained]
    found += [decided(result.slope(kind, "roughness"), SMOOTH) for kind in trained]
    depths = f"From {result.depths[0]} to {result.depths[-1]} layers"
    clauses = "; ".join(clause(result, kind) for kind in kinds)
    kind = "settled" if found and "undecided" not in found else "open"
    return Verdict(kind, f"{depths}: {clauses}. {by_text(result)}")


def clause(result: ContinuousLimit, kind: str) -> str:
    """What is known of one kind of network."""
    rate, rough = result.slope(kind, "distance"), result.slope(kind, "roughness")
    assert rate is not None
    approach = answered("trajectories", "approach each other", decided(rate, 0.0))
    text = f"{NAMES[kind]}, {approach} (distance like h^{rate.text()})"
    if kind == "interpolated" or rough is None:
        return text
    become = answered("weights", "become smooth", decided(rough, SMOOTH))
    return f"{text} and {become} (roughness like h^{rough.text()})"


def answered(who: str, what: str, answer: Answer) -> str:
    """A claim, its contrary, or that it is open."""
    return {
        "supported": f"{who} {what}",
        "not supported": f"{who} do not {what}",
        "undecided": f"it is open whether {who} {what}",
    }[answer]


def by_text(result: ContinuousLimit) -> str:
    """What the intervals are over."""
    seeds = counted(len(result.seeds), "seed")
    by = {one.slope.by for one in result.trends}
    over = f"over {seeds}" if by == {"seeds"} else f"those of the regression over depths, {seeds}"
    return f"95% intervals are {over}."


def power(slope: Slope | None) -> Cell:
    """A slope with its interval below it."""
    return tuple(slope.text().split(" ", 1)) if slope else ""


def trends_table(result: ContinuousLimit) -> Table:
    records = [
        {
            Column("networks", text=True): NAMES[kind],
            Column("distance"): power(rate := result.slope(kind, "distance")),
            Column("approach?", text=True): YES_OR_NO[decided(rate, 0.0)],
            Column("roughness"): power(rough := result.slope(kind, "roughness")),
            Column("smooth?", text=True): YES_OR_NO[decided(rough, SMOOTH)],
            Column("learned"): power(result.slope(kind, "learnt")),
        }
        for kind in KINDS
    ]
    note = f"The power of h with which each falls. {by_text(result)} {ROUGH_NOTE}"
    return Table.of(records, "Fitted powers of the step", [note])


def mean(values: Iterable[float | None]) -> float:
    known = [one for one in values if one is not None]
    return fmean(known) if known else math.nan


def by_kind(found: Sequence[N], depth: str, depths: Sequence[int]) -> Iterator[tuple[Record, list[N]]]:
    """Networks or gaps of each kind and depth, with the cell that names the kind."""
    for kind, own in product(KINDS, depths):
        if some := [one for one in found if (one.kind, getattr(one, depth)) == (kind, own)]:
            yield {Column("networks", text=True, grouped=True): NAMES[kind]}, some


def gaps_table(result: ContinuousLimit) -> Table:
    records = [
        {
            **named,
            Column("layers"): f"{own[0].coarse} \u2192 {own[0].fine}",
            Column("h"): f"{own[0].step:.4g}",
            Column("distance"): f"{mean(one.distance for one in own):.4f}",
            Column("CKA"): f"{mean(one.cka for one in own):.4f}",
        }
        for named, own in by_kind(result.gaps, "coarse", result.depths)
    ]
    return Table.of(records, "Distance between depths", [GAPS_NOTE])


def networks_table(result: ContinuousLimit) -> Table:
    def shown(found: Sequence[Network], what: str, form: str = "{:.3f}") -> str:
        value = mean(getattr(one, what) for one in found)
        return form.format(value) if math.isfinite(value) else ""

    records = [
        {
            **named,
            Column("layers"): str(own[0].depth),
            Column("step"): f"{own[0].step:.4g}",
            Column(f"validation {title_of(result.metric)}"): shown(own, "figure", result.metric.format),
            Column("roughness"): shown(own, "roughness"),
            Column("learned"): shown(own, "learnt"),
            Column(("of the", "start")): shown(own, "start"),
            Column("diverged"): str(sum(one.figure is None for one in own) or ""),
        }
        for named, own in by_kind(result.networks, "depth", result.depths)
    ]
    return Table.of(records, "Networks", [ROUGH_NOTE])


def pinned_table(rows: Sequence[PinnedRow], title: str, note: str) -> Table:
    records = [
        {
            Column("splitting", text=True): one.name,
            Column("notation", text=True): Code(one.notation),
            Column("ends", text=True): one.ends,
            Column("points"): str(one.points),
            Column("order"): str(one.order),
            Column("measured"): "" if one.slope is None else f"{one.slope:.2f}",
            Column(("error at", f"{one.steps[-1]} steps")): f"{one.errors[-1]:.1e}",
        }
        for one in rows
    ]
    return Table.of(records, title, [note], ON_PAGES if len(rows) > SHORT else EVERYWHERE)


def lines_of(found: Sequence[Network | Gap], x: str, figures: Mapping[str, Mapping[str, str]]) -> list[Line]:
    """A line for each kind of network that has a figure: the mean over seeds against x, with a band from the least to
    the greatest if there are several. `figures` has the names of the lines."""
    lines = list[Line]()
    for kind, (figure, names) in product(KINDS, figures.items()):
        by: dict[float, list[float]] = {}
        for one in found:
            if one.kind == kind and (value := getattr(one, figure)) is not None:
                by.setdefault(getattr(one, x), []).append(value)
        if by:
            xs, ys = zip(*sorted(by.items()), strict=True)
            band = (list(map(min, ys)), list(map(max, ys))) if max(map(len, ys)) > 1 else ()
            lines.append(Line(names[kind], xs, list(map(mean, ys)), *band))
    return lines


def charts(result: ContinuousLimit) -> list[LineChart]:
    """Distances and CKA against the step, roughness against the step, the figure against the depth."""
    slopes = {kind: result.slope(kind, "distance") for kind in KINDS}
    fitted = {
        k: f"{NAMES[k]}: h^{slope.text().partition(' ')[0]}" if slope else NAMES[k] for k, slope in slopes.items()
    }
    learned = {kind: f"{name}, learned" for kind, name in NAMES.items()}
    h, coarser = (Axis(title, "{:.4g}", log=True) for title in ("h", "h of the coarser network"))
    distance, rough = (Axis(title, "{:.3g}", log=True) for title in ("distance", "roughness"))
    title, layers, cka = title_of(result.metric), Axis("layers", "{:,.0f}", log=True), Axis("CKA", "{:.4f}")
    gaps, networks, figure = result.gaps, result.networks, Axis(title, result.metric.format)
    distances = lines_of(gaps, "step", {"distance": fitted})
    roughness = lines_of(networks, "step", {"roughness": NAMES, "learnt": learned})
    alike, figures = lines_of(gaps, "step", {"cka": NAMES}), lines_of(networks, "depth", {"figure": NAMES})
    found = [
        LineChart("Distance between depths at equal times", coarser, distance, distances, name="chart-distance"),
        LineChart("Roughness of the weights", h, rough, roughness, name="chart-roughness"),
        LineChart("CKA between depths", coarser, cka, alike, name="chart-cka"),
        LineChart(f"Validation {title}", layers, figure, figures, name="chart-figure"),
    ]
    return [one for one in found if one.lines]


def pinned_chart(result: ContinuousLimit) -> LineChart:
    """The errors of the pinned problem against the steps."""
    lines = [Line(one.name, one.steps, one.errors) for one in result.pinned]
    x, y = Axis("steps", "{:,.0f}", log=True), Axis("error", "{:.2e}", log=True)
    reads = "relative to the exact solution"
    return LineChart("A pinned problem: heat with reaction", x, y, lines, reads, name="chart-pinned")


def document(result: ContinuousLimit) -> Document:
    """The charts, the tables and how to reproduce them."""
    pinned = [
        pinned_table(result.pinned, "A pinned problem: heat with a reaction that varies", PINNED_NOTE),
        pinned_table(result.stiff, "The pinned problem on finer grids", STIFF_NOTE),
    ]
    first, *more = in_pairs(charts(result))
    recipe = recipe_of_all(result.made.recipe, RECIPE_NOTE)
    parts = [
        first,
        Note(summary(result)),
        *([Evidence("Likeness and quality", more)] if more else []),
        *folded(scrolling([trends_table(result), gaps_table(result), networks_table(result)])),
        Evidence("A pinned problem", [pinned_chart(result), *scrolling(pinned)]),
        *reproduced(result.made, "splitstep.studies.converge.limit.continuous_limit(...)", more=recipe),
    ]
    title = f"The continuous limit: {result.task}, {shortened(label(result.scheme))}"
    return Document(title, parts, limit_verdict(result), headline(result))


def headline(result: ContinuousLimit) -> str:
    """Whether trajectories of each kind of trained networks approach each other, in words."""
    slopes = {kind: result.slope(kind, "distance") for kind in ("free", "smooth")}
    clauses = [
        f"{NAMES[kind]}, {answered('trajectories', 'approach each other', decided(slope, 0.0))}"
        for kind, slope in slopes.items()
        if slope is not None
    ]
    return f"{'; '.join(clauses).capitalize()}." if clauses else ""


def summary(result: ContinuousLimit) -> str:
    depths = listed([str(depth) for depth in result.depths])
    return (
        f"Networks of {depths} layers, all over t from 0 to {result.time:g} with step {result.time:g} / layers; "
        f"{counted(len(result.seeds), 'seed')}. Interpolated: the trained network of {result.depths[0]} layers with "
        f"weights interpolated in t. The smooth start is a random function of {counted(result.modes, 'wave')}. No "
        f"dropout. Trajectories of {counted(result.examples, 'validation example')}; {result.made.date}."
    )


STUDY = Study(ContinuousLimit, document)

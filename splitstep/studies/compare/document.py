"""What a comparison says: tables, curves, quality against cost, diagrams, what was matched, how to reproduce it."""

from __future__ import annotations

from ...experiments.sections import BAND, LOSS, READS, STEP, band_line, by_step, pictures, reproduce, summary
from ...experiments.statistics import FEWEST, paired_difference
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart, Point, PointChart
from ...report.document import Beside, Document, Heading, Note, Part
from ...tasks.measures import title_of
from .result import Comparison
from .tables import comparison_tables
from .verdict import compare_verdict

DIAGRAMS = (
    "One step from left to right. A is attention, F feed-forward. The number below a box is its fraction of the step; "
    "dots above it are the stages of its tableau; dashed boxes are projections. F0 and F1 have weights of their own; "
    "two boxes F share theirs."
)


def document(result: Comparison) -> Document:
    """The whole document."""
    main, *tests, losses, matched, runs = comparison_tables(result)
    parts = [
        summary(result.made, result.trials, {"scheme": len(result.rows), "seed": len(result.seeds)}),
        main,
        *tests,
        *loss_curves(result),
        *([*loss_differences(result), losses] if len(result.rows) > 1 else []),
        Heading("Quality against cost"),
        Note("The test figure with its 95% interval, each at its counted cost."),
        Beside([
            quality(result, "parameters", "parameters", "chart-parameters"),
            quality(result, "flops", "FLOPs per token", "chart-flops"),
        ]),
        *pictures(((row.name, row.scheme) for row in result.rows), DIAGRAMS),
        matched,
        runs,
        *reproduce(result.made, result.trials, "splitstep.studies.compare.compare(...)"),
    ]  # fmt: skip
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    return Document(title, parts, compare_verdict(result))


def loss_curves(result: Comparison) -> list[Part]:
    """Losses in training and validation, and the validation metric if it was followed."""
    charts = [curves(result, "valid_loss", "Validation loss", LOSS, "chart-valid")]
    if any(trial.valid_metric.steps for trial in result.trials):  # translators may be scored at the end only
        title = f"Validation {title_of(result.metric)}"
        charts.append(curves(result, "valid_metric", title, metric_axis(result), "chart-metric"))
    train = curves(result, "train_loss", "Training loss", LOSS, "chart-train")
    return [train, Note(BAND if len(result.seeds) > 1 else "One seed."), Beside(charts)]


def loss_differences(result: Comparison) -> list[Part]:
    """When a scheme is ahead of the first: the curves themselves are often too close to show it."""
    first = shortened(result.rows[0].name)
    few = len(result.seeds) < FEWEST
    how = "too few seeds for an interval" if few else "the band is the 95% interval of the mean over seeds"
    charts = [
        differences(result, column, f"{title} loss, difference to {first}", f"chart-{title.lower()}-difference")
        for title, column in (("Training", "train_loss"), ("Validation", "valid_loss"))
    ]
    return [Beside(charts), Note(f"Seed by seed; below zero is better; {how}.")]


def metric_axis(result: Comparison) -> Axis:
    return Axis(title_of(result.metric), result.metric.format)


def curves(result: Comparison, column: str, title: str, y: Axis, name: str) -> LineChart:
    """A figure against the step: the mean over seeds, and a band from the least to the greatest."""
    several = len(result.seeds) > 1
    found = [(shortened(row.name), [getattr(one, column) for one in result.chosen(row)]) for row in result.rows]
    lines = [band_line(row, own, several) for row, own in found]
    return LineChart(title, STEP, y, lines, READS if several else "one seed", name=name)


def differences(result: Comparison, column: str, title: str, name: str) -> LineChart:
    """A loss minus the first row's against the step, seed by seed: the mean, and its 95% interval as a band."""
    lines, seen = list[Line](), list[float]()
    first, *others = (
        by_step({trial.seed: getattr(trial, column) for trial in result.chosen(row)}) for row in result.rows
    )
    for row, own in zip(result.rows[1:], others, strict=True):
        shared = {step: paired_difference(own[step], first[step]) for step in sorted(own.keys() & first.keys())}
        found = {step: one for step, one in shared.items() if one is not None}
        steps, estimates = list(found), found.values()
        low = [one.mean if one.low is None else one.low for one in estimates]
        high = [one.mean if one.high is None else one.high for one in estimates]
        banded = any(one.low is not None for one in estimates)
        lines.append(Line(shortened(row.name), steps, [x.mean for x in estimates], *((low, high) if banded else ())))
        late = [k for k, step in enumerate(steps) if step > steps[-1] / 10]
        seen += [end for k in late for end in (low[k], high[k])]
    least, greatest = min(seen, default=0.0), max(seen, default=0.0)
    room = 0.05 * (greatest - least) or 0.01
    shown = min(least, 0.0) - room, max(greatest, 0.0) + room  # the first steps may be far outside
    reads = "mean [95% interval]" if any(line.low for line in lines) else "mean, too few seeds for an interval"
    return LineChart(title, STEP, Axis("difference", "{:+.4f}", shown=shown), lines, reads, 0.0, name, first=1)


def quality(result: Comparison, count: str, title: str, name: str) -> PointChart:
    """The test metric with its interval against a counted cost; costs that are nearly equal are not drawn far apart."""
    costs = [getattr(row.cost, count) for row in result.rows]
    room = max(0.15 * (max(costs) - min(costs)), 0.05 * max(costs))
    x = Axis(title, "{:,.0f}", shown=(min(costs) - room, max(costs) + room))
    tested = [(row, cost, row.test) for row, cost in zip(result.rows, costs, strict=True) if row.test]
    points = [Point(shortened(row.name), cost, *found[:3], found.lacks) for row, cost, found in tested]
    reads = f"{title_of(result.metric)}, mean [95% interval]"
    return PointChart("", x, metric_axis(result), points, reads, name)

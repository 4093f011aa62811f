"""What a comparison says: which schemes its seeds tell apart from the first, in one sentence; tables, curves, quality
against cost, diagrams, what was matched, how to reproduce it.
"""

from ...experiments.ladder import EQUAL_COST
from ...experiments.sections import BAND, LOSS, STEP, by_step, curves_chart, pictures, reproduce, summary
from ...experiments.statistics import FEWEST, Estimate, paired_difference
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart, Point, PointChart
from ...report.document import Beside, Document, Evidence, Note, Part, Verdict, folded
from ...support.words import listed
from ...tasks.measures import Metric, title_of
from .lead_charts import against_budget, forest
from .result import Comparison, Row
from .sentence import compared_in_words
from .standing import arms_of, detects, findings, unit_of
from .tables import comparison_tables

DIAGRAMS = (
    "One step from left to right. A is attention, F feed-forward. The number below a box is its fraction of the step; "
    "dots above it are the stages of its tableau; dashed boxes are projections. F0 and F1 have weights of their own; "
    "two boxes F share theirs."
)


def document(result: Comparison) -> Document:
    """The whole document."""
    main, *tests, losses, matched, runs = comparison_tables(result)
    first, *curves = loss_curves(result)
    lead = leading(result)
    parts = [
        *(lead or [first]),
        summary(result.made, result.trials, {"scheme": len(result.rows), "seed": len(result.seeds)}),
        Evidence("Figures", [main]),
        *([Evidence("Test sets", tests)] if tests else []),
        Evidence("Losses along training", [*([first] if lead else []), *curves]),
        *([Evidence("Losses, differences", [*loss_differences(result), losses])] if len(result.rows) > 1 else []),
        *quality_against_cost(result),
        *pictures(((row.name, row.scheme) for row in result.rows if row.scheme), DIAGRAMS),
        *folded([matched, runs]),
        *reproduce(result.made, result.trials, "splitstep.studies.compare.compare(...)"),
    ]  # fmt: skip
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    verdict = verdict_of(result)
    return Document(title, parts, verdict, "" if verdict.kind == "too few" else headline(result))


def headline(result: Comparison) -> str:
    """Which rows are better or worse than the first, in words."""
    first = shortened(result.rows[0].name)
    if len(result.rows) == 1:
        return f"{introduced(first)} was trained alone; nothing was compared."
    words = {"ahead": "better than", "behind": "worse than", "inside": "within the margin of"}
    found = [(one.arm, words.get(one.decision.word, "")) for one in findings(result)[1:]]
    groups = {word: [name for name, own in found if own == word] for word in dict.fromkeys(own for _, own in found)}
    still = groups.pop("", [])
    if not groups:
        return f"No {'arm' if result.design else 'scheme'} differs significantly from {introduced(first)}."
    clauses = [
        f"{listed([*map(introduced, own)])} {'is' if len(own) == 1 else 'are'} {word} {other}"
        for (word, own), other in zip(groups.items(), [introduced(first), *[first] * len(groups)], strict=False)
    ]
    clauses += [f"{listed(still)} {'does' if len(still) == 1 else 'do'} not differ significantly"] if still else []
    return f"{'; '.join(clauses)}."


def introduced(name: str) -> str:
    """The name of a row at its first mention."""
    return f"{name} (the plain Transformer)" if name == "lie" else name


def leading(result: Comparison) -> list[Part]:
    """The leads, of arms that are named alone beside the noise and against the budget."""
    (first, *arms), unit, design = findings(result), unit_of(result.metric), result.design
    parts = forest(first.arm, arms, arms_of(result).floor if design else None, unit)
    if design is None:
        return parts[:1]
    if len(design.budgets) > 1:
        x = Axis("budget, in the recipe's steps", "{:g}", log=True)
        chart = against_budget(first.arm, arms, x, design.budgets, unit)
        parts.append(Evidence(chart.title, [chart]))
    return parts


def loss_curves(result: Comparison) -> list[Part]:
    """Losses in training and validation, and the validation metric if it was followed."""

    def curves(column: str, title: str, name: str, y: Axis = LOSS) -> LineChart:
        found = [(shortened(row.name), [getattr(one, column) for one in result.chosen(row)]) for row in result.rows]
        return curves_chart(title, found, len(result.seeds), name, y)

    charts = [curves("valid_loss", "Validation loss", "chart-valid")]
    if any(trial.valid_metric.steps for trial in result.trials):  # translators may be scored at the end only
        charts.append(
            curves("valid_metric", f"Validation {title_of(result.metric)}", "chart-metric", metric_axis(result))
        )
    train = curves("train_loss", "Training loss", "chart-train")
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
    return LineChart(
        title, STEP, Axis("difference of the loss", "{:+.4f}", shown=shown), lines, reads, 0.0, name, first=1
    )


def quality_against_cost(result: Comparison) -> list[Part]:
    """The test figure against each cost in which rows differ."""
    titles = {"parameters": "parameters", "flops": "FLOPs per token"}
    costs = {name: [getattr(row.cost, name) for row in result.rows] for name in titles}
    charts = [
        quality(result, name, titles[name], f"chart-{name}")
        for name, own in costs.items()
        if max(own) > (1 + EQUAL_COST) * min(own)
    ]
    note = Note("The test figure with its 95% interval, each at its counted cost.")
    return [Evidence("Quality against cost", [note, Beside(charts)])] if charts else []


def quality(result: Comparison, count: str, title: str, name: str) -> PointChart:
    """The test metric with its interval against a counted cost; costs that are nearly equal are not drawn far apart."""
    costs = [getattr(row.cost, count) for row in result.rows]
    room = max(0.15 * (max(costs) - min(costs)), 0.05 * max(costs))
    x = Axis(title, "{:,.0f}", shown=(min(costs) - room, max(costs) + room))
    tested = [(row, cost, row.test) for row, cost in zip(result.rows, costs, strict=True) if row.test]
    points = [Point(shortened(row.name), cost, *found[:3], found.lacks) for row, cost, found in tested]
    reads = f"{title_of(result.metric)}, mean [95% interval]"
    return PointChart("", x, metric_axis(result), points, reads, name)


def verdict_of(result: Comparison) -> Verdict:
    """Which rows are ahead of the first or behind it, or how large a difference the seeds would show."""
    row, unit = result.rows[0], unit_of(result.metric)
    if row.test is None:
        return Verdict("too few", f"No run of {shortened(row.name)} gave a figure.")
    if len(result.rows) == 1:
        return Verdict("open", alone(result.metric, row, row.test))
    first, *arms = findings(result)
    return compared_in_words(first, arms, detects(result), result.design and result.design.margin, unit)


def alone(metric: Metric, row: Row, test: Estimate) -> str:
    """What is known of a single scheme."""
    form = metric.format
    interval = test.lacks or f"95% interval {form.format(test.low)} to {form.format(test.high)}"
    said = f"{shortened(row.name)} has a test {title_of(metric)} of {form.format(test.mean)} ({interval})"
    return f"{said}; nothing was compared."

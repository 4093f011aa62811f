"""What a comparison says: which schemes its seeds tell apart from the first, in one sentence; tables, curves, quality
against cost, diagrams, what was matched, how to reproduce it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...experiments.ladder import EQUAL_COST
from ...experiments.sections import BAND, LOSS, STEP, by_step, curves_chart, pictures, reproduce, summary
from ...experiments.statistics import FEWEST, Bounds, Estimate, detectable, jointly, paired_difference
from ...notation import shortened
from ...report.charts import Axis, Forest, Line, LineChart, Point, PointChart
from ...report.document import Beside, Document, Evidence, Note, Part, Verdict, folded
from ...support.words import counted, listed
from ...tasks.measures import Metric, title_of
from .lead_charts import against_budget, bar, forest, signed
from .result import Comparison, Row
from .sentence import compared_in_words
from .standing import designed, detects, findings, floor_of, unit_of
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
    lead = leading(result) if result.design else differences_forest(result)
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
    verdict = arms_verdict(result) if result.design else compare_verdict(result)
    return Document(title, parts, verdict, "" if verdict.kind == "too few" else headline(result))


def headline(result: Comparison) -> str:
    """Which rows are better or worse than the first, in words."""
    first = shortened(result.rows[0].name)
    if len(result.rows) == 1:
        return f"{first} was trained alone; nothing was compared."
    words = {"ahead": "better than", "behind": "worse than", "inside": "within the margin of"}
    if result.design:
        found = [(one.arm, words.get(one.decision.word, "")) for one in findings(result)[1:]]
    else:
        better = {True: "better than", False: "worse than"}
        found = [
            (gap.name, better[(gap.joint.mean > 0) == result.metric.higher_is_better] if gap.apart else "")
            for gap in gaps_of(result)
        ]
    groups = {word: [name for name, own in found if own == word] for word in dict.fromkeys(own for _, own in found)}
    still = groups.pop("", [])
    if not groups:
        return f"No {'arm' if result.design else 'scheme'} differs significantly from {first}."
    clauses = [f"{listed(own)} {'is' if len(own) == 1 else 'are'} {word} {first}" for word, own in groups.items()]
    clauses += [f"{listed(still)} {'does' if len(still) == 1 else 'do'} not differ significantly"] if still else []
    return f"{'; '.join(clauses)}."


def differences_forest(result: Comparison) -> list[Part]:
    """The difference of each scheme to the first beside zero, with the intervals of the verdict."""
    first, gaps, unit = shortened(result.rows[0].name), gaps_of(result), unit_of(result.metric)
    bars = [bar(gap.name, gap.joint, unit) for gap in gaps]
    better = "higher" if result.metric.higher_is_better else "lower"
    what = f"difference of {title_of(result.metric)} to {first}, {unit.name}; {better} is better"
    note = f"Intervals are corrected for {len(gaps)} comparisons." if len(gaps) > 1 else ""
    title = f"Difference to {first}"
    shown = Forest(title, Axis(what, signed(unit)), bars, "mean [95% interval]", "chart-differences", note)
    return [shown] if bars else []


def leading(result: Comparison) -> list[Part]:
    """The leads of arms that are named alone, beside the noise, and against the budget."""
    (first, *arms), unit, design = findings(result), unit_of(result.metric), designed(result)
    parts = forest(first.arm, arms, floor_of(result), unit)
    if len(design.budgets) > 1:
        x = Axis("budget, in the recipe's steps", "{:g}", log=True)
        chart = against_budget(first.arm, arms, x, design.budgets, unit)
        parts.append(Evidence(chart.title, [chart]))
    return parts


def arms_verdict(result: Comparison) -> Verdict:
    """The sentence about arms that are named alone."""
    (first, *arms), design = findings(result), designed(result)
    return compared_in_words(first, arms, detects(result), design.margin, unit_of(result.metric))


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


class Gap(NamedTuple):
    """The difference of a row to the first one, with an interval that holds for all rows at once."""

    name: str
    found: Estimate  # as the table has it
    joint: Estimate

    @property
    def few(self) -> bool:
        return self.found.n < FEWEST or self.found.low is None

    @property
    def apart(self) -> bool:
        return not self.few and self.joint.sign != 0


def compare_verdict(result: Comparison) -> Verdict:
    """Which schemes are better or worse than the first, or how large a difference the seeds can detect."""
    first, *others = result.rows
    if first.test is None:
        return Verdict("too few", f"No run of {shortened(first.name)} gave a figure.")
    if not others:
        return Verdict("open", alone(result.metric, first, first.test))
    found = [(shortened(row.name), difference(result, row)) for row in others]
    gaps = gaps_of(result)
    told = [gap for gap in gaps if gap.apart]
    if all(gap.few for gap in gaps):
        kind, clauses = "too few", [too_few(result, gaps)]
    else:
        kind, clauses = "settled" if told else "open", decided(result, gaps, told)
    lost = [name for name, one in found if one is None]
    clauses += [f"{listed(lost)} gave no figure to compare"] if lost else []
    return Verdict(kind, f"{'; '.join(clauses)}.")


def gaps_of(result: Comparison) -> list[Gap]:
    """The differences to the first row that are known, with intervals that hold at once."""
    found = [(shortened(row.name), difference(result, row)) for row in result.rows[1:]]
    known, bounds = [(name, one) for name, one in found if one], Bounds(result.metric.least, result.metric.greatest)
    return [Gap(name, one, jointly(one, len(known), bounds)) for name, one in known]


def alone(metric: Metric, row: Row, test: Estimate) -> str:
    """What is known of a single scheme."""
    form = metric.format
    interval = test.lacks or f"95% interval {form.format(test.low)} to {form.format(test.high)}"
    said = f"{shortened(row.name)} has a test {title_of(metric)} of {form.format(test.mean)} ({interval})"
    return f"{said}; nothing was compared."


def decided(result: Comparison, gaps: Sequence[Gap], told: Sequence[Gap]) -> list[str]:
    """The schemes that differ significantly from the first, then those that do not."""
    many = f"corrected for {len(gaps)} comparisons"
    clauses = [better_or_worse(result, gap) for gap in told]
    clauses += [f"intervals are {many}"] if len(gaps) > 1 and told else []
    clauses += left_open(result, gaps)
    if not told and any(gap.found.sign for gap in gaps):
        clauses.append(f"the intervals in the table are not {many}")
    return clauses


def difference(result: Comparison, row: Row) -> Estimate | None:
    """The difference to the first scheme; of translators that on the first test set, over sentences and seeds."""
    if not result.tests:
        return row.difference
    wanted = result.tests[0].split, row.scheme, row.arm
    return next((one.difference for one in result.tests if (one.split, one.scheme, one.arm) == wanted), None)


def better_or_worse(result: Comparison, gap: Gap) -> str:
    """By how much a scheme is better or worse than the first."""
    mean, low, high, _ = gap.joint
    word = "better" if (mean > 0) == result.metric.higher_is_better else "worse"
    near, far = sorted(abs(end) for end in (low, high) if end is not None)
    return (
        f"{gap.name} is {word} than {shortened(result.rows[0].name)} by {difference_text(result.metric, abs(mean))} "
        f"(95% interval {difference_text(result.metric, near, '')} to {difference_text(result.metric, far, '')})"
    )


def left_open(result: Comparison, gaps: Sequence[Gap]) -> list[str]:
    """The schemes that do not differ significantly from the first, and the difference that the seeds can detect."""
    still = [gap for gap in gaps if not gap.apart]
    if not still:
        return []
    seeds = counted(min(gap.found.n for gap in still), "seed")
    do = "do" if len(still) > 1 else "does"
    none = "No arm differs" if any(row.arm for row in result.rows) else "No scheme differs"
    who = f"{listed([gap.name for gap in still])} {do} not differ" if len(still) < len(gaps) else none
    sizes = [size for gap in still if (size := detectable(gap.found, len(gaps))) is not None]
    found = f"{who} significantly from {shortened(result.rows[0].name)}"
    return [found, power(result.metric, max(sizes), seeds)] if sizes else [f"{found} over {seeds}"]


def power(metric: Metric, size: float, seeds: str) -> str:
    """The difference that this many seeds can detect; none, if it is larger than any that there can be."""
    if metric.least is not None and metric.greatest is not None and size > metric.greatest - metric.least:
        return f"{seeds} spread too much to detect any difference with 80% power"
    return f"{seeds} can detect a difference of {difference_text(metric, size)} with 80% power"


def too_few(result: Comparison, gaps: Sequence[Gap]) -> str:
    """What is missing for an interval."""
    names = listed([shortened(result.rows[0].name), *(gap.name for gap in gaps)])
    most = max((gap.found.n for gap in gaps), default=0)
    if most == 0:
        return f"No other scheme has a figure to compare with {names}'s"
    if most >= FEWEST:
        return f"All {most} seeds give the same difference, so too few seeds show the spread between {names}"
    return f"{'One seed is' if most == 1 else 'Two seeds are'} too few to compare {names}: use --seeds 5"


def difference_text(metric: Metric, size: float, unit: str = " points") -> str:
    """A difference of a metric; of percentages it is in points, since a per cent of them would be something else."""
    text = metric.format.format(size)
    return f"{text[:-1]}{unit}" if text.endswith("%") else text

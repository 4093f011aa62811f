"""The page of a comparison."""

from __future__ import annotations

from html import escape

from ...notation import shortened
from ...report.diagram import diagrams
from ...report.drawing import chart_to_html
from ...report.page import page, side_by_side
from ...report.tables import to_html
from ...report.verdict import verdict_to_html
from ...schemes import scheme
from ...tasks.task import title_of
from ..reproduce import reproduce, summary
from ..statistics import FEWEST
from .charts import LOSS, curves, differences, metric_axis, quality
from .result import Comparison
from .tables import comparison_tables
from .verdict import compare_verdict


def compare_page(result: Comparison) -> str:
    """The whole page: tables, curves, quality against cost, diagrams, what was matched, how to reproduce."""
    main, *tests, losses, matched, runs = map(to_html, comparison_tables(result))
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        verdict_to_html(compare_verdict(result)),
        summary(result, {"scheme": len(result.rows), "seed": len(result.seeds), "run": len(result.trials)}),
        main,
        *tests,
        *loss_curves(result),
        *([*loss_differences(result), losses] if len(result.rows) > 1 else []),
        *against_cost(result),
        *pictures(result),
        matched,
        runs,
        *reproduce(result, "splitstep.studies.compare.compare(...)"),
    ]
    return page(title, body)


BAND = "The line is the mean over seeds; the band is from the least to the greatest."


def loss_curves(result: Comparison) -> list[str]:
    charts = [curves(result, "valid_loss", "Validation loss", LOSS, "chart-valid")]
    if any(trial.valid_metric.steps for trial in result.trials):  # translators may be scored at the end only
        title = f"Validation {title_of(result.metric)}"
        charts.append(curves(result, "valid_metric", title, metric_axis(result), "chart-metric"))
    return [
        chart_to_html(curves(result, "train_loss", "Training loss", LOSS, "chart-train")),
        f'<p class="soft">{BAND if len(result.seeds) > 1 else "One seed."}</p>',
        side_by_side([chart_to_html(one) for one in charts]),
    ]


def loss_differences(result: Comparison) -> list[str]:
    """When a scheme is ahead of the first: the curves themselves are often too close to show it."""
    first = shortened(result.rows[0].name)
    few = len(result.seeds) < FEWEST
    how = "too few seeds for an interval" if few else "the band is the 95% interval of the mean over seeds"
    charted = [
        differences(result, column, f"{title} loss, difference to {first}", f"chart-{title.lower()}-difference")
        for title, column in (("Training", "train_loss"), ("Validation", "valid_loss"))
    ]
    said = f'<p class="soft">Seed by seed; below zero is better; {how}.</p>'
    return [side_by_side([chart_to_html(one) for one in charted]), said]


def against_cost(result: Comparison) -> list[str]:
    charts = [
        quality(result, "parameters", "parameters", "chart-parameters"),
        quality(result, "flops", "FLOPs per token", "chart-flops"),
    ]
    return [
        "<h2>Quality against cost</h2>",
        '<p class="soft">The test figure with its 95% interval, each at its counted cost.</p>',
        side_by_side([chart_to_html(one) for one in charts]),
    ]


def pictures(result: Comparison) -> list[str]:
    names = {row.scheme: row.name for row in reversed(result.rows)}  # arms may share a scheme
    return [
        "<h2>The schemes</h2>",
        '<p class="soft">One step from left to right. A is attention, F feed-forward. The number below a box is its '
        "fraction of the step; dots above it are the stages of its tableau; dashed boxes are projections. F0 and F1 "
        "have weights of their own; two boxes F share theirs.</p>",
        diagrams((name, scheme(notation)) for notation, name in reversed(names.items())),
    ]

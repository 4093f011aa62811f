"""The page of a comparison."""

from __future__ import annotations

from html import escape

from ...notation import shortened
from ...report.charts import axis_title, chart, plotly_script
from ...report.diagram import draw
from ...report.page import page, pairs, side_by_side
from ...report.tables import to_html
from ...report.verdict import verdict_to_html
from ...schemes import scheme
from ...support.words import counted
from ...tasks.task import title_of
from .charts import curves, differences, metric_axis, quality
from .result import Comparison
from .tables import comparison_tables
from .verdict import compare_verdict


def compare_page(result: Comparison) -> str:
    """The whole page: tables, curves, quality against cost, diagrams, what was matched, how to reproduce."""
    script = plotly_script()
    main, *tests, losses, matched, runs = map(to_html, comparison_tables(result))
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        verdict_to_html(compare_verdict(result)),
        f'<p class="soft">{escape(summary(result))}</p>',
        main,
        *tests,
        *loss_curves(result),
        *([*loss_differences(result), losses] if len(result.rows) > 1 else []),
        *against_cost(result),
        *diagrams(result),
        matched,
        runs,
        *reproduce(result),
    ]
    return page(title, body, [script])


def summary(result: Comparison) -> str:
    rows, seeds, runs = len(result.rows), len(result.seeds), len(result.trials)
    counts = ", ".join([counted(rows, "scheme"), counted(seeds, "seed"), counted(runs, "run")])
    return f"{counts} on {', '.join(result.devices)}; {result.date}."


def loss_curves(result: Comparison) -> list[str]:
    what = "The line is the mean over seeds; the band is from the least to the greatest."
    axis = {"title": axis_title("loss")}
    held_out = [chart("Validation loss", curves(result, "valid_loss", axis), "chart-valid")]
    if any(trial.valid_metric.steps for trial in result.trials):  # translators may be scored at the end only
        metric = curves(result, "valid_metric", metric_axis(result))
        held_out.append(chart(f"Validation {title_of(result.metric)}", metric, "chart-metric"))
    return [
        chart("Training loss", curves(result, "train_loss", axis), "chart-train"),
        f'<p class="soft">{what if len(result.seeds) > 1 else "One seed."}</p>',
        side_by_side(held_out),
    ]


def loss_differences(result: Comparison) -> list[str]:
    """When a scheme is ahead of the first: the curves themselves are often too close to show it."""
    first = shortened(result.rows[0].name)
    how = "the band is the 95% interval of the mean over seeds" if len(result.seeds) > 1 else "one seed"
    charted = [
        chart(f"{title} loss, difference to {first}", differences(result, column), f"chart-{title.lower()}-difference")
        for title, column in (("Training", "train_loss"), ("Validation", "valid_loss"))
    ]
    return [side_by_side(charted), f'<p class="soft">Seed by seed; below zero is better; {how}.</p>']


def against_cost(result: Comparison) -> list[str]:
    parameters = chart("", quality(result, "parameters", "parameters"), "chart-parameters")
    flops = chart("", quality(result, "flops", "FLOPs per token"), "chart-flops")
    return [
        "<h2>Quality against cost</h2>",
        '<p class="soft">The test figure with its 95% interval; points of equal cost are drawn side by side.</p>',
        side_by_side([parameters, flops]),
    ]


def diagrams(result: Comparison) -> list[str]:
    figures = []
    for row in result.rows:
        order = "no order" if row.order is None else f"order {row.order}"
        notation = "" if row.name == row.scheme else f"<code>{escape(shortened(row.scheme))}</code> "
        caption = (
            f"<b>{escape(shortened(row.name))}</b> {notation}&middot; {row.evaluations} evaluations per step, {order}"
        )
        figures.append(f"<figure><figcaption>{caption}</figcaption>{draw(scheme(row.scheme))}</figure>")
    return [
        "<h2>The schemes</h2>",
        '<p class="soft">One step from left to right. A is attention, F feed-forward. The number below a box is its '
        "fraction of the step; dots above it are the stages of its tableau; dashed boxes are projections. F0 and F1 "
        "have weights of their own; two boxes F share theirs.</p>",
        f'<div class="row">{"".join(figures)}</div>',
    ]


def reproduce(result: Comparison) -> list[str]:
    import yaml

    known = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    data = {name: value for name, value in result.data.items() if name != "sha256"}
    return [
        "<h2>How to reproduce</h2>",
        f"<pre>{escape(result.command or 'splitstep.studies.compare.compare(...) with the recipe below')}</pre>",
        pairs(
            [
                ("commit", result.commit or "unknown"),
                ("versions", known),
                ("devices", ", ".join(result.devices)),
                ("engine", f"{result.engine}, {counted(result.threads, 'thread')} per run"),
                ("date", result.date),
            ]
        ),
        "<p>The recipe, with all defaults written out:</p>",
        f"<pre>{escape(yaml.safe_dump(result.recipe, sort_keys=False))}</pre>",
        "<p>The data, as the task read it; hashes are in result.json:</p>",
        f"<pre>{escape(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100))}</pre>",
    ]

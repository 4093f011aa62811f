"""What a comparison says: tables, curves, quality against cost, diagrams, what was matched, how to reproduce it."""

from __future__ import annotations

from ...experiments.sections import pictures, reproduce, summary
from ...experiments.statistics import FEWEST
from ...notation import shortened
from ...report.document import Beside, Document, Heading, Note, Part
from ...tasks.measures import title_of
from .charts import LOSS, curves, differences, metric_axis, quality
from .result import Comparison
from .tables import comparison_tables
from .verdict import compare_verdict

BAND = "The line is the mean over seeds; the band is from the least to the greatest."
DIAGRAMS = (
    "One step from left to right. A is attention, F feed-forward. The number below a box is its fraction of the step; "
    "dots above it are the stages of its tableau; dashed boxes are projections. F0 and F1 have weights of their own; "
    "two boxes F share theirs."
)


def document(result: Comparison) -> Document:
    """The whole document."""
    main, *tests, losses, matched, runs = comparison_tables(result)
    parts = [
        summary(result, {"scheme": len(result.rows), "seed": len(result.seeds), "run": len(result.trials)}),
        main,
        *tests,
        *loss_curves(result),
        *([*loss_differences(result), losses] if len(result.rows) > 1 else []),
        *against_cost(result),
        *pictures(((row.name, row.scheme) for row in result.rows), DIAGRAMS),
        matched,
        runs,
        *reproduce(result, "splitstep.studies.compare.compare(...)"),
    ]
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    return Document(title, parts, compare_verdict(result))


def loss_curves(result: Comparison) -> list[Part]:
    """Losses in training and validation, and the validation metric if it was followed."""
    charts = [curves(result, "valid_loss", "Validation loss", LOSS, "chart-valid")]
    if any(trial.valid_metric.steps for trial in result.trials):  # translators may be scored at the end only
        title = f"Validation {title_of(result.metric)}"
        charts.append(curves(result, "valid_metric", title, metric_axis(result), "chart-metric"))
    return [
        curves(result, "train_loss", "Training loss", LOSS, "chart-train"),
        Note(BAND if len(result.seeds) > 1 else "One seed."),
        Beside(charts),
    ]


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


def against_cost(result: Comparison) -> list[Part]:
    """Quality against each counted cost."""
    charts = [
        quality(result, "parameters", "parameters", "chart-parameters"),
        quality(result, "flops", "FLOPs per token", "chart-flops"),
    ]
    note = Note("The test figure with its 95% interval, each at its counted cost.")
    return [Heading("Quality against cost"), note, Beside(charts)]

"""Schemes and runs in words, for tables and pages."""

from __future__ import annotations

from ...models.cost import span
from ...schemes import scheme
from ...shape import feed_forwards
from ...tasks import Metric
from ...training.result import Kept, Shape


def kept_text(kept: Kept | None, best_step: int | None, steps: int) -> str:
    """Which weights a run ended with; older documents hold only the best step."""
    if kept is None or kept.by == "best":
        by = f", the best by {kept.figure.replace('_', ' ')}" if kept and kept.figure else ""
        return "-" if best_step is None else f"{best_step:,} of {steps:,}{by}"
    steps_kept = kept.steps
    return f"the mean of {len(steps_kept)}, steps {steps_kept[0]:,} to {steps_kept[-1]:,}" if steps_kept else "-"


def difference_text(metric: Metric, size: float, unit: str = " points") -> str:
    """A difference of a metric; of percentages it is in points, since a per cent of them would be something else."""
    text = metric.format.format(size)
    return f"{text[:-1]}{unit}" if text.endswith("%") else text


def widths(notation: str, shape: Shape) -> str:
    """The feed-forward widths, half by half: "F 256" or "F0 128, F1 128"."""
    names = feed_forwards(scheme(notation))
    ffn = shape.ffn
    lists = [ffn[i :: len(names)] if isinstance(ffn, list) else [ffn] for i in range(len(names))]
    return ", ".join(f"{name} {span(found)}" for name, found in zip(names, lists, strict=True)) or "none"

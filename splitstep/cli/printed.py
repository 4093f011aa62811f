"""What is printed of results that are not those of studies: of runs, evaluations, lines and listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..inference.evaluate import Figures
    from ..tasks.measures import Metric
    from ..training.result import Divergence, RunResult, SplitResult


def figures_table(result: Figures) -> RenderableType:
    """The figures of an evaluation, the scores of text with their signatures."""
    from ..support.words import counted

    named = result.translated.scores if result.translated else ()
    scored = {one.key for one in named}
    lines = f", {counted(result.translated.lines, 'line')}" if result.translated else ""
    rows = [("split", f"{result.split}{lines}")]
    rows += [(k.replace("_", " "), f"{v:,.6g}") for k, v in result.figures.items() if k not in scored]
    remark = {True: "", False: "  (not comparable: the references are not published text)"}
    rows += [(one.name, f"{one.value:.2f}  {one.signature}{remark[one.comparable]}") for one in named]
    return pairs(rows)


def run_table(result: RunResult, out: Path) -> RenderableType:
    from ..schemes import label
    from ..studies.compare.tables import kept_text, widths
    from ..support.words import counted
    from ..tasks.measures import title_of

    metric, cost, shape, diverged = result.metric, result.cost, result.shape, result.diverged
    name, notation = label(result.scheme.notation), result.scheme.notation
    scheme = name + ("" if name == notation else f", {notation}")
    rate, splits = result.tokens_per_second, result.splits or {}

    def figure(values: Mapping[str, float] | None) -> str:
        return metric.format.format(values[metric.name]) if values else "-"

    rows = [
        ("status", status(diverged)),
        ("kind", f"{result.kind}, its layers read as {notation}") if result.kind else ("scheme", scheme),
        (title_of(metric), f"test {figure(result.test)}, valid {figure(result.valid)}"),
        *((f"  {split}", f"{figure(one.figures)}; {scores(one, metric)}") for split, one in splits.items()),
        ("weights", kept_text(result.kept, result.best_step, result.steps)),
        ("parameters", f"{cost.parameters:,} ({cost.body:,} without embeddings and head)"),
        ("FLOPs per token", f"{cost.flops:,} at length {cost.length:,}"),
        ("shape", f"{counted(shape.layers, 'layer')}, width {shape.width}, ffn {widths(notation, shape)}"),
        *made(result),
        *([("start", result.start.path)] if result.start else []),
        ("time", f"{result.seconds:,.1f} s" + (f", {rate:,.0f} tokens/s" if rate else "")),
        ("device", f"{result.device}, {result.precision}, {result.mode}"),
        ("model", str(out / "model") if not diverged else "none"),
    ]
    return pairs(rows)


def status(diverged: Divergence | None) -> str:
    if diverged is None:
        return "finished"
    return f"diverged at step {diverged.step}, loss {diverged.loss}{diverged.reason and f'; {diverged.reason}'}"


def scores(found: SplitResult, metric: Metric) -> str:
    """The scores of one split that are not the metric, under their names."""
    return ", ".join(f"{one.name} {one.value:.2f}" for one in found.scores if one.key != metric.name)


def made(result: RunResult) -> list[tuple[str, str]]:
    """What a network of a scheme was matched to, and what a run learnt from if not from its task alone."""
    from ..recipe import objective_text

    recipe, objective = result.recipe, objective_text(result.recipe.get("objective", "task"))
    rows = [("matched", matched(result))] if recipe.get("network", "scheme") == "scheme" else []
    return rows + ([("objective", objective)] if objective != "task" else [])


def matched(result: RunResult) -> str:
    """What the model's cost was matched to, in one line."""
    from ..schemes import label

    if result.matched is None:
        return "the reference itself" if result.recipe["scheme"] == result.recipe["reference"] else "nothing"
    return f"{result.matched.by} of {label(result.matched.reference)}, difference {result.matched.difference:+.3%}"


def pairs(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Two columns, names and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # nothing is cut on a narrow terminal
    for row in rows:
        table.add_row(*map(Text, row))
    return table

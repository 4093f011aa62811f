"""What doors return that no study wrote and that has a document: runs, figures on a split, listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report.charts import Line, LineChart
from ..report.document import Document, Verdict
from ..report.result import Report
from ..report.tables import EVERYWHERE, Pairs, Table
from ..schemes import label
from ..support.words import counted
from ..tasks.measures import Metric, title_of

if TYPE_CHECKING:
    from ..approximation import Built
    from ..approximation.certificate import Certificate
    from ..approximation.targets import Array
    from ..inference.evaluate import Figures
    from ..models.vectors import SplitstepVectorsModel
    from ..studies.approximate import Approximation
    from ..training.directory import RunDirectory
    from ..training.result import RunResult, SplitResult

NOT_COMPARABLE = "  (not comparable: the references are not published text)"
Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Trained(Report):
    """A run that is over: its folder and its result."""

    folder: Path
    result: RunResult

    @property
    def directory(self) -> RunDirectory:
        """The run's files."""
        from ..training.directory import RunDirectory

        return RunDirectory(self.folder)

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return self.result.document()

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The figures that were logged, step by step."""
        return self.directory.logged()

    def document(self) -> Document:
        """What the run ended with, and its losses."""
        from ..experiments.sections import LOSS, STEP
        from ..experiments.trials import read_curves

        curves = read_curves(self.directory, self.result.metric.name, self.directory.recipe().train)
        lines = [
            Line(name, *curves[f"{split}_loss"]) for name, split in (("training", "train"), ("validation", "valid"))
        ]
        rows, result = Pairs(run_rows(self.result, self.folder), EVERYWHERE), self.result
        figures, split = (result.test, "test") if result.test else (result.valid, "validation")
        said = measured(result.task, result.metric, figures, split)
        if result.diverged is not None:
            said = Verdict("settled", f"The run of {result.task} {ending(result)}: there is no model.")
        return Document(f"Run in {self.folder}", [rows, LineChart("Loss", STEP, LOSS, lines)], said)


def measured(task: str, metric: Metric, figures: Mapping[str, float] | None, split: str) -> Verdict:
    """A task's metric on a split, in one sentence."""
    return Verdict("settled", f"{task}: {title_of(metric)} {figure(metric, figures)} on {split}.")


def ending(result: RunResult) -> str:
    """How the run ended, in a few words."""
    if result.diverged is None:
        return "finished"
    reason = result.diverged.reason and f"; {result.diverged.reason}"
    return f"diverged at step {result.diverged.step}, loss {result.diverged.loss}{reason}"


def figure(metric: Metric, values: Mapping[str, float] | None) -> str:
    """The metric among figures, as it is written."""
    return metric.format.format(values[metric.name]) if values else "-"


def run_rows(result: RunResult, out: Path) -> Rows:
    """What a run ended with, entry by entry."""
    from ..studies.compare.tables import kept_text, widths

    metric, cost, shape, rate = result.metric, result.cost, result.shape, result.tokens_per_second
    found = f"test {figure(metric, result.test)}, valid {figure(metric, result.valid)}"
    return [
        ("status", ending(result)),
        network_row(result),
        (title_of(metric), found),
        *((f"  {split}", scores(one, metric)) for split, one in (result.splits or {}).items()),
        ("weights", kept_text(result.kept, result.best_step, result.steps)),
        ("parameters", f"{cost.parameters:,} ({cost.body:,} without embeddings and head)"),
        ("FLOPs per token", f"{cost.flops:,} at length {cost.length:,}"),
        (
            "shape",
            f"{counted(shape.layers, 'layer')}, width {shape.width}, ffn {widths(result.scheme.notation, shape)}",
        ),
        *origins(result),
        *([("start", result.start.path)] if result.start else []),
        ("time", f"{result.seconds:,.1f} s" + (f", {rate:,.0f} tokens/s" if rate else "")),
        ("device", f"{result.device}, {result.precision}, {result.mode}"),
        ("model", "none" if result.diverged else str(out / "model")),
    ]


def network_row(result: RunResult) -> tuple[str, str]:
    """What was trained: a scheme, a pretrained model with the scheme that its layers are read as, or a network that
    others designed, by its name."""
    name, notation = result.scheme
    if not notation:
        return "network", str(name)
    if result.kind:
        return "kind", f"{result.kind}, its layers read as {notation}"
    known = label(notation)
    return "scheme", known + ("" if known == notation else f", {notation}")


def scores(found: SplitResult, metric: Metric) -> str:
    """The scores of one split, the metric first and the others under their names."""
    others = ", ".join(f"{one.name} {one.value:.2f}" for one in found.scores if one.key != metric.name)
    return f"{figure(metric, found.figures)}; {others}"


def origins(result: RunResult) -> Rows:
    """What a network of a scheme was matched to, and what a run learnt from if not from its task alone."""
    from ..recipe import objective_text

    recipe, objective = result.recipe, objective_text(result.recipe.get("objective", "task"))
    matched = "the reference itself" if recipe["scheme"] == recipe["reference"] else "nothing"
    if result.matched is not None:
        by, reference = result.matched.by, label(result.matched.reference)
        matched = f"{by} of {reference}, difference {result.matched.difference:+.3%}"
    rows = [("matched", matched)] if recipe.get("network", "scheme") == "scheme" else []
    return rows + ([("objective", objective)] if objective != "task" else [])


@dataclass(frozen=True)
class Evaluation(Report):
    """The figures of a model on a split."""

    result: Figures

    @property
    def figures(self) -> dict[str, float]:
        """The figures by name."""
        return self.result.figures

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return self.result.json()

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row."""
        return [{"model": self.result.model, "task": self.result.task, "split": self.result.split, **self.figures}]

    def document(self) -> Document:
        """The figures, and the scores of text with their signatures."""
        named = self.result.translated.scores if self.result.translated else ()
        lines = f", {counted(self.result.translated.lines, 'line')}" if self.result.translated else ""
        scored = {one.key for one in named}
        rows = [("split", f"{self.result.split}{lines}")]
        rows += [(k.replace("_", " "), f"{v:,.6g}") for k, v in self.figures.items() if k not in scored]
        remark = {True: "", False: NOT_COMPARABLE}
        rows += [(one.name, f"{one.value:.2f}  {one.signature}{remark[one.comparable]}") for one in named]
        said = measured(self.result.task, Metric(**self.result.metric), self.figures, self.result.split)
        return Document(f"{self.result.model} on {self.result.split}", [Pairs(rows, EVERYWHERE)], said)


@dataclass(frozen=True)
class Listing(Report):
    """Entries of one kind, and their table."""

    kind: str
    entries: Sequence[Any]
    table: Table

    def json(self) -> dict[str, Any]:
        """The listing as JSON values."""
        return {self.kind: self.entries}

    def document(self) -> Document:
        """The table."""
        return Document(self.kind.capitalize(), [self.table])


@dataclass(frozen=True)
class Construction(Report):
    """A network that was built for a function, and what the study says of it; it is a function itself."""

    result: Approximation
    built: Built

    @property
    def model(self) -> SplitstepVectorsModel:
        """The network."""
        return self.built.model

    @property
    def certificate(self) -> Certificate:
        """What is proved about its error."""
        return self.built.certificate

    def __call__(self, x: Any) -> Array:
        """The network's map, (..., n, d) -> (..., n, d)."""
        return self.built(x)

    def json(self) -> dict[str, Any]:
        """The study's result as JSON values."""
        return self.result.json()

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each eps."""
        return self.result.records()

    def document(self) -> Document:
        """What the study says."""
        return self.result.document()

"""The result of a run: a typed record, written as JSON and read back as it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..models.cost import Cost
from ..support.provenance import Provenance
from ..support.typed import Figure, Inlined, plain
from ..support.words import counted
from ..tasks import Metric
from ..tasks.pairs.scores import Score

Figures = dict[str, Figure]


class SchemeName(NamedTuple):
    """A scheme: its row's name, if it has one, and its notation."""

    name: str | None
    notation: str


class Shape(NamedTuple):
    """The shape of a network, as tables print it."""

    layers: int
    width: int
    ffn: int | list[int]
    step: float


class Kept(NamedTuple):
    """Which weights a run ended with: the best by a figure on validation, or the mean over several steps."""

    by: Literal["best", "average"]
    steps: list[int]
    figure: str | None = None


class Matched(NamedTuple):
    """What an equal-cost twin was matched to, both costs, and their relative difference."""

    by: Literal["parameters", "flops"]
    reference: str
    reference_cost: Cost
    cost: Cost
    difference: float


class SplitResult(NamedTuple):
    """What a model wrote for a split: how many lines, their figures, and each score in full."""

    lines: int
    figures: Figures
    scores: tuple[Score, ...]


class Divergence(NamedTuple):
    """Where a run diverged: `layer` is the first whose output is not finite, else the one in which states grow most.
    The norms are those of the states after the embedding and each layer, and of each layer's weights."""

    step: int
    loss: Figure
    gradient_norm: Figure = float("nan")
    layer: int | Literal["embedding"] = "embedding"
    state_norms: tuple[Figure, ...] = ()
    weight_norms: tuple[Figure, ...] = ()
    reason: str = ""  # if it is another than the loss or the gradient


class Start(NamedTuple):
    """What a run started from: a model's folder or run as the recipe names it, the sha256 of its weights, how many of
    them were loaded, and the names of the weights that are new and of those that were not used."""

    path: str
    sha256: str
    loaded: int
    new: list[str]
    left: list[str]

    def summary(self) -> str:
        """Which weights were loaded, in one line."""
        counts = {"new": self.new, "left": self.left}
        names = "".join(f"; {word}: {listed(found)}" for word, found in counts.items() if found)
        return f"starts from {self.path}: {counted(self.loaded, 'tensor')} loaded{names}"


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended, its figures and its cost: what its own result and a comparison's both hold."""

    status: Literal["finished", "diverged"]
    seed: int
    best_step: int | None
    valid: Figures | None
    steps: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    cost: Cost
    matched: Matched | None
    shape: Shape
    device: str
    precision: str
    mode: str
    commit: str | None
    kept: Kept | None = None  # from here on: what older runs, or runs that ended otherwise, do not have
    test: Figures | None = None
    splits: dict[str, SplitResult] | None = None  # scores of what the model wrote for each split
    diverged: Divergence | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult(RunOutcome):
    """What is known of a run that is over, however it ended."""

    task: str
    scheme: SchemeName
    metric: Metric
    made: Inlined[Provenance]
    processes: int = 1
    parallel: str = "none"
    start: Start | None = None
    kind: str | None = None  # the class of a model that is not of this package; its scheme is how its layers are read

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's document."""
        return self.made.recipe or {}

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return plain(self)


def listed(names: list[str], most: int = 4) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

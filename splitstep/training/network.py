"""Networks: how the model of a run is made, and what is told about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..models.cost import Cost
from ..support.registry import Registry
from ..tasks import Batch, Task
from .run_result import Matched, RunResult, SchemeName, Shape, Start

if TYPE_CHECKING:
    from .directory import RunDirectory
    from .recipe import Recipe


class About(NamedTuple):
    """What a result says of a network."""

    scheme: SchemeName
    cost: Cost
    matched: Matched | None
    shape: Shape


class Norms(NamedTuple):
    """The norms of the states after the embedding and each layer, and of each layer's weights."""

    states: list[float]
    weights: list[float]


class Network(ABC):
    """A way to make the model that a run trains. A recipe names it with `network:`."""

    @abstractmethod
    def check(self, kind: str, recipe: Mapping[str, Any], where: str) -> None:
        """Refuse a recipe's document whose `model` section, or start, is wrong for every task of this kind."""

    @abstractmethod
    def build(self, recipe: Recipe, task: Task, room: float) -> Any:
        """The model; refused if training it takes more than `room` bytes."""

    @abstractmethod
    def load_start(self, model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
        """Load the weights that the recipe names into the model, unless a checkpoint is about to be loaded."""

    @abstractmethod
    def kind(self, model: Any) -> str | None:
        """The class of a model that is not of this package; None for those that are, which have a scheme."""

    @abstractmethod
    def about(self, model: Any, task: Task) -> About:
        """What the run's result says of the model."""

    @abstractmethod
    def norms(self, model: Any, batch: Batch, seed: Any) -> Norms:
        """How large everything is in a pass of this batch, for the result of a run that diverged."""

    @abstractmethod
    def card(self, result: RunResult, model: Any, task: Task, folder: Path) -> str:
        """The README.md of the saved model, which is in this folder."""


NETWORKS: Registry[Network] = Registry(
    "network",
    paths={
        "scheme": "splitstep.training.scheme_network:SCHEME",
        "pretrained": "splitstep.opening.network:PRETRAINED",
    },
)

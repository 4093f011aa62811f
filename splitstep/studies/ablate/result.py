"""The result of an ablation: its arms, what was measured in them, and its runs; written as JSON and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...experiments.arms import FULL
from ...experiments.claims import Answer
from ...experiments.result import Result
from ...experiments.statistics import Estimate
from ...experiments.trials import Trial
from ...schemes import scheme
from ...support.provenance import Provenance
from ...support.typed import Figure, Inlined
from ...tasks.measures import Metric
from ...training.result import Divergence


class Series(NamedTuple):
    """A figure of each layer along training: the mean over the seeds that have it, `values[record][layer]`."""

    steps: tuple[int, ...]
    values: tuple[tuple[Figure, ...], ...]


class Lost(NamedTuple):
    """A run that diverged."""

    seed: int
    found: Divergence


@dataclass(frozen=True)
class Outcome:
    """An arm at one learning rate, over all seeds. Figures are of the last record in training; `profiles` hold one for
    each layer, by name, and `maps` the means of one for each layer and head."""

    rate: float
    finished: int
    lost: tuple[Lost, ...]
    test: Estimate | None
    valid: Estimate | None
    difference: Estimate | None  # to the full arm at this outcome's kind of rate, of the test metric, seed by seed
    drift: Estimate | None = None  # cos(u_L, u_0)
    growth: Estimate | None = None  # of the gradient per layer, at its largest
    not_finite: int = 0  # seeds that end with a loss or a gradient that is not finite
    alignment: Estimate | None = None  # CKA with the full arm minus CKA of two seeds of it
    profiles: dict[str, tuple[Estimate | None, ...]] = field(default_factory=dict)
    maps: dict[str, tuple[tuple[Figure, ...], ...]] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)


@dataclass(frozen=True)
class ArmResult:
    """An arm at its own best rate, which decides, and at the full arm's rate."""

    name: str
    scheme: str
    assignments: dict[str, Any]
    own: Outcome
    shared: Outcome


@dataclass(frozen=True)
class Replayed:
    """The trained full network without some of its structure, with the same weights: what is left of it."""

    name: str
    test: Estimate | None
    difference: Estimate | None  # to the network itself, seed by seed
    cosine: tuple[Estimate | None, ...]  # with the network itself, layer by layer
    cka: tuple[Estimate | None, ...]


class Claim(NamedTuple):
    """One of the paper's claims, and what the figures say about it: at the arms' own rates, and at the full arm's."""

    name: str
    text: str
    ruling: Answer
    number: str
    at_shared_rate: Answer
    number_at_shared_rate: str


@dataclass(frozen=True)
class Ablation(Result):
    """The result of the study; the full arm is the first, and differences are to it."""

    study = "ablate"

    task: str
    metric: Metric
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    arms: tuple[ArmResult, ...]
    claims: tuple[Claim, ...]
    replay: tuple[Replayed, ...]
    trials: tuple[Trial, ...]
    made: Inlined[Provenance]

    def __post_init__(self) -> None:
        if not self.arms or self.arms[0].name != FULL:
            raise ValueError(f'its first arm is not "{FULL}"')
        for arm in self.arms:
            scheme(arm.scheme)

    @property
    def full(self) -> ArmResult:
        return self.arms[0]

    @property
    def by_name(self) -> Mapping[str, ArmResult]:
        return {arm.name: arm for arm in self.arms}

"""How arms are compared: at which budgets, rates and looks, and by which margin. A part of the result."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ...experiments.experiment import rate_of
from ...experiments.looks import Looks
from ...experiments.trials import Trial
from ...experiments.tuning import Losses
from ...tasks.measures import BITS_PER_BYTE, PERPLEXITY, Metric

TUNING = 10_000  # how far seeds for tuning are from those of the verdict
NATS = Metric("loss", False, "{:.3f}", "loss in nats", 0.0)
AT = (4, 6, 8, 10, 12)  # numbers of seeds at which a comparison looks, until it is decided
MOST_SEEDS = 40  # that a time is filled with, if the text is used up


@dataclass(frozen=True)
class Design:
    """`budgets`: multiples of the recipe's steps; the verdict is about the last. `rates`: learning rates to try for
    each arm. `null`: the first arm is trained twice. `until_decided`: seeds are added until each arm is decided.
    `margin`: a difference that does not matter, in the unit of the metric."""

    budgets: tuple[float, ...] = (1.0,)
    rates: tuple[float, ...] = ()
    null: bool = False
    until_decided: bool = False
    margin: float | None = None

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in pairwise(self.budgets))
        if not self.budgets or not rising or not all(0 < value < math.inf for value in self.budgets):
            given = ",".join(f"{value:g}" for value in self.budgets)
            raise ValueError(f"--budgets {given}: give numbers that increase from above 0, such as 1,3,9")
        if not all(0 < rate < math.inf for rate in self.rates) or len(set(self.rates)) != len(self.rates):
            raise ValueError(f"rates {list(self.rates)} must be positive and different: write such as 1e-3,3e-3")
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise ValueError(f"--margin {self.margin:g} is not positive: give a difference that does not matter")

    @property
    def largest(self) -> float:
        """The budget that the verdict is about."""
        return self.budgets[-1]


def counted(trials: Iterable[Trial], budget: float) -> list[Trial]:
    """The trials of one budget that are compared: without those that chose rates or show the noise."""
    return [one for one in trials if not one.role and one.budget == budget]


def looks_of(design: Design, seeds: int, many: int) -> Looks:
    """At how many seeds so many arms are compared with the first: at several, or once at all of them."""
    return Looks(AT if design.until_decided else (seeds,), many)


def compared_metric(metric: Metric) -> Metric:
    """What arms are compared by: of language models the loss in nats per token, else the task's metric."""
    return NATS if metric in (BITS_PER_BYTE, PERPLEXITY) else metric


def losses_of(trials: Iterable[Trial], budget: float) -> Losses:
    """The validation loss of each arm at each rate that was tried at a budget; infinite if the run diverged."""
    own = [one for one in trials if one.role == "tune" and one.budget == budget]
    return {(one.arm, rate_of(one.setting)): float((one.valid or {}).get("loss", math.inf)) for one in own}

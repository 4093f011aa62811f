"""How long runs take here: short runs of every arm, as many at once as later, and what follows for all others."""

import heapq
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ...options import TrainOptions, evaluation_steps
from ...recipe import Recipe
from ...support.typed import Figure
from .design import compared_metric

SHORT, LONG = 10, 30  # steps of the two runs that are timed


class Pace(NamedTuple):
    """Seconds that a run takes on a worker beside the others: for what happens once, an update and an evaluation; the
    bytes that it leaves on the disk, and the cost of its network."""

    once: float
    step: float
    evaluation: float
    bytes: int
    tokens: int  # of an update
    parameters: int
    flops: int  # per token, counted
    figure: Figure  # of the comparison's metric on validation, after the longer run; NaN if that was left out

    def seconds(self, options: TrainOptions) -> float:
        """How long a run with these options takes."""
        evaluations = -(-options.steps // evaluation_steps(options))
        return self.once + options.steps * self.step + evaluations * self.evaluation

    @property
    def short(self) -> float:
        """How long the two short runs take."""
        both = SHORT + LONG
        return 2 * self.once + both * self.step + both // SHORT * self.evaluation

    def scaled(self, factor: float) -> "Pace":
        """The pace of a network with other FLOPs."""
        return self._replace(step=self.step * factor, evaluation=self.evaluation * factor)

    def summary(self) -> str:
        """It in a few words."""
        return f"{1000 * self.step:,.0f} ms an update"


def pace_of(recipe: Recipe, data: Path | None, share: float | None = None) -> Pace:
    """The pace of a recipe on this worker, by two short runs. Both evaluate every `SHORT` steps. The longer one is left
    out if both would take more than a `share` of the time, in seconds; all but the updates then counts once."""
    from ...training import train

    recipe.load_task(data)  # what happens once in a process is no part of a run
    with TemporaryDirectory() as folder:
        walls, results = list[float](), []
        for steps in (SHORT, LONG):
            begun, out = time.monotonic(), Path(folder) / str(steps)
            results.append(train(shortened(recipe, steps), out, data, quiet=True))
            walls.append(time.monotonic() - begun)
            if share is not None and walls[0] * (SHORT + LONG) / SHORT > share:
                break
        size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    result = results[-1]
    tokens = result.tokens // result.steps
    step = tokens / result.tokens_per_second if result.tokens_per_second else walls[-1] / result.steps
    more = result.steps // SHORT - 1  # evaluations of the longer run
    evaluation = max(0.0, (walls[-1] - walls[0] - (result.steps - SHORT) * step) / more) if more else 0.0
    once = max(0.0, walls[-1] - result.steps * step - (more + 1) * evaluation)
    figure = (result.valid or {}).get(compared_metric(result.metric).name, math.nan) if more else math.nan
    return Pace(once, step, evaluation, size, tokens, result.cost.parameters, result.cost.flops, float(figure))


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """The recipe of a short run."""
    train = replace(recipe.train, steps=steps, evaluate_every=SHORT, keep="best", average_every=0, log_every=SHORT)
    return replace(recipe, train=train, probes=())


def makespan(seconds: Iterable[float], workers: int) -> float:
    """How long runs take on so many workers, each of which takes the longest that is left."""
    busy = [0.0] * workers
    for one in sorted(seconds, reverse=True):
        heapq.heapreplace(busy, busy[0] + one)
    return max(busy)

"""A run in memory: learner, optimizer and progress, saved to its directory and restored from it."""

import time
from collections.abc import Mapping
from functools import cached_property
from math import fsum, inf, isfinite, log
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from ..models import SplitstepModel
from ..options import snapshot_steps
from ..recipe import NETWORKS, OBJECTIVES, Recipe, objective_options
from ..support.typed import read_as
from ..support.words import counted
from ..tasks import Task
from .checkpoint import CheckpointReader, generators, learned, prune, restore, save_checkpoint, set_generators, share
from .directory import RunDirectory
from .networks import Network, beyond_diffusion_limit
from .objective import EXAMPLES, BatchSource, Factory, Learner, UpdateBatch, dropout_seed, first_examples, work_for
from .processes import Clock, Processes, Times
from .update import Captured, choose_mode, choose_precision, make_optimizer, make_update
from .weights import LocalShard, choose_parallel, gathered, pieces, spread

EXPLODED = 3.0  # how far the loss may rise before a run has diverged


def highest_loss(first: float, task: Task) -> float:
    """The loss above which a run has diverged, by that of its first update. One that begins with a low loss, such as
    a run that starts from trained weights, has not diverged before it would have from a uniform guess."""
    outputs = task.shape.get("labels") or task.shape.get("vocab_size", 1)  # of a model of numbers: 1
    return EXPLODED * max(first, log(outputs)) + 1


class State(NamedTuple):
    """The progress of a run: what a checkpoint holds besides tensors."""

    step: int = 0
    tokens: int = 0
    losses: tuple[float, ...] = ()  # of the updates since the last record
    first_loss: float | None = None  # of the first update
    best: float | None = None
    best_step: int | None = None
    best_valid: dict[str, float] | None = None
    times: Times = Times()


class Diverged(Exception):
    """The loss or the gradient is not finite, the loss is far above what the run began with, or `reason` says what
    else."""

    def __init__(self, step: int, loss: float, gradient_norm: float, reason: str = "") -> None:
        super().__init__(reason or f"the loss is {loss} and the gradient's norm {gradient_norm} at step {step}")
        self.step, self.loss, self.gradient_norm, self.reason = step, loss, gradient_norm, reason


@final
class Run:
    """One training run; `fit` decides what it does after each step."""

    def __init__(self, recipe: Recipe, directory: RunDirectory, task: Task, world: Processes) -> None:
        self.recipe, self.directory, self.task, self.world = recipe, directory, task, world
        self.options = options = recipe.train
        check_share(options.batch, options.accumulate, world.size)
        mode = choose_mode(options.mode, world)
        self.precision = choose_precision(options.precision, world.device)
        self.parallel = choose_parallel(options.parallel, world)
        room = world.memory * (world.size if self.parallel == "fsdp" else 1)
        self.network: Network = NETWORKS.find(recipe.network_name)
        name, given = objective_options(recipe.objective)
        make: Factory = OBJECTIVES.find(name)
        self.model = self.network.build(recipe, task, room)
        self.kind = None if isinstance(self.model, SplitstepModel) else type(self.model).__name__  # before sharding
        self.start = self.network.load_start(self.model, recipe, task, directory)
        torch.manual_seed(options.seed)  # so an objective's own weights begin the same on each process
        objective = make(self.model, task, given)
        self.source = objective if isinstance(objective, BatchSource) else task
        learner = Learner(self.model, objective).train().to(device=world.device)
        shared = spread(learner, self.parallel, world)
        optimizer = make_optimizer(learner, options, world.device)
        update = make_update(learner, shared, optimizer, options, self.precision, mode, world)
        if isinstance(update, Captured) and options.mode == "auto" and self.kind is not None:
            update.is_eager = None  # a model of others may wait for the device
        self.update, self.chosen_mode = update, mode
        self.learned = learned(learner, optimizer)
        before = directory.extended_from()  # an extended run averages snapshots of its new steps only
        self.snapshots = tuple(step for step in snapshot_steps(options) if step > before)
        self.group = "sum" if self.snapshots else "best"  # the checkpoint's name for `kept`
        self.state, self.kept = State(), dict[str, Tensor]()  # kept: the best weights, or the sum of the snapshots
        self.pending: list[tuple[Tensor, Tensor]] = []  # losses and norms that are still on the device
        self.fault: Diverged | None = None
        self.shapes: set[Any] = set()
        self.seed()
        self.remark = restore(directory.checkpoints, self.load, world)
        world.on_first(self.tidy)
        self.clock, self.saved = Clock(self.state.times, world), time.monotonic()

    @property
    def mode(self) -> str:
        """The mode of its updates; "auto" may have found after the first that they cannot be captured."""
        return "eager" if isinstance(self.update, Captured) and self.update.is_eager else self.chosen_mode

    @cached_property
    def examples(self) -> dict[str, Tensor]:
        """The first examples of the validation split, which probes see."""
        found = first_examples(self.task, self.options.probe_batch or EXAMPLES)
        return {name: x.to(self.world.device) for name, x in found.items()}

    def seed(self) -> None:
        """Seed PyTorch's generators from the run's seed, step and process."""
        torch.manual_seed(int(dropout_seed(self.options.seed, self.state.step, self.world.rank, 0)))

    def work(self, step: int) -> UpdateBatch:
        return work_for(self.task, self.options, step, self.world, self.source)

    def advance(self, work: UpdateBatch, lr: float) -> None:
        """One update."""
        if work.shape in self.shapes:
            self.pending.append(self.update(work, lr))
            self.clock.count(work.tokens)
        else:
            self.shapes.add(work.shape)
            with self.clock.paused():
                self.pending.append(self.update(work, lr))
        self.state = self.state._replace(step=self.state.step + 1, tokens=self.state.tokens + work.tokens)

    def collect(self) -> None:
        """Fetch the newest losses from the device, summed over all processes."""
        if not self.pending:
            return
        losses = self.world.sum(torch.stack([loss for loss, _ in self.pending])).tolist()
        norms = torch.stack([norm for _, norm in self.pending]).tolist()
        before = self.state.step - len(losses)
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), before + 1):
            if self.fault is None and not (isfinite(loss) and isfinite(norm)):
                self.fault = Diverged(step, loss, norm)
        self.state = self.state._replace(losses=(*self.state.losses, *losses))
        self.norm, self.pending = norms[-1], []

    def look(self) -> dict[str, float]:
        """The mean loss since the last look and the last gradient's norm; raises `Diverged` if they blow up."""
        self.collect()
        if self.fault is not None:
            raise self.fault
        losses = self.state.losses
        loss, first = fsum(losses) / len(losses), losses[0] if self.state.first_loss is None else self.state.first_loss
        if loss > highest_loss(first, self.task):
            raise Diverged(self.state.step, loss, self.norm)
        if reason := beyond_diffusion_limit(self.model):
            raise Diverged(self.state.step, loss, self.norm, reason)
        self.state = self.state._replace(losses=(), first_loss=first)
        return {"loss": loss, "gradient_norm": self.norm}

    def keep_if_best(self, figures: Mapping[str, float]) -> None:
        """Keep the weights if they are the best on the validation split so far."""
        metric, best = self.task.metric, self.state.best
        name, higher = (metric.name, metric.higher_is_better) if self.options.best == "metric" else ("loss", False)
        value = figures[name]
        if best is None or (value > best if higher else value < best):
            self.kept = {name: one.local.cpu().clone() for name, one in pieces(self.learned["model"]).items()}
            self.state = self.state._replace(best=value, best_step=self.state.step, best_valid=dict(figures))

    def add_snapshot(self) -> None:
        """Add the weights to the sum: in the host's memory, which training does not need, and in float64, where sums
        of a few float32 numbers are practically exact, so the mean is rounded once."""
        for name, weight in pieces(self.learned["model"]).items():
            one = weight.local.cpu().double()
            self.kept[name] = self.kept[name].add_(one) if name in self.kept else one

    def due(self, synced: bool) -> bool:
        """Whether it is time for a checkpoint. Of several processes the first decides, at `synced` steps only."""
        due = time.monotonic() - self.saved > self.options.checkpoint_seconds
        if self.world.size == 1:
            return due
        return synced and self.world.any(due and self.world.rank == 0)

    def load_kept(self) -> None:
        """Load the weights that the run ends with into the model: the best ones, or the mean of the snapshots."""
        n = len(self.snapshots)
        for name, weight in pieces(self.learned["model"]).items():
            weight.local.copy_((self.kept[name] / n).float() if n else self.kept[name])

    def whole(self) -> Any:
        """The model with its present weights; if it is sharded, the first process gets a whole copy."""
        if self.parallel != "fsdp":
            return self.model
        model = self.world.on_first(lambda: self.network.build(self.recipe, self.task, inf))
        for name, weight in self.learned["model"].items():
            one = gathered(weight.detach())
            if model is not None:
                model.get_parameter(name).detach().copy_(one)
        return self.model if model is None else model.to(device=self.world.device)

    def kept_pieces(self) -> dict[str, LocalShard]:
        """What is kept, sharded as the weights are."""
        weights = pieces(self.learned["model"])
        return {name: weights[name]._replace(local=x) for name, x in self.kept.items()}

    def save(self) -> None:
        """Write a checkpoint, unless the run has diverged: then the last good one stays, and the next look raises."""
        self.collect()
        if self.fault is None:
            self.world.on_first(self.directory.flush_metrics)
            self.state = self.state._replace(times=self.clock.read())
            document = {**self.state._asdict(), "times": self.state.times._asdict()}
            groups = {name: pieces(group) for name, group in self.learned.items()} | {self.group: self.kept_pieces()}
            shares = {name: share(group, self.world) for name, group in groups.items()}
            own = {"rng": pieces(generators(self.world.rank))}
            folder, keep = self.directory.checkpoints, self.options.keep_checkpoints
            save_checkpoint(folder, self.state.step, document, shares | own, self.world, keep)
        self.saved = time.monotonic()

    def load(self, stored: CheckpointReader) -> None:
        """Restore the run from a checkpoint."""
        self.state = read_as(State, {name: stored.state[name] for name in State._fields}, "state.json")
        for name, group in self.learned.items():
            stored.fill(name, pieces(group))
        has_kept = self.state.best is not None or any(step <= self.state.step for step in self.snapshots)
        like = pieces(self.learned["model"]).items() if has_kept else ()
        kind = torch.float64 if self.snapshots else None
        self.kept = {name: torch.empty_like(one.local, dtype=kind, device="cpu") for name, one in like}
        stored.fill(self.group, self.kept_pieces())
        self.seed()  # for a process that the checkpoint does not have
        states = {name: x for name, x in generators(self.world.rank).items() if name in stored.groups["rng"]}
        stored.fill("rng", pieces(states))
        set_generators(states)

    def tidy(self) -> None:
        """Drop what was logged after the checkpoint, and old checkpoints that a killed process left."""
        self.directory.rewind(self.state.step)
        prune(self.directory.checkpoints, self.options.keep_checkpoints)


def check_share(batch: int, accumulate: int, processes: int) -> None:
    """Refuse a batch that cannot be divided into equal parts."""
    if batch % (processes * accumulate):
        raise ValueError(
            f"train.batch={batch} cannot be shared by {processes} processes and "
            f"{counted(accumulate, 'accumulated part')}: use a multiple of {processes * accumulate}"
        )

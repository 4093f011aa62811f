"""The continuous limit: networks of growing depth over the same time, interpolated, trained, trained from a smooth
start. Do their trajectories approach each other, and do their weights become smooth functions of depth: interpolated
to another number of layers, and how rough they are?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ...experiments.experiment import Setting
from ...experiments.plan import Planned, entrants_of, plan
from ...experiments.result import Result
from ...experiments.running import Workplace
from ...experiments.statistics import Slope, fitted_slope
from ...inference.runs import find_run
from ...jobs import check_engine
from ...models import SplitstepModel
from ...models.base import all_stacks
from ...probes.similarity import linear_cka
from ...support.provenance import Provenance, made_by_study
from ...support.typed import Figure, Inlined
from ...tasks import Batch, Metric, Task
from ...tasks.pairs.translation import Translation
from ...training import Recipe, evaluate
from ...training.directory import RunDirectory
from ...training.networks import build_model
from ..pinned import PinnedRow, order_reduction, pinned_orders
from .discretisation import chosen_batches
from .ways import check_equation, problem_of

M = TypeVar("M", bound=SplitstepModel)
Matrices = list[list[Tensor]]  # of each layer
Kind = Literal["interpolated", "free", "smooth"]
What = Literal["distance", "roughness", "learnt"]
KINDS: tuple[Kind, ...] = ("interpolated", "free", "smooth")
MODES = 3  # waves of the smooth start
EXAMPLES = 64  # whose trajectories are compared
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def interpolated(model: M, layers: int) -> M:
    """The network with so many layers over the same time, its weights interpolated linearly in t.

    A layer's weights are those at its middle; before the first middle and after the last they are constant.
    """
    [old], [rows] = all_stacks(model), model.config.ffn_rows()
    if any(row != rows[0] or len(set(row)) > 1 for row in rows):
        raise ValueError(f"Layers of unequal widths ffn={rows} have no weights between them: use equal widths.")
    step = len(old.layers) * old.step / layers
    changes = {"layers": layers, "step": step, "matched": None, "ffn": rows[0][0] if rows[0] else model.config.ffn}
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        new: Any = type(model)(type(model.config)(**{**model.config.to_dict(), **changes}))
    new.to(device=model.device, dtype=model.dtype).train(model.training)
    new.load_state_dict({k: w for k, w in model.state_dict().items() if ".stack.layers." not in k}, strict=False)
    [stack] = all_stacks(new)
    states = [layer.state_dict() for layer in old.layers]
    for i, layer in enumerate(stack.layers):
        layer.load_state_dict({name: at(i, layers, [s[name] for s in states]) for name in states[0]})
    return new


def at(i: int, layers: int, values: list[Tensor]) -> Tensor:
    """The value in the middle of layer i of `layers`, between those in the middles of the old layers."""
    place = min(max((i + 0.5) / layers * len(values) - 0.5, 0.0), len(values) - 1.0)
    low = min(int(place), len(values) - 2) if len(values) > 1 else 0
    high = min(low + 1, len(values) - 1)
    return torch.lerp(values[low], values[high], place - low)


def matrices(model: SplitstepModel) -> Matrices:
    """The matrices of each layer."""
    [stack] = all_stacks(model)
    return [
        [module.weight.detach().double() for module in layer.modules() if isinstance(module, nn.Linear)]
        for layer in stack.layers
    ]


def roughness(layers: Matrices) -> float:
    """The root of sum |W_(l+1) - W_l|^2 / sum |W_l|^2 over neighbouring layers: about 1.41 if layers are independent,
    and proportional to the step if the weights are a smooth function of t."""
    steps = [(a - b).square().sum() for below, above in pairwise(layers) for a, b in zip(above, below, strict=True)]
    sizes = [w.square().sum() for layer in layers[:-1] for w in layer]
    return float((sum(steps) / sum(sizes)) ** 0.5)


class Network(NamedTuple):
    """One network: its figure on the validation split, the roughness of its weights, of what training added to them,
    and of its start. A run that diverged has no figures."""

    kind: Kind
    depth: int
    step: float
    seed: int
    figure: Figure | None = None
    roughness: Figure | None = None
    learnt: Figure | None = None
    start: Figure | None = None


class Gap(NamedTuple):
    """Two networks of neighbouring depths; `step` is that of the coarser one."""

    kind: Kind
    coarse: int
    fine: int
    step: float
    seed: int
    distance: Figure
    cka: Figure


class Trend(NamedTuple):
    """The power of h with which something falls."""

    kind: Kind
    what: What
    slope: Slope


@dataclass(frozen=True)
class ContinuousLimit(Result):
    """The result of the study."""

    study = "limit"

    task: str
    metric: Metric
    scheme: str
    time: float
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    modes: int
    shared_times: tuple[float, ...]
    examples: int
    networks: tuple[Network, ...]
    gaps: tuple[Gap, ...]
    trends: tuple[Trend, ...]
    pinned: tuple[PinnedRow, ...]  # of a problem whose exact solution is known
    stiff: tuple[PinnedRow, ...]  # the same on finer grids
    made: Inlined[Provenance]

    def slope(self, kind: str, what: str) -> Slope | None:
        return next((one.slope for one in self.trends if (one.kind, one.what) == (kind, what)), None)


@cache
def pinned_problem() -> dict[str, tuple[PinnedRow, ...]]:
    """The rows of the problem whose exact solution is known: the same in every result."""
    return {"pinned": pinned_orders(), "stiff": order_reduction()}


def check_depths(given: Sequence[int]) -> tuple[int, ...]:
    """The depths from the least to the greatest."""
    text, depths = ",".join(map(str, given)), sorted(given)
    if not all(0 < one <= 10_000 for one in depths):
        raise ValueError(f"--depths {text}: give numbers of layers from 1 to 10,000, such as --depths 3,6,12,24.")
    if len(set(depths)) < len(depths) or len(depths) < 2:
        raise ValueError(f"--depths {text}: give at least two different depths, such as --depths 3,6,12,24.")
    first, second = depths[:2]
    if any(a * second != b * first for a, b in pairwise(depths)):  # else distances of neighbours have no common power
        raise ValueError(f"--depths {text}: each depth must be the one before times one factor, such as 3,6,12,24.")
    return tuple(depths)


def settings(depths: Sequence[int], time: float, modes: int) -> dict[Setting, tuple[Kind, int, float]]:
    """The recipe entries of each trained network, and what it is: its kind, its depth and its step."""
    found: dict[Setting, tuple[Kind, int, float]] = {}
    for depth in depths:
        entries = (f"model.layers={depth}", f"model.step={time / depth!r}")
        found[entries] = ("free", depth, time / depth)
        found[*entries, f"model.init_modes={modes}"] = ("smooth", depth, time / depth)
    return found


def continuous_limit(
    recipe: Recipe,
    depths: Sequence[int],
    seeds: Sequence[int],
    out: Path,
    *,
    modes: int = MODES,
    engine: str = "local",
    data: Path | None = None,
    quiet: bool = False,
) -> ContinuousLimit:
    """Train the networks of all depths and compare them; finished runs in `out` are reused. They are trained without
    dropout, and with the scheme's own shape."""
    check_engine(engine)
    check_equation(recipe.scheme)
    recipe = replace(recipe, match="none", model={**recipe.model, **NO_DROPOUT})
    task = recipe.load_task(data)
    if isinstance(task, Translation):
        raise ValueError(f"The task {recipe.task} has models with two stacks: converge works on models with one.")
    config = recipe.config(task)
    time = config.layers * config.step
    cases = settings(depths, time, modes)
    runs, out = plan(entrants_of(recipe, [str(recipe.scheme)]), seeds, list(cases)), out.resolve()
    Workplace(f"converge {recipe.task}", out, data, engine, quiet).execute(runs, {"": task})
    look = Look(task, tuple(chosen_batches(task, EXAMPLES)), math.gcd(*depths))
    measured = [one for run in runs for one in measure(run, Network(*cases[run.setting], run.seed), out, look, depths)]
    gaps = [gap for seed in seeds for kind in KINDS for gap in gaps_of(measured, kind, seed)]
    networks = sorted((one.network for one in measured), key=lambda n: (KINDS.index(n.kind), n.seed, n.depth))
    return ContinuousLimit(
        task=recipe.task, metric=task.metric, scheme=str(recipe.scheme), time=time, depths=tuple(depths),
        seeds=tuple(seeds), modes=modes, shared_times=tuple(i * time / look.times for i in range(look.times + 1)),
        examples=sum(len(batch["labels"]) for batch in look.batches), networks=tuple(networks), gaps=tuple(gaps),
        trends=tuple(trends_of(networks, gaps)), **pinned_problem(),
        made=made_by_study(recipe=recipe.document(), engine=engine),
    )  # fmt: skip


class Look(NamedTuple):
    """What networks are compared on: examples of a task, at so many times that all depths share."""

    task: Task
    batches: tuple[Batch, ...]
    times: int


class Measured(NamedTuple):
    """A network and its states at the shared times [times, tokens, width]; none if it diverged."""

    network: Network
    states: Tensor | None


def measure(run: Planned, network: Network, out: Path, look: Look, depths: Sequence[int]) -> Iterator[Measured]:
    """The network of a run, and, of the shallowest one of the usual kind, those that are interpolated from it."""
    result = RunDirectory(out / run.folder).result()
    assert result is not None
    if result.status != "finished":
        yield Measured(network, None)
        return
    model, _ = find_run(out / run.folder).load_model()
    if network.depth > 1:
        found, built = matrices(model), matrices(build_model(run.recipe, look.task))
        start = [[w.to(model.device) for w in layer] for layer in built]
        learnt = [[w - v for w, v in zip(one, other, strict=True)] for one, other in zip(found, start, strict=True)]
        rough, added, begun = map(roughness, (found, learnt, start))
        network = network._replace(roughness=rough, learnt=added, start=begun)
    figure = (result.valid or {}).get(look.task.metric.name)
    yield Measured(network._replace(figure=figure), shared_states(model, look))
    if network.kind == "free" and network.depth == depths[0]:
        for depth in depths:
            yield interpolate(model, depth, run, look)


def interpolate(model: SplitstepModel, depth: int, run: Planned, look: Look) -> Measured:
    """The trained network on another number of layers, without more training."""
    new = interpolated(model, depth)
    size = run.recipe.train.evaluate_batch or run.recipe.train.batch
    figure = evaluate(new, look.task, "valid", size, torch.float32)[look.task.metric.name]
    rough = roughness(matrices(new)) if depth > 1 else None
    network = Network("interpolated", depth, new.config.step, run.seed, figure, rough)
    return Measured(network, shared_states(new, look))


@torch.no_grad()
def shared_states(model: SplitstepModel, look: Look) -> Tensor:
    """The states of real tokens at the times that all depths share."""
    found: list[Tensor] = []
    for batch in look.batches:
        problem = problem_of(model, batch)
        every = problem.states()
        kept = torch.stack(every[:: (len(every) - 1) // look.times])
        found.append(kept.flatten(1, 2) if problem.real is None else kept[:, problem.real])
    return torch.cat(found, 1).double().cpu()


def gaps_of(measured: Sequence[Measured], kind: Kind, seed: int) -> Iterator[Gap]:
    """The distances between neighbouring depths; a network that diverged has none."""
    own = [one for one in measured if (one.network.kind, one.network.seed) == (kind, seed)]
    for one, other in pairwise(sorted(own, key=lambda each: each.network.depth)):
        if one.states is not None and other.states is not None:
            near = float((one.states - other.states).norm() / other.states.norm())
            cka = [float(linear_cka(x, y)) for x, y in zip(one.states[1:], other.states[1:], strict=True)]
            mean = math.fsum(cka) / len(cka)
            yield Gap(kind, one.network.depth, other.network.depth, one.network.step, seed, near, mean)


def trends_of(networks: Sequence[Network], gaps: Sequence[Gap]) -> Iterator[Trend]:
    """Every power that can be fitted."""
    measured: dict[What, Sequence[Network | Gap]] = {"distance": gaps, "roughness": networks, "learnt": networks}
    for kind, (what, found) in product(KINDS, measured.items()):
        points = [(one.seed, one.step, getattr(one, what)) for one in found if one.kind == kind]
        slope = fitted_slope(point for point in points if point[2] is not None)
        if slope is not None:
            yield Trend(kind, what, slope)

"""The certificate: what is proved about the difference between a network and a target, step by step.

On a cube with centre c and half-width r, every x in it has

    |f(x) - N(x)|  <=  |f(c) - N(c)|  +  L r  +  |N(x) - N(c)|,

where L is the target's constant. A unit a relu(p + w . (x - c)) changes by a s w . (x - c) with a slope s between
clip(p / rho, 0, 1) and clip(1 + p / rho, 0, 1), rho = r |w|_1. With the middle and the radius of that interval,

    |N(x) - N(c)|  <=  r |l + sum a s_mid w|_1  +  r sum |a| s_rad |w|_1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel
from .local import LocalMap, Reads, local_maps
from .targets import Array, Target, samples

BUDGET = 60_000_000  # cells
SAMPLES = 100_000
CHUNK = 2_000_000  # cells times units at once
MOST_CELLS = 16384  # at once
KEYS = np.random.default_rng(0).random(64)  # a sum with these weights is a key of a row of numbers
WIDER = 1 + 1e-12  # cells overlap a little, so rounding leaves no gap between them
GATHERING: dict[frozenset[Reads], str] = {
    frozenset({"token"}): "attention copies each token; what the other tokens add, through the network",
    frozenset({"mean"}): "attention computes the mean of the tokens; what unequal weights add, through the network",
    frozenset({"token", "mean"}): "heads copy a token or compute the mean; what they are off by, through the network",
}
SELECTION = "units of other positions are off: their inputs stay below 0 on the whole domain"
NO_SELECTION = "no unit has to be off: without positions every token has the same units"


class ErrorBound(NamedTuple):
    """What is proved: the error is at most `error` everywhere. `found` is the largest error that a centre has."""

    error: float
    cells: int
    found: float
    at: list[float]
    needed: float  # cells that the goal would have taken in all, estimated; equal to `cells` if it was met


class Cells(NamedTuple):
    """Cubes: centres [N, m] and half-widths [N]."""

    centres: Array
    radii: Array

    def __len__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return len(self.radii)


def split(cells: Cells, sides: int) -> Cells:
    """Each cube cut into sides^m."""
    m = cells.centres.shape[1]
    steps = (2 * np.arange(sides) + 1) / sides - 1
    offsets = np.array(list(product(steps, repeat=m)))
    centres = cells.centres[:, None] + cells.radii[:, None, None] * offsets
    return Cells(centres.reshape(-1, m), np.repeat(cells.radii / sides, len(offsets)))


class OutputGroup:
    """Outputs of one position that read the same variables, and the units that write to them."""

    def __init__(self, local: LocalMap, outputs: Sequence[int], reads: Array) -> None:
        """`reads` [m] says which variables the outputs depend on: all other weights are 0."""
        self.outputs, self.reads = list(outputs), np.flatnonzero(reads)
        used = np.abs(local.weights[self.outputs]).max(0) > 0
        as_tensor = torch.from_numpy
        self.slope = as_tensor(local.slope[self.outputs][:, self.reads])
        self.start = as_tensor(local.start[self.outputs])
        self.w, self.b = as_tensor(local.directions[used][:, self.reads]), as_tensor(local.biases[used])
        self.a = as_tensor(local.weights[self.outputs][:, used])
        self.length = self.w.abs().sum(1)  # |w|_1
        self.d, self.m = self.slope.shape
        products = self.a[:, None, :] * self.w.T[None]
        self.products = products.reshape(self.d * self.m, len(self.b)).T.contiguous()  # [U, d m]
        self.lengths = (self.a.abs() * self.length).T.contiguous()  # [U, d]

    def on(self, cells: Cells) -> tuple[Array, Array]:
        """The network at the centres, and its steepest slope in each cell: [N, d] each.

        Cells that agree in the variables that are read have one answer, which is computed once.
        """
        seen = np.column_stack([cells.centres[:, self.reads], cells.radii])
        rows, back = seen, np.arange(len(seen))
        if self.m < cells.centres.shape[1]:
            _, first, found = np.unique(seen @ KEYS[: self.m + 1], return_index=True, return_inverse=True)
            if np.array_equal(seen[first[found]], seen):  # else two keys were equal by chance
                rows, back = seen[first], found
        many = max(64, CHUNK // max(1, len(self.b)))
        some = [self.some(torch.from_numpy(rows[i : i + many])) for i in range(0, len(rows), many)]
        y, steep = (np.concatenate(one) for one in zip(*some, strict=True))
        return y[back], steep[back]

    def some(self, seen: torch.Tensor) -> tuple[Array, Array]:
        """`on` for centres and half-widths [N, m + 1]."""
        x, r = seen[:, :-1], seen[:, -1] * WIDER
        p = torch.addmm(self.b, x, self.w.T)
        y = x @ self.slope.T + self.start + p.clamp(min=0) @ self.a.T
        ratio = p / (r[:, None] * self.length).clamp(min=1e-300)
        low, high = ratio.clamp(0, 1), ratio.add_(1).clamp_(0, 1)
        middle = (low + high).mul_(0.5) @ self.products + self.slope.flatten()
        spread = (high - low).mul_(0.5) @ self.lengths
        return y.numpy(), (middle.reshape(len(x), self.d, self.m).abs().sum(2) + spread).numpy()


class Proof:
    """The bound of one position's map, over cells."""

    def __init__(self, local: LocalMap, f: Callable[[Array], Array], lipschitz: float) -> None:
        """`f` [N, m] -> [N, d] is the target at this position. Outputs that read the same variables are together."""
        self.f, self.lipschitz, (self.d, self.m) = f, lipschitz, local.slope.shape
        through = (np.abs(local.weights) > 0).astype(float) @ (np.abs(local.directions) > 0)
        reads = (np.abs(local.slope) > 0) | (through > 0)
        self.parts = [
            OutputGroup(local, np.flatnonzero((reads == one).all(1)).tolist(), np.array(one))
            for one in dict.fromkeys(map(tuple, reads.tolist()))
        ]

    def bounds(self, cells: Cells) -> tuple[Array, Array]:
        """For each cell the error at its centre and how much more it may be elsewhere in it."""
        y, steep = (np.empty((len(cells), self.d)) for _ in range(2))
        for part in self.parts:
            y[:, part.outputs], steep[:, part.outputs] = part.on(cells)
        difference = np.abs(self.f(cells.centres) - y)
        more = (steep + self.lipschitz) * (cells.radii * WIDER)[:, None]
        worst = np.argmax(difference + more, 1)
        rows = np.arange(len(cells))
        return difference[rows, worst], more[rows, worst]

    def run(self, goal: float, budget: int) -> ErrorBound:
        """Split cells until each is below the goal. If some point is above it, the goal moves up to 1.05 times that."""
        waiting = [split(Cells(np.full((1, self.m), 0.5), np.array([0.5])), 8 if self.m < 3 else 4)]
        error, found, at, spent, left = 0.0, 0.0, [0.5] * self.m, 0, 0.0
        while waiting:
            cells = waiting.pop()
            if len(cells) > MOST_CELLS:
                waiting.append(Cells(cells.centres[MOST_CELLS:], cells.radii[MOST_CELLS:]))
                cells = Cells(cells.centres[:MOST_CELLS], cells.radii[:MOST_CELLS])
            here, more = self.bounds(cells)
            spent += len(cells)
            if here.max() > found:
                found, at = float(here.max()), cells.centres[int(here.argmax())].tolist()
            goal = max(goal, 1.05 * found)
            bound = here + more
            done = bound <= goal
            error = max(error, float(bound[done].max(initial=0.0)))
            if done.all():
                continue
            parts = np.clip(np.ceil(more[~done] / (goal - here[~done])), 2, 4).astype(int)
            if spent >= budget:
                error = max(error, float(bound[~done].max()))
                left += float(((more[~done] / (goal - here[~done])) ** self.m).sum())
                continue
            for sides in np.unique(parts):
                chosen = np.flatnonzero(~done)[parts == sides]
                waiting.append(split(Cells(cells.centres[chosen], cells.radii[chosen]), int(sides)))
        return ErrorBound(error, spent, found, at, spent + left)


@dataclass(frozen=True)
class BoundTerm:
    """One term of the bound: what it is about, how large it is and how it is known."""

    name: str
    bound: float
    text: str


@dataclass(frozen=True)
class Certificate:
    """What is known about the largest error on the whole domain.

    `error` is proved if the Lipschitz constant of the target is right; None if nothing is proved. `sampled` is only the
    largest error that was found at a point.
    """

    eps: float
    lipschitz: float | None
    error: float | None
    sampled: float
    at: list[float]
    cells: int
    cells_needed: float
    steps: list[BoundTerm]
    unproved: str = "without a Lipschitz constant"  # why, if `error` is None

    @property
    def met(self) -> bool:
        """Whether the error is proved to be at most eps."""
        return self.error is not None and self.error <= self.eps

    @property
    def sentence(self) -> str:
        """What is proved, in words."""
        if self.error is None:
            return f"Largest sampled error {self.sampled:.3g}: nothing is proved {self.unproved}."
        if self.met:
            known = f"if the target's Lipschitz constant is {self.lipschitz:g}"
            return f"Certified: the error is at most {self.error:.4g} everywhere, {known}."
        return f"Not certified at {self.eps:g}: the error is at most {self.error:.4g} everywhere. {self.advice}"

    @property
    def advice(self) -> str:
        """What more would cost."""
        if self.sampled >= self.eps:
            where = np.round(self.at, 4).tolist()
            return f"At {where} it is {self.sampled:.4g}, so eps needs more units or a sharper attention."
        return f"The proof needs about {self.cells_needed:,.0f} cells; {self.cells:,} were allowed."


def certify(model: SplitstepVectorsModel, target: Target, eps: float, budget: int = BUDGET) -> Certificate:
    """Bound the difference between the network, as its weights stand, and the target."""
    locals_ = local_maps(model)
    if target.lipschitz is None:
        return report_only(model, target, eps, "without a Lipschitz constant")
    seen, where = sampled_error(model, target)
    bounds = bounds_of(locals_, target, eps, budget)
    totals = [bound.error + local.extra for bound, local in zip(bounds, locals_, strict=True)]
    worst = max(bounds, key=lambda bound: bound.found)
    sampled, at = max((seen, where), (worst.found, worst.at), key=lambda pair: pair[0])
    cells, needed = sum(bound.cells for bound in bounds), sum(bound.needed for bound in bounds)
    steps = steps_of(locals_, bounds, target, model.config.positions)
    return Certificate(eps, target.lipschitz, max(totals), sampled, at, cells, needed, steps)


def report_only(model: SplitstepVectorsModel, target: Target, eps: float, unproved: str) -> Certificate:
    """A sampled error, called so, and why nothing is proved."""
    seen, where = sampled_error(model, target)
    steps = [BoundTerm("samples", seen, f"{SAMPLES:,} points, no proof")]
    return Certificate(eps, target.lipschitz, None, seen, where, 0, 0, steps, unproved)


def bounds_of(locals_: Sequence[LocalMap], target: Target, eps: float, budget: int) -> list[ErrorBound]:
    """The bound at each position. Those with few units go first, and leave what they do not need to the others."""
    assert target.lipschitz is not None
    found, left = dict[int, ErrorBound](), budget
    for i in sorted(range(len(locals_)), key=lambda i: len(locals_[i].biases)):
        own = slice(i * target.dim, (i + 1) * target.dim)
        proof = Proof(locals_[i], lambda x, own=own: target(x)[:, own], target.lipschitz)
        found[i] = proof.run(max(eps - locals_[i].extra, eps / 100), left // (len(locals_) - len(found)))
        left = max(0, left - found[i].cells)
    return [found[i] for i in range(len(locals_))]


def steps_of(
    locals_: Sequence[LocalMap], bounds: Sequence[ErrorBound], target: Target, positions: str
) -> list[BoundTerm]:
    gathering, rounding = max(one.gathering for one in locals_), max(one.rounding for one in locals_)
    cells = sum(bound.cells for bound in bounds)
    reads = frozenset[Reads](one for local in locals_ for one in local.heads)
    return [
        BoundTerm("gathering", gathering, GATHERING[reads]),
        BoundTerm("selection", 0.0, NO_SELECTION if positions == "none" else SELECTION),
        BoundTerm(
            "cells", max(b.error for b in bounds), f"{cells:,} cells: centre + (L + slope of the network) half-width"
        ),
        BoundTerm("rounding", 2 * rounding, "float64, of the network and of the proof"),
        BoundTerm("assumption", target.lipschitz or 0.0, "the Lipschitz constant of the target, in the sup norm"),
    ]


def outputs(model: SplitstepVectorsModel, x: Array, tokens: int) -> Array:
    """The network at points [N, n d]."""
    found = []
    with torch.no_grad():
        for part in np.array_split(x, max(1, len(x) // 4096)):
            values = torch.from_numpy(part.reshape(len(part), tokens, -1))
            found.append(model(values).logits.flatten(1).numpy())
    return np.concatenate(found)


def errors(model: SplitstepVectorsModel, target: Target, x: Array) -> Array:
    """The largest error over the outputs, at each of the points [N, n d]."""
    return np.abs(outputs(model, x, target.tokens) - target(x)).max(1)


def sampled_error(model: SplitstepVectorsModel, target: Target) -> tuple[float, list[float]]:
    """The largest error at points, and where."""
    x = samples(target, SAMPLES, seed=4)
    found = errors(model, target, x)
    worst = int(found.argmax())
    return float(found[worst]), x[worst].tolist()

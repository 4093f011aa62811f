"""The certificate: what is proved about the difference between a network and a target, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel
from .cells import ErrorBound, Proof
from .local import LocalMap, Reads, local_maps
from .targets import Array, Target, samples

BUDGET = 60_000_000  # cells
SAMPLES = 100_000
APART = 1e-6  # of the points of a difference quotient
GATHERING: dict[frozenset[Reads], str] = {
    frozenset({"token"}): "attention copies each token; what the other tokens add, through the network",
    frozenset({"mean"}): "attention computes the mean of the tokens; what unequal weights add, through the network",
    frozenset({"token", "mean"}): "heads copy a token or compute the mean; what they are off by, through the network",
}
SELECTION = "units of other positions are off: their inputs stay below 0 on the whole domain"
NO_SELECTION = "no unit has to be off: without positions every token has the same units"


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


def searched(
    model: SplitstepVectorsModel, target: Target, points: int = 1_000_000, worst: int = 1000, steps: int = 100
) -> float:
    """The largest error at random points, and on the way up from the worst of them. It proves nothing.

    Each point has a step of its own: longer after a rise, shorter after none. The error is as good as piecewise linear,
    and its maxima lie on kinks and faces: a step along the signs of the gradient reaches corners, one along the
    gradient itself follows a kink. They take turns.
    """
    x = np.random.default_rng(7).random((points, target.variables))
    found = errors(model, target, x)
    chosen = np.argsort(found)[-worst:]
    x, found, length = x[chosen], found[chosen], np.full(len(chosen), 0.05)
    for turn in range(steps):
        slope = gradient(model, target, x)
        steepest = np.abs(slope).max(1, keepdims=True)
        along = np.sign(slope) if turn % 2 else slope / np.maximum(steepest, 1e-300)
        moved = np.clip(x + length[:, None] * along, 0, 1)
        reached = errors(model, target, moved)
        rises = reached > found
        x, found = np.where(rises[:, None], moved, x), np.maximum(found, reached)
        length = np.clip(np.where(rises, 1.5, 0.6) * length, 1e-9, 0.2)
    return float(found.max())


def gradient(model: SplitstepVectorsModel, target: Target, x: Array) -> Array:
    """Of the error, by central differences: one-sided at the faces of the cube."""
    step = APART * np.eye(x.shape[1])
    up, down = (np.clip(x[:, None] + sign * step, 0, 1) for sign in (1, -1))
    rise, fall = (errors(model, target, side.reshape(-1, x.shape[1])) for side in (up, down))
    return (rise - fall).reshape(x.shape) / (up - down).sum(2)

"""A search for the largest error: points, and ascent along the gradient from the worst of them. It proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .targets import Array

if TYPE_CHECKING:
    from . import Built

AT_ONCE = 50_000  # points
APART = 1e-6  # of the points of a difference quotient


def searched(built: Built, points: int = 1_000_000, worst: int = 1000, steps: int = 100, seed: int = 7) -> float:
    """The largest error that is found at random points, and on the way up from the worst of them."""
    rng = np.random.default_rng(seed)
    x = rng.random((points, built.target.variables))
    found = errors(built, x)
    chosen = np.argsort(found)[-worst:]
    return float(ascended(built, x[chosen], found[chosen], steps).max())


def errors(built: Built, x: Array) -> Array:
    """The largest error over the outputs, at each of the points [N, m]."""
    shape = (-1, built.target.tokens, built.target.dim)
    parts = np.array_split(x, max(1, len(x) // AT_ONCE))
    every = [np.abs(built(part.reshape(shape)).reshape(part.shape) - built.target(part)).max(1) for part in parts]
    return np.concatenate(every)


def gradient(built: Built, x: Array) -> Array:
    """Of the error, by central differences: one-sided at the faces of the cube."""
    m = x.shape[1]
    step = APART * np.eye(m)
    up, down = (np.clip(x[:, None] + sign * step, 0, 1) for sign in (1, -1))
    rise = errors(built, up.reshape(-1, m)) - errors(built, down.reshape(-1, m))
    return rise.reshape(-1, m) / (up - down).sum(2)


def ascended(built: Built, x: Array, found: Array, steps: int) -> Array:
    """The errors after ascent. Each point has a step of its own: longer after a rise, shorter after none.

    The error is as good as piecewise linear, and its maxima lie on kinks and faces: a step along the signs of the
    gradient reaches corners, one along the gradient itself follows a kink. They take turns.
    """
    length = np.full(len(x), 0.05)
    for turn in range(steps):
        slope = gradient(built, x)
        steepest = np.abs(slope).max(1, keepdims=True)
        along = np.sign(slope) if turn % 2 else slope / np.maximum(steepest, 1e-300)
        moved = np.clip(x + length[:, None] * along, 0, 1)
        reached = errors(built, moved)
        rises = reached > found
        x, found = np.where(rises[:, None], moved, x), np.maximum(found, reached)
        length = np.clip(np.where(rises, 1.5, 0.6) * length, 1e-9, 0.2)
    return found

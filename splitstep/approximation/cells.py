"""The proof over cells: the largest difference between a network and a target, bounded everywhere on the domain.

On a cube with centre c and half-width r, every x in it has

    |f(x) - N(x)|  <=  |f(c) - N(c)|  +  L r  +  |N(x) - N(c)|,

where L is the target's constant. A unit a relu(p + w . (x - c)) changes by a s w . (x - c) with a slope s between
clip(p / rho, 0, 1) and clip(1 + p / rho, 0, 1), rho = r |w|_1. With the middle and the radius of that interval,

    |N(x) - N(c)|  <=  r |l + sum a s_mid w|_1  +  r sum |a| s_rad |w|_1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from .local import LocalMap

Array = np.ndarray[Any, Any]
CHUNK = 2_000_000  # cells times units at once
MOST_CELLS = 16384  # at once
WIDER = 1 + 1e-12  # cells overlap a little, so rounding leaves no gap between them


class Bound(NamedTuple):
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


def cube_of(m: int, sides: int) -> Cells:
    return split(Cells(np.full((1, m), 0.5), np.array([0.5])), sides)


def split(cells: Cells, sides: int) -> Cells:
    """Each cube cut into sides^m."""
    m = cells.centres.shape[1]
    steps = (2 * np.arange(sides) + 1) / sides - 1
    offsets = np.array(list(product(steps, repeat=m)))
    centres = cells.centres[:, None] + cells.radii[:, None, None] * offsets
    return Cells(centres.reshape(-1, m), np.repeat(cells.radii / sides, len(offsets)))


class Proof:
    """The bound of one position's map, over cells."""

    def __init__(self, local: LocalMap, f: Callable[[Array], Array], lipschitz: float) -> None:
        """`f` [N, m] -> [N, d] is the target at this position."""
        self.f, self.lipschitz = f, lipschitz
        as_tensor = torch.from_numpy
        self.slope, self.start = as_tensor(local.slope.copy()), as_tensor(local.start.copy())
        self.w, self.b, self.a = map(as_tensor, (local.directions, local.biases, local.weights))
        self.length = self.w.abs().sum(1)  # |w|_1
        d, m = local.slope.shape
        self.products = (self.a[:, None, :] * self.w.T[None]).reshape(d * m, -1).T.contiguous()  # [U, d m]
        self.lengths = (self.a.abs() * self.length).T.contiguous()  # [U, d]
        self.m, self.d = m, d

    def bounds(self, cells: Cells) -> tuple[Array, Array]:
        """For each cell the error at its centre and how much more it may be elsewhere in it."""
        x, r = torch.from_numpy(cells.centres), torch.from_numpy(cells.radii) * WIDER
        p = torch.addmm(self.b, x, self.w.T)
        y = x @ self.slope.T + self.start + p.clamp(min=0) @ self.a.T
        ratio = p / (r[:, None] * self.length).clamp(min=1e-300)
        low, high = ratio.clamp(0, 1), ratio.add_(1).clamp_(0, 1)
        middle = (low + high).mul_(0.5) @ self.products + self.slope.flatten()
        spread = (high - low).mul_(0.5) @ self.lengths
        steep = middle.reshape(-1, self.d, self.m).abs().sum(2) + spread
        difference = np.abs(self.f(cells.centres) - y.numpy())
        more = (steep.numpy() + self.lipschitz) * r.numpy()[:, None]
        worst = np.argmax(difference + more, 1)
        rows = np.arange(len(cells))
        return difference[rows, worst], more[rows, worst]

    def run(self, goal: float, budget: int) -> Bound:
        """Split cells until each is below the goal. If some point is above it, the goal moves up to 1.05 times that."""
        at_once = max(64, min(MOST_CELLS, CHUNK // max(1, len(self.b))))
        waiting = [cube_of(self.m, 8 if self.m < 3 else 4)]
        error, found, at, spent, left = 0.0, 0.0, [0.5] * self.m, 0, 0.0
        while waiting:
            cells = waiting.pop()
            if len(cells) > at_once:
                waiting.append(Cells(cells.centres[at_once:], cells.radii[at_once:]))
                cells = Cells(cells.centres[:at_once], cells.radii[:at_once])
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
        return Bound(error, spent, found, at, spent + left)

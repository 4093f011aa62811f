"""The proof over cells: the largest difference between a network and a target, bounded everywhere on the domain.

On a cube with centre c and half-width r, every x in it has

    |f(x) - N(x)|  <=  |f(c) - N(c)|  +  L r  +  |N(x) - N(c)|,

where L is the target's constant. A unit a relu(p + w . (x - c)) changes by a s w . (x - c) with a slope s between
clip(p / rho, 0, 1) and clip(1 + p / rho, 0, 1), rho = r |w|_1. With the middle and the radius of that interval,

    |N(x) - N(c)|  <=  r |l + sum a s_mid w|_1  +  r sum |a| s_rad |w|_1.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from .local import LocalMap
from .targets import Array

CHUNK = 2_000_000  # cells times units at once
MOST_CELLS = 16384  # at once
KEYS = np.random.default_rng(0).random(64)  # a sum with these weights is a key of a row of numbers
WIDER = 1 + 1e-12  # cells overlap a little, so rounding leaves no gap between them


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


def cube_of(m: int, sides: int) -> Cells:
    return split(Cells(np.full((1, m), 0.5), np.array([0.5])), sides)


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
        y, steep = self.values_and_slopes(rows)
        return y[back], steep[back]

    def values_and_slopes(self, seen: Array) -> tuple[Array, Array]:
        """`on` for centres and half-widths [N, m + 1], a few at a time."""
        rows = max(64, CHUNK // max(1, len(self.b)))
        found = [self.some(torch.from_numpy(seen[i : i + rows])) for i in range(0, len(seen), rows)]
        y, steep = (np.concatenate(one) for one in zip(*found, strict=True))
        return y, steep

    def some(self, seen: torch.Tensor) -> tuple[Array, Array]:
        x, r = seen[:, :-1], seen[:, -1] * WIDER
        p = torch.addmm(self.b, x, self.w.T)
        y = x @ self.slope.T + self.start + p.clamp(min=0) @ self.a.T
        ratio = p / (r[:, None] * self.length).clamp(min=1e-300)
        low, high = ratio.clamp(0, 1), ratio.add_(1).clamp_(0, 1)
        middle = (low + high).mul_(0.5) @ self.products + self.slope.flatten()
        spread = (high - low).mul_(0.5) @ self.lengths
        return y.numpy(), (middle.reshape(len(x), self.d, self.m).abs().sum(2) + spread).numpy()


def output_groups(local: LocalMap) -> list[OutputGroup]:
    """The outputs of a position, together if they read the same variables."""
    through = (np.abs(local.weights) > 0).astype(float) @ (np.abs(local.directions) > 0)
    reads = (np.abs(local.slope) > 0) | (through > 0)
    patterns = dict.fromkeys(map(tuple, reads.tolist()))
    return [OutputGroup(local, np.flatnonzero((reads == one).all(1)).tolist(), np.array(one)) for one in patterns]


class Proof:
    """The bound of one position's map, over cells."""

    def __init__(self, local: LocalMap, f: Callable[[Array], Array], lipschitz: float) -> None:
        """`f` [N, m] -> [N, d] is the target at this position."""
        self.f, self.lipschitz = f, lipschitz
        self.parts, (self.d, self.m) = output_groups(local), local.slope.shape

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
        waiting = [cube_of(self.m, 8 if self.m < 3 else 4)]
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

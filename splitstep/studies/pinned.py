"""A pinned problem: heat with a reaction, u' = alpha d2u/ds2 + r(s) u, against scipy's matrix exponential.

The part D is the package's own diffusion with its exact flow, and the part R, the reaction, is exact too, so all of the
error is that of the splitting: order 1 for Lie-Trotter, 2 for Strang. r varies along s. If it were constant the two
parts would commute, and both splittings would be exact.

The same problem shows order reduction. On n points between 0 and 1 alpha is KAPPA n^2, so diffusion gets stiffer as the
grid gets finer, while the steps stay as long as they are.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy.linalg import expm
from torch import Tensor

from ..fields import FieldSpec
from ..fields.diffusion import Diffusion, diffusion
from ..integrate import integrate, uniform
from ..letters import DiffusionOptions
from ..schemes import scheme

SCHEMES = {
    "Lie-Trotter": ("D@exact R@exact", 1),
    "Strang": ("D/2@exact R@exact D/2@exact", 2),
    "Strang, reaction outside": ("R/2@exact D@exact R/2@exact", 2),
}
COUNTS = (8, 16, 32, 64, 128)  # steps
KAPPA = 0.02  # alpha on [0, 1]
END = 1.0
POINTS = 32


class PinnedRow(NamedTuple):
    """A splitting of the pinned problem: its errors at each number of steps, the slope of the last doubling, and the
    order that theory says. Where the parts commute both splittings are exact, and there is no slope."""

    name: str
    notation: str
    ends: str
    points: int
    reaction: str  # "varies" or "constant"
    steps: tuple[int, ...]
    errors: tuple[float, ...]
    slope: float | None
    order: int


class Reaction:
    """R(x) = r x, with its exact flow e^(h r) x; r has one value for each token."""

    def __init__(self, r: Tensor) -> None:
        self.r = r[:, None]

    def __call__(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.r * x

    def flow(self, t: Any, h: float, x: Tensor, context: Any) -> Tensor:
        return torch.exp(h * self.r) * x


def pinned_orders(
    points: int = POINTS,
    ends: Literal["reflecting", "fixed"] = "reflecting",
    reaction: Literal["varies", "constant"] = "varies",
) -> tuple[PinnedRow, ...]:
    """The pinned problem by each splitting."""
    s = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    r = 1 + torch.cos(2 * s) + s if reaction == "varies" else torch.ones_like(s)
    options = DiffusionOptions(KAPPA * points**2, ends)
    field = diffusion(FieldSpec(1, options=options)).double().requires_grad_(False)
    x = (1 + torch.sin(3 * s))[None, :, None]
    exact = torch.from_numpy(expm(END * matrix(field, r)) @ x.numpy())

    def row(name: str, notation: str, order: int) -> PinnedRow:
        fields = {"D": field, "R": Reaction(r)}
        ends_of = (integrate(scheme(notation), uniform(fields, END, n), x) for n in COUNTS)
        errors = tuple(((u - exact).norm() / exact.norm()).item() for u in ends_of)
        slope = math.log2(errors[-2] / errors[-1]) if reaction == "varies" else None
        return PinnedRow(name, notation, ends, points, reaction, COUNTS, errors, slope, order)

    return tuple(row(name, *known) for name, known in SCHEMES.items())


def matrix(field: Diffusion, r: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The right-hand side as a matrix, from the stencil of the second difference and not from the field's transform."""
    n = len(r)
    links = np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    second = links - np.diag(links.sum(1))
    if field.ends == "fixed":
        second[[0, -1]] = 0
    return field.alpha(r).item() * second + np.diag(r.numpy())


def order_reduction() -> tuple[PinnedRow, ...]:
    """The pinned problem on finer and finer grids, with reflecting and with fixed ends."""
    return tuple(
        row for ends in ("reflecting", "fixed") for points in (16, 64, 256) for row in pinned_orders(points, ends)
    )

"""Build networks for one target, at one or several eps, and train one of the same size beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import Any, Literal

import numpy as np
import torch

from ...approximation import Built, approximate
from ...approximation.certificate import Step, outputs, sampled_error
from ...models.vectors import SplitstepVectorsModel
from ...support.typed import plain
from ...training.directory import stamp
from ..converge.slopes import Slope, fitted_slope

FORMAT = 1
SIDE = 21  # points of a surface in each direction
SLICES = (0.0, 0.5, 1.0)  # where the other variables are held
BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BATCH, RATE = 512, 3e-3


@dataclass(frozen=True)
class Row:
    """A network at one eps."""

    eps: float
    error: float | None
    sampled: float
    met: bool
    heads: int
    units: int
    parameters: int
    cells: int
    sentence: str


@dataclass(frozen=True)
class Surface:
    """An output over the first and the last variable, the others held; positions with equal ones share it."""

    positions: list[int]
    coordinate: int
    held: float | None
    target: list[list[float]]
    network: list[list[float]]


@dataclass(frozen=True)
class Attention:
    """How much a head looks at its own token, and the bound of what the others add, at a sharpness."""

    beta: float
    weight: float
    bound: float


@dataclass(frozen=True)
class Trained:
    """A network of the same shape, trained from a random start; errors are sampled."""

    steps: int
    batch: int
    rate: float
    sampled: float
    mean: float
    built_mean: float


@dataclass(frozen=True)
class Approximation:
    """What was built for a target, and what is known about it."""

    target: str
    tokens: int
    dim: int
    lipschitz: float | None
    beta: float
    rows: list[Row]
    steps: list[Step]
    how: list[str]
    surfaces: list[Surface]
    attention: list[Attention]
    trained: Trained | None
    exponent: Slope | None
    command: str | None
    versions: dict[str, str]
    commit: str | None
    date: str

    @property
    def best(self) -> Row:
        return self.rows[-1]

    def document(self) -> dict[str, Any]:
        return {"study": "approximate", "format": FORMAT, **plain(asdict(self))}


def approximation(
    f: Any,
    tokens: int,
    dim: int,
    many_eps: Sequence[float],
    lipschitz: float | None = None,
    train_steps: int = 500,
    positions: Literal["learned", "none"] = "learned",
    command: str | None = None,
) -> tuple[Approximation, Built]:
    """Build a network for each eps, the largest first; the last one is returned, drawn and compared with training."""
    all_built = [
        approximate(f, tokens, dim, eps, lipschitz, positions=positions) for eps in sorted(many_eps, reverse=True)
    ]
    built = all_built[-1]
    rows = [row_of(one) for one in all_built]
    return Approximation(
        built.target.name, tokens, dim, built.target.lipschitz, built.beta, rows, built.certificate.steps,
        [one.how for one in built.fits], surfaces_of(built), attention_of(tokens),
        train(built, train_steps) if train_steps else None,
        exponent_of(rows), command, **stamp(),
    ), built  # fmt: skip


def exponent_of(rows: Sequence[Row]) -> Slope | None:
    """The power of eps with which units grow; None if they do not."""
    points = [(row.eps, float(row.units)) for row in rows]
    return fitted_slope({0: points}) if len({units for _, units in points}) > 1 else None


def row_of(built: Built) -> Row:
    one = built.certificate
    return Row(
        one.eps, one.error, one.sampled, one.met, built.model.config.heads, built.units, built.parameters, one.cells,
        one.sentence,
    )  # fmt: skip


def surfaces_of(built: Built) -> list[Surface]:
    """The first coordinate at every position, over the first and the last variable."""
    n, d, m = built.target.tokens, built.target.dim, built.target.variables
    side = np.linspace(0, 1, SIDE)
    found = list[Surface]()
    for held in SLICES if m > 2 else (None,):
        x = np.full((SIDE, SIDE, m), 0.5 if held is None else held)
        x[..., 0], x[..., -1] = np.meshgrid(side, side, indexing="ij")
        points = x.reshape(-1, m)
        shape = (SIDE, SIDE, n, d)
        wanted, made = built.target(points).reshape(shape), outputs(built.model, points, n).reshape(shape)
        for i in range(n):
            both = wanted[:, :, i, 0].tolist(), made[:, :, i, 0].tolist()
            same = [one for one in found if one.held == held and (one.target, one.network) == both]
            if same:
                same[0].positions.append(i + 1)
            else:
                found.append(Surface([i + 1], 1, held, *both))
    return found


def attention_of(tokens: int) -> list[Attention]:
    """A head's weight on its own token by the softmax, and (n - 1) exp(-beta)."""
    others = tokens - 1
    return [Attention(beta, 1 / (1 + others * exp(-beta)), others * exp(-beta)) for beta in BETAS]


def train(built: Built, steps: int) -> Trained:
    """Adam on random batches, from a random start, in the shape of the built network."""
    target, rng = built.target, np.random.default_rng(0)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = SplitstepVectorsModel(type(built.model.config)(**{**shape_of(built), "init": "xavier"})).double()
        optimiser = torch.optim.Adam(model.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps + 1)
        for _ in range(steps):
            x = rng.random((BATCH, target.variables))
            given, wanted = (torch.from_numpy(one.reshape(BATCH, target.tokens, -1)) for one in (x, target(x)))
            optimiser.zero_grad()
            model(given, labels=wanted).loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()
    x = rng.random((10_000, target.variables))
    means = [float(np.abs(outputs(one, x, target.tokens) - target(x)).mean()) for one in (model, built.model)]
    return Trained(steps, BATCH, RATE, sampled_error(model, target)[0], *means)


def shape_of(built: Built) -> dict[str, Any]:
    """The entries of the built network's config that give it its shape."""
    config = built.model.config
    names = (
        "scheme",
        "layers",
        "norm",
        "activation",
        "width",
        "heads",
        "head_size",
        "ffn",
        "max_positions",
        "positions",
    )
    return {name: getattr(config, name) for name in (*names, "inputs", "outputs")}

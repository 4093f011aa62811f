"""Transformers of one layer that are built and certified instead of trained.

They compute a sum of ridge functions at every position. With positions, the state of a token holds, one after the
other: its own vector (d), its position as a unit vector (n), the gathered sequence (n d), and the output (d). Attention
has one head for each position, which copies that token's vector into its slot of the gathered sequence. The
feed-forward network reads the slots and writes the output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf, isfinite, log10
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel, VectorsConfig
from ..support.words import counted
from .certificate import BUDGET, BoundTerm, Certificate, certify, outputs, report_only
from .ridges import SHARPNESSES, Fit, RidgeSum, fit_means, fit_outputs
from .targets import TARGETS, Array, Map, Target, check_equivariant, known_or_typed, read_target

__all__ = ["TARGETS", "BoundTerm", "Built", "Certificate", "Say", "approximate", "certify", "nothing", "read_target"]
Say = Callable[[str], None]
"""Called with what begins now."""
SHARE_OF_REPORTED = 0.8  # no proof needs the rest, but other points may have larger errors
MOST_VARIABLES = 6
BETA = 64.0  # attention's sharpness: exp(-64) is below the rounding of float64


@dataclass(frozen=True)
class Built:
    """A network that was built for a target, and what is proved about it."""

    model: SplitstepVectorsModel
    target: Target
    certificate: Certificate
    fits: list[Fit]  # of the outputs that are not equal to others up to a symmetry
    beta: float

    def __call__(self, x: Any) -> Array:
        """The network's map, (..., n, d) -> (..., n, d)."""
        given = np.ascontiguousarray(x, float)
        if given.shape[-2:] != (self.target.tokens, self.target.dim):
            raise ValueError(f"x has shape {given.shape}: it must be (..., {self.target.tokens}, {self.target.dim}).")
        return outputs(self.model, given.reshape(-1, self.target.variables), self.target.tokens).reshape(given.shape)

    @property
    def units(self) -> int:
        return self.model.config.ffn

    @property
    def parameters(self) -> int:
        return sum(one.numel() for one in self.model.parameters())


def nothing(text: str) -> None:
    """Say nothing."""


def approximate(
    f: Map | str,
    tokens: int,
    dim: int = 1,
    eps: float = 0.05,
    lipschitz: float | None = None,
    beta: float = BETA,
    budget: int = BUDGET,
    positions: Literal["learned", "none"] = "learned",
    say: Say = nothing,
) -> Built:
    """A Transformer of one layer within `eps` of f on [0, 1]^(tokens x dim), with a certificate.

    `f` takes and returns arrays (..., tokens, dim), or is the name of a target. Its Lipschitz constant in the sup norm
    is an assumption of the certificate; without one there is only a sampled error. If eps cannot be reached, the
    certificate says what was reached. Without positions only equivariant maps can be built: of two tokens, certified,
    or of three numbers, with a sampled error.
    """
    for name, value in (("beta", beta), ("budget", budget)):
        if not (value > 0 and isfinite(value)):
            raise ValueError(f"{name}={value:g} must be a positive number.")
    target = target_within(f, tokens, dim, [eps], lipschitz, budget, positions)
    if positions == "none" and tokens > 2:
        return report_means(target, eps, say)
    say(f"eps {eps:g}: building")
    functions, fits = fit_outputs(target, eps)
    model = build(functions, tokens, dim, beta) if positions == "learned" else build_equivariant(functions[:dim], dim)
    say(f"eps {eps:g}: certifying a network of {counted(model.config.ffn, 'unit')}")
    return Built(model, target, certify(model, target, eps, budget), fits, beta)


def target_within(
    f: Map | str,
    tokens: int,
    dim: int,
    many_eps: Sequence[float],
    lipschitz: float | None,
    budget: int,
    positions: Literal["learned", "none"],
) -> Target:
    """The target, if each eps can be reached for it as far as is known before any work."""
    for eps in many_eps:
        if not (eps > 0 and isfinite(eps)):
            raise ValueError(f"eps={eps:g} must be a positive number.")
    map, known = (f, None) if callable(f) else known_or_typed(f)
    constant = known if lipschitz is None else lipschitz
    target = read_target(f if isinstance(f, str) else getattr(f, "__name__", "f"), map, tokens, dim, constant)
    if positions == "none":
        check_equivariant(target)
    if positions == "learned" or tokens <= 2:
        for eps in many_eps:
            check_variables(target, eps, budget)
    return target


def report_means(target: Target, eps: float, say: Say) -> Built:
    """The network of three tokens without positions; its error is sampled."""
    say(f"eps {eps:g}: building")
    one = fit_means(target, SHARE_OF_REPORTED * eps)
    model = build_from_means(one.function, target.tokens, SHARPNESSES)
    say(f"eps {eps:g}: sampling the error of a network of {counted(model.config.ffn, 'unit')}")
    found = report_only(model, target, eps, "for three tokens without positions")
    return Built(model, target, found, [one], max(SHARPNESSES))


def check_variables(target: Target, eps: float, budget: int) -> None:
    """Refuse what the budget cannot reach even if the network were exact."""
    m = target.variables
    across = (target.lipschitz or 0.0) / (2 * eps)
    cells = inf if m * log10(max(across, 1.0)) > 300 else across**m * target.tokens
    if cells > budget:
        raise ValueError(
            f"{target.tokens} tokens of dimension {target.dim} are {m} variables: a proof of eps={eps:g} with "
            f"lipschitz={target.lipschitz:g} needs at least {cells:.1e} cells, and the budget is {budget:.1e}: use "
            "fewer tokens or a larger eps."
        )
    if m > MOST_VARIABLES:
        raise ValueError(
            f"{target.tokens} tokens of dimension {target.dim} are {m} variables: profiles of {3**m // 2:,} directions "
            f"or more would have to be fitted. Use at most {MOST_VARIABLES} variables."
        )


class Unit(NamedTuple):
    """A ReLU unit that writes to one coordinate at some positions: weight * relu(direction . x + bias)."""

    direction: tuple[float, ...]
    bias: float
    positions: tuple[int, ...]
    coordinate: int
    weight: float


def layout(tokens: int, dim: int) -> list[slice]:
    """Where the parts of the state lie: the own vector, the position's code, the slots and the output."""
    ends = accumulate((dim, tokens, tokens * dim, dim), initial=0)
    return [slice(start, end) for start, end in pairwise(ends)]


def blank_model(
    width: int, heads: int, dim: int, units: int, tokens: int, positions: Literal["learned", "none"]
) -> tuple[SplitstepVectorsModel, Any, Any, Any]:
    """A network of one layer `A F` in float64, all of whose weights are 0, with the embedding of its vectors, its
    attention and its feed-forward network. No random number of the caller is drawn."""
    config = VectorsConfig(
        scheme="A F", layers=1, norm="none", activation="relu", width=width, heads=heads, head_size=dim,
        ffn=max(1, units), positions=positions, max_positions=tokens, inputs=dim, outputs=dim,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = SplitstepVectorsModel(config).double().eval()
        for parameter in model.parameters():
            parameter.zero_()
    layer = cast(Any, model.body.stack.layers[0])
    return model, model.embedding, layer["A"], layer["F"]


def build(functions: Sequence[RidgeSum], tokens: int, dim: int, beta: float = BETA) -> SplitstepVectorsModel:
    """The network whose output at position i, coordinate c is functions[i * dim + c] of the whole sequence."""
    own, codes, slots, output = layout(tokens, dim)
    units, constants = units_of(functions, tokens, dim)
    model, embedding, attention, feed_forward = blank_model(output.stop, tokens, dim, len(units), tokens, "learned")
    assert model.positions is not None
    with torch.no_grad():
        embedding.weight[own] = eye(dim)
        model.positions.weight[:, codes] = eye(tokens)
        write_attention(attention, codes, slots, dim, beta)
        write_units(feed_forward, units, slots, output.start)
        select_positions(feed_forward, units, codes)
        model.head.weight[:, output] = eye(dim)
        model.head.weight[:, codes] = torch.from_numpy(constants)
    return model


def build_equivariant(functions: Sequence[RidgeSum], dim: int) -> SplitstepVectorsModel:
    """The network of two tokens without positions. One head computes the mean, so the other token is 2 mean - own, and
    the same function of (own, other) serves both positions: functions[c] of the first position."""
    found = [units_of_one(functions[c], (0,), c) for c in range(dim)]
    units = []
    for unit in (unit for many, _ in found for unit in many):  # of (own, other): other = 2 mean - own
        own, other = np.split(np.array(unit.direction), 2)
        units.append(unit._replace(direction=(*own - other, *2 * other)))
    model, embedding, attention, feed_forward = blank_model(3 * dim, 1, dim, len(units), 2, "none")
    with torch.no_grad():
        embedding.weight[:dim] = eye(dim)
        attention.qkv.weight[2 * dim :, :dim] = eye(dim)
        attention.out.weight[dim : 2 * dim] = eye(dim)
        write_units(feed_forward, units, slice(0, 2 * dim), 2 * dim)
        model.head.weight[:, 2 * dim :] = eye(dim)
        model.head.bias.copy_(torch.tensor([constant for _, constant in found], dtype=torch.float64))
    return model


def build_from_means(function: RidgeSum, tokens: int, sharpnesses: Sequence[float]) -> SplitstepVectorsModel:
    """The network of three tokens without positions: one head for each exponential mean. The state holds the token's
    own number, the means and the output."""
    units, constant = units_of_one(function, (0,), 0)
    many = len(sharpnesses)
    model, embedding, attention, feed_forward = blank_model(many + 2, many, 1, len(units), tokens, "none")
    with torch.no_grad():
        embedding.weight[0] = 1.0
        attention.qkv.bias[:many] = torch.tensor(sharpnesses, dtype=torch.float64)
        attention.qkv.weight[many:, 0] = 1.0  # keys and values
        attention.out.weight[1 : many + 1] = eye(many)
        write_units(feed_forward, units, slice(0, many + 1), many + 1)
        model.head.weight[0, many + 1] = 1.0
        model.head.bias[0] = constant
    return model


def eye(n: int) -> torch.Tensor:
    """The identity in float64."""
    return torch.eye(n, dtype=torch.float64)


def write_attention(field: Any, codes: slice, slots: slice, dim: int, beta: float) -> None:
    """Head h: a score of beta for the token at position h, 0 for the others; it copies that token's vector."""
    inner = slots.stop - slots.start
    for head, first in enumerate(range(0, inner, dim)):
        field.qkv.bias[first] = beta * dim**0.5  # attention divides by the root of the head's width
        field.qkv.weight[inner + first, codes.start + head] = 1.0
        field.qkv.weight[2 * inner + first : 2 * inner + first + dim, :dim] = eye(dim)
    field.out.weight[slots] = eye(inner)


def write_units(field: Any, units: Sequence[Unit], reads: slice, output: int) -> None:
    """Each unit's direction in the columns that it reads, and its weight in the row of its coordinate."""
    for number, unit in enumerate(units):
        field.up.weight[number, reads] = torch.tensor(unit.direction, dtype=torch.float64)
        field.up.bias[number] = unit.bias
        field.down.weight[output + unit.coordinate, number] = unit.weight


def select_positions(field: Any, units: Sequence[Unit], codes: slice) -> None:
    """A unit that does not belong to a position is pushed below 0 there, further than its input can lift it."""
    for number, unit in enumerate(units):
        if len(unit.positions) < codes.stop - codes.start:
            push = float(np.ceil(unit.bias + sum(max(w, 0.0) for w in unit.direction))) + 1.0
            field.up.bias[number] = unit.bias - push
            for position in unit.positions:
                field.up.weight[number, codes.start + position] = push


def units_of(functions: Sequence[RidgeSum], tokens: int, dim: int) -> tuple[list[Unit], Array]:
    """The units of all outputs, and a constant for each coordinate and position. Equal functions share their units."""
    units, constants = list[Unit](), np.zeros((dim, tokens))
    for coordinate in range(dim):
        own = [functions[i * dim + coordinate] for i in range(tokens)]
        for first, f in enumerate(own):
            positions = tuple(i for i in range(tokens) if own[i] is f)
            if positions[0] != first:
                continue
            found, constant = units_of_one(f, positions, coordinate)
            units += found
            constants[coordinate, list(positions)] = constant
    return units, constants


def units_of_one(f: RidgeSum, positions: tuple[int, ...], coordinate: int) -> tuple[list[Unit], float]:
    """The units of one function. Its linear part is one unit more, which is on everywhere."""
    units, constant = [], f.constant
    if np.abs(f.linear).max() > 0:
        lift = float(np.maximum(-f.linear, 0).sum())
        units.append(Unit(tuple(f.linear.tolist()), lift, positions, coordinate, 1.0))
        constant -= lift
    for k, t, a in zip(f.directions.tolist(), f.knots.tolist(), f.weights.tolist(), strict=True):
        units.append(Unit(tuple(k), -t, positions, coordinate, a))
    return units, constant

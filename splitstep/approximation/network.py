"""Transformers of one layer that compute a sum of ridge functions at every position.

With positions, the state of a token holds, one after the other: its own vector (d), its position as a unit vector (n),
the gathered sequence (n d), and the output (d). Attention has one head for each position, which copies that token's
vector into its slot of the gathered sequence. The feed-forward network reads the slots and writes the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel, VectorsConfig
from .ridges import RidgeSum
from .targets import Array

BETA = 64.0  # attention's sharpness: exp(-64) is below the rounding of float64


class Unit(NamedTuple):
    """A ReLU unit that writes to one coordinate at some positions: weight * relu(direction . x + bias)."""

    direction: tuple[float, ...]
    bias: float
    positions: tuple[int, ...]
    coordinate: int
    weight: float

    def of_own_and_mean(self, dim: int) -> Unit:
        """The unit of (own, other) as one of (own, mean), by other = 2 mean - own."""
        k = self.direction
        own = tuple(a - b for a, b in zip(k[:dim], k[dim:], strict=True))
        return self._replace(direction=(*own, *(2 * b for b in k[dim:])))


def layout(tokens: int, dim: int) -> list[slice]:
    """Where the parts of the state lie: the own vector, the position's code, the slots and the output."""
    ends = accumulate((dim, tokens, tokens * dim, dim), initial=0)
    return [slice(start, end) for start, end in pairwise(ends)]


def blank_model(
    width: int, heads: int, dim: int, units: int, tokens: int, positions: Literal["learned", "none"]
) -> SplitstepVectorsModel:
    """A network of one layer `A F` in float64, all of whose weights are 0. No random number of the caller is drawn."""
    config = VectorsConfig(
        scheme="A F", layers=1, norm="none", activation="relu", width=width, heads=heads, head_size=dim,
        ffn=max(1, units), positions=positions, max_positions=tokens, inputs=dim, outputs=dim,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = SplitstepVectorsModel(config).double().eval()
        for parameter in model.parameters():
            parameter.zero_()
    return model


def parts_of(model: SplitstepVectorsModel) -> tuple[Any, Any, Any]:
    """The embedding of the vectors, and the attention and the feed-forward network of the one layer."""
    embedding, layer = cast(Any, model.embedding), cast(Any, model.body.stack.layers[0])
    return embedding, layer["A"], layer["F"]


def build(functions: Sequence[RidgeSum], tokens: int, dim: int, beta: float = BETA) -> SplitstepVectorsModel:
    """The network whose output at position i, coordinate c is functions[i * dim + c] of the whole sequence."""
    own, codes, slots, output = layout(tokens, dim)
    units, constants = units_of(functions, tokens, dim)
    model = blank_model(output.stop, tokens, dim, len(units), tokens, "learned")
    assert model.positions is not None
    embedding, attention, feed_forward = parts_of(model)
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
    units = [unit.of_own_and_mean(dim) for many, _ in found for unit in many]
    model = blank_model(3 * dim, 1, dim, len(units), 2, "none")
    embedding, attention, feed_forward = parts_of(model)
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
    model = blank_model(many + 2, many, 1, len(units), tokens, "none")
    embedding, attention, feed_forward = parts_of(model)
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

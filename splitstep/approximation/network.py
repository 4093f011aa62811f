"""The Transformer of one layer that computes a sum of ridge functions at every position.

The state of a token holds, one after the other: its own vector (d), its position as a unit vector (n), the gathered
sequence (n d), and the output (d). Attention has one head for each position, which copies that token's vector into its
slot of the gathered sequence. The feed-forward network reads the slots and writes the output.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Layout(NamedTuple):
    """Where the parts of the state lie."""

    tokens: int
    dim: int

    @property
    def own(self) -> slice:
        return slice(0, self.dim)

    @property
    def codes(self) -> slice:
        return slice(self.dim, self.dim + self.tokens)

    @property
    def slots(self) -> slice:
        return slice(self.codes.stop, self.codes.stop + self.tokens * self.dim)

    @property
    def output(self) -> slice:
        return slice(self.slots.stop, self.slots.stop + self.dim)


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
    at = Layout(tokens, dim)
    units, constants = units_of(functions, tokens, dim)
    model = blank_model(at.output.stop, tokens, dim, len(units), tokens, "learned")
    embedding, attention, feed_forward = parts_of(model)
    with torch.no_grad():
        write_embedding(model, embedding, at)
        write_attention(attention, at, beta)
        write_feed_forward(feed_forward, at, units)
        model.head.weight[:, at.output] = torch.eye(dim, dtype=torch.float64)
        model.head.weight[:, at.codes] = torch.from_numpy(constants)
    return model


def build_equivariant(functions: Sequence[RidgeSum], dim: int) -> SplitstepVectorsModel:
    """The network of two tokens without positions. One head computes the mean, so the other token is 2 mean - own, and
    the same function of (own, other) serves both positions: functions[c] of the first position."""
    found = [units_of_one(functions[c], (0,), c) for c in range(dim)]
    units = [unit for many, _ in found for unit in many]
    model = blank_model(3 * dim, 1, dim, len(units), 2, "none")
    embedding, attention, feed_forward = parts_of(model)
    eye = torch.eye(dim, dtype=torch.float64)
    with torch.no_grad():
        embedding.weight[:dim] = eye
        attention.qkv.weight[2 * dim :, :dim] = eye
        attention.out.weight[dim : 2 * dim] = eye
        model.head.weight[:, 2 * dim :] = eye
        for number, unit in enumerate(units):
            own, other = torch.tensor(unit.direction, dtype=torch.float64).split(dim)
            feed_forward.up.weight[number, : 2 * dim] = torch.cat((own - other, 2 * other))
            feed_forward.up.bias[number] = unit.bias
            feed_forward.down.weight[2 * dim + unit.coordinate, number] = unit.weight
        model.head.bias.copy_(torch.tensor([constant for _, constant in found], dtype=torch.float64))
    return model


def write_embedding(model: SplitstepVectorsModel, embedding: Any, at: Layout) -> None:
    assert model.positions is not None
    embedding.weight[at.own] = torch.eye(at.dim, dtype=torch.float64)
    model.positions.weight[:, at.codes] = torch.eye(at.tokens, dtype=torch.float64)


def write_attention(field: Any, at: Layout, beta: float) -> None:
    """Head h: a score of beta for the token at position h, 0 for the others; it copies that token's vector."""
    inner = at.tokens * at.dim
    for head in range(at.tokens):
        first = head * at.dim
        field.qkv.bias[first] = beta * at.dim**0.5  # attention divides by the root of the head's width
        field.qkv.weight[inner + first, at.codes.start + head] = 1.0
        for c in range(at.dim):
            field.qkv.weight[2 * inner + first + c, at.own.start + c] = 1.0
            field.out.weight[at.slots.start + first + c, first + c] = 1.0


def write_feed_forward(field: Any, at: Layout, units: Sequence[Unit]) -> None:
    """A unit that does not belong to a position is pushed below 0 there, further than its input can lift it."""
    for number, unit in enumerate(units):
        field.up.weight[number, at.slots] = torch.tensor(unit.direction, dtype=torch.float64)
        field.up.bias[number] = unit.bias
        if len(unit.positions) < at.tokens:
            push = float(np.ceil(unit.bias + sum(max(w, 0.0) for w in unit.direction))) + 1.0
            field.up.bias[number] = unit.bias - push
            for position in unit.positions:
                field.up.weight[number, at.codes.start + position] = push
        field.down.weight[at.output.start + unit.coordinate, number] = unit.weight


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

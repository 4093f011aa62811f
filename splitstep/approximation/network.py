"""The Transformer of one layer that computes a sum of ridge functions at every position.

The state of a token holds, one after the other: its own vector (d), its position as a unit vector (n), the gathered
sequence (n d), and the output (d). Attention has one head for each position, which copies that token's vector into its
slot of the gathered sequence. The feed-forward network reads the slots and writes the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel, VectorsConfig
from .ridges import RidgeSum

Array = np.ndarray[Any, Any]
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


def build(functions: Sequence[RidgeSum], tokens: int, dim: int, beta: float = BETA) -> SplitstepVectorsModel:
    """The network whose output at position i, coordinate c is functions[i * dim + c] of the whole sequence."""
    at = Layout(tokens, dim)
    units, constants = units_of(functions, tokens, dim)
    config = VectorsConfig(
        scheme="A F", layers=1, norm="none", activation="relu", width=at.output.stop, heads=tokens, head_size=dim,
        ffn=max(1, len(units)), positions="learned", max_positions=tokens, inputs=dim, outputs=dim,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model = SplitstepVectorsModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        write_embedding(model, at)
        write_attention(model, at, beta)
        write_feed_forward(model, at, units)
        model.head.weight[:, at.output] = torch.eye(dim, dtype=torch.float64)
        model.head.weight[:, at.codes] = torch.from_numpy(constants)
    return model


def build_equivariant(functions: Sequence[RidgeSum], dim: int) -> SplitstepVectorsModel:
    """The network of two tokens without positions. One head computes the mean, so the other token is 2 mean - own, and
    the same function of (own, other) serves both positions: functions[c] of the first position."""
    config = VectorsConfig(
        scheme="A F", layers=1, norm="none", activation="relu", width=3 * dim, heads=1, head_size=dim, ffn=1,
        positions="none", max_positions=2, inputs=dim, outputs=dim,
    )  # fmt: skip
    found = [units_of_one(functions[c], (0,), c) for c in range(dim)]
    units = [unit for many, _ in found for unit in many]
    config.ffn = max(1, len(units))
    with torch.random.fork_rng(devices=[]):
        model = SplitstepVectorsModel(config).double().eval()
    attention, feed_forward = (model.body.stack.layers[0][name] for name in "AF")  # pyright: ignore
    eye = torch.eye(dim, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:dim] = eye
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


def write_embedding(model: SplitstepVectorsModel, at: Layout) -> None:
    assert model.positions is not None
    model.embedding.weight[at.own] = torch.eye(at.dim, dtype=torch.float64)
    model.positions.weight[:, at.codes] = torch.eye(at.tokens, dtype=torch.float64)


def write_attention(model: SplitstepVectorsModel, at: Layout, beta: float) -> None:
    """Head h: a score of beta for the token at position h, 0 for the others; it copies that token's vector."""
    field: Any = model.body.stack.layers[0]["A"]  # pyright: ignore[reportIndexIssue]
    inner = at.tokens * at.dim
    for head in range(at.tokens):
        first = head * at.dim
        field.qkv.bias[first] = beta * at.dim**0.5  # attention divides by the root of the head's width
        field.qkv.weight[inner + first, at.codes.start + head] = 1.0
        for c in range(at.dim):
            field.qkv.weight[2 * inner + first + c, at.own.start + c] = 1.0
            field.out.weight[at.slots.start + first + c, first + c] = 1.0


def write_feed_forward(model: SplitstepVectorsModel, at: Layout, units: Sequence[Unit]) -> None:
    """A unit that does not belong to a position is pushed below 0 there, further than its input can lift it."""
    field: Any = model.body.stack.layers[0]["F"]  # pyright: ignore[reportIndexIssue]
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

"""A network of one layer as it acts on the domain: at each position an affine map plus ReLU units.

Nothing is assumed about how the weights came about. If each head surely prefers one token, attention copies that
token's value up to an error that is bounded here; the rest is matrix products.
"""

from typing import Literal, NamedTuple

import numpy as np

from ..models.vectors import SplitstepVectorsModel
from .targets import Array

UNIT_ROUNDING = 2.0**-53
Reads = Literal["token", "mean"]  # a head copies one token or computes the mean of all
EQUAL = 1e-9  # scores that differ by less give a mean


class Affine(NamedTuple):
    """An affine function of the inputs x in [0, 1]^m, and the largest sizes that its terms add up to."""

    slope: Array  # [rows, m]
    start: Array  # [rows]
    size: Array  # [rows]: a bound of the sum of the sizes of all terms, for rounding

    @property
    def low(self) -> Array:
        return self.start + np.minimum(self.slope, 0).sum(1)

    @property
    def high(self) -> Array:
        return self.start + np.maximum(self.slope, 0).sum(1)

    def plus(self, y: "Affine") -> "Affine":
        return Affine(self.slope + y.slope, self.start + y.start, self.size + y.size)

    def shifted(self, by: Array) -> "Affine":
        return self._replace(start=self.start + by, size=self.size + np.abs(by))


class Linear(NamedTuple):
    """A linear map of the network with its bias."""

    weight: Array
    bias: Array

    def rows(self, some: slice) -> "Linear":
        return Linear(self.weight[some], self.bias[some])

    def of(self, x: Affine) -> Affine:
        size = np.abs(self.weight) @ x.size + np.abs(self.bias)
        return Affine(self.weight @ x.slope, self.weight @ x.start + self.bias, size)


class Weights(NamedTuple):
    """The weights of a network of one layer `A F`."""

    embedding: Array
    start: Array  # [n, width]: the bias of the embedding and the positions
    q: Linear
    k: Linear
    v: Linear
    out: Linear
    up: Linear
    down: Linear
    head: Linear
    heads: int
    size: int


class HeadValue(NamedTuple):
    """What a head writes at one position, and how far that may be off."""

    value: Affine
    pull: Array
    reads: Reads


class LocalMap(NamedTuple):
    """What the network computes at one position: affine + units; and how far attention and rounding may change it."""

    slope: Array  # [d, m]
    start: Array  # [d]
    directions: Array  # [U, m]
    biases: Array  # [U]
    weights: Array  # [d, U]
    gathering: float
    rounding: float
    heads: tuple[Reads, ...]

    @property
    def extra(self) -> float:
        """What attention and rounding add: the certificate's own rounding, and that of the network."""
        return self.gathering + 2 * self.rounding


def weights_of(model: SplitstepVectorsModel) -> Weights:
    """The weights as arrays; a network of another shape is refused."""
    config = model.config
    shape = (str(config.scheme), config.layers, config.norm, config.activation, config.substeps, float(config.step))
    if shape != ("A F", 1, "none", "relu", 1, 1.0) or config.kv_heads not in (None, config.heads):
        raise ValueError(
            "Only a network of one layer can be certified: scheme 'A F', layers=1, norm='none', activation='relu'."
        )
    state = {name: one.detach().double().cpu().numpy() for name, one in model.state_dict().items()}

    def linear(name: str) -> Linear:
        return Linear(state[f"{name}.weight"], state[f"{name}.bias"])

    layer = "body.stack.layers.0"
    q, k, v = map(Linear, *(np.split(one, 3) for one in linear(f"{layer}.A.qkv")))
    positions = state.get("positions.weight", np.zeros((config.max_positions, config.width)))
    return Weights(
        state["embedding.weight"], state["embedding.bias"] + positions, q, k, v, linear(f"{layer}.A.out"),
        linear(f"{layer}.F.up"), linear(f"{layer}.F.down"), linear("head"), config.heads, config.head_width,
    )  # fmt: skip


def local_maps(model: SplitstepVectorsModel) -> list[LocalMap]:
    """The map at each position."""
    w, tokens = weights_of(model), list[Affine]()
    for start, code in zip(w.start, np.eye(len(w.start)), strict=True):  # the state of a token before attention
        size = np.abs(w.embedding).sum(1) + np.abs(start)
        tokens.append(Affine(np.kron(code, w.embedding), start, size))
    return [local_map(w, tokens, i) for i in range(len(tokens))]


def scores(w: Weights, tokens: list[Affine], head: int, i: int) -> tuple[Array, Array]:
    """The least and the greatest score of each token for a head at position i."""
    rows = slice(head * w.size, (head + 1) * w.size)
    q = w.q.rows(rows).of(tokens[i])
    low, high = [], []
    for token in tokens:
        k = w.k.rows(rows).of(token)
        corners = np.stack([a * b for a in (q.low, q.high) for b in (k.low, k.high)])
        slack = 64 * UNIT_ROUNDING * float(q.size @ k.size)
        low.append((corners.min(0).sum() - slack) / w.size**0.5)
        high.append((corners.max(0).sum() + slack) / w.size**0.5)
    return np.array(low), np.array(high)


def head_value(w: Weights, tokens: list[Affine], head: int, i: int) -> HeadValue:
    """What a head writes at position i: the value that it copies, which the other tokens may pull, or with equal scores
    the mean of all values, which scores that differ a little pull."""
    rows = slice(head * w.size, (head + 1) * w.size)
    values = [w.v.rows(rows).of(token) for token in tokens]
    size = np.max([one.size for one in values], axis=0)
    low, high = scores(w, tokens, head, i)
    if (apart := float(high.max() - low.min())) < EQUAL:
        mean = Affine(np.mean([one.slope for one in values], 0), np.mean([one.start for one in values], 0), size)
        return HeadValue(mean, 2 * np.expm1(apart) * size, "mean" if len(tokens) > 1 else "token")
    best = int(np.argmax(low))
    others = [j for j in range(len(tokens)) if j != best]
    leak = np.exp(np.minimum(high[others] - low[best], 700.0)).sum()
    chosen = values[best]
    gaps = [np.maximum(chosen.high - values[j].low, values[j].high - chosen.low) for j in others]
    widest = np.max(gaps, axis=0) if gaps else np.zeros(w.size)
    return HeadValue(chosen._replace(size=size), leak / (1 + leak) * np.maximum(widest, 0), "token")


def local_map(w: Weights, tokens: list[Affine], i: int) -> LocalMap:
    state, pulled = tokens[i], np.zeros(len(w.embedding))
    heads = [head_value(w, tokens, head, i) for head in range(w.heads)]
    for head, one in enumerate(heads):
        columns = w.out.weight[:, head * w.size : (head + 1) * w.size]
        state = state.plus(Linear(columns, np.zeros(len(columns))).of(one.value))
        pulled += np.abs(columns) @ one.pull
    state = state.shifted(w.out.bias)
    before = w.up.of(state)
    operations = 8 * (sum(w.up.weight.shape) + sum(w.out.weight.shape) + len(tokens) + 64)
    up, head = np.abs(w.up.weight), np.abs(w.head.weight)
    unsure = up @ pulled + operations * UNIT_ROUNDING * before.size
    weights = w.head.weight @ w.down.weight
    used = (before.high + unsure >= 0) & (np.abs(weights).max(0) > 0)
    sizes = (head @ np.abs(w.down.weight))[:, used] @ before.size[used]
    end = w.head.of(state.shifted(w.down.bias))
    gathering = head @ pulled + np.abs(weights[:, used]) @ (up[used] @ pulled)
    rounding = operations * UNIT_ROUNDING * (end.size + sizes)
    return LocalMap(
        end.slope, end.start, before.slope[used], before.start[used], weights[:, used],
        float(gathering.max()), float(rounding.max()), tuple(one.reads for one in heads),
    )  # fmt: skip

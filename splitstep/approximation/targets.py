"""Targets: maps of sequences on [0, 1]^(n x d), each with its Lipschitz constant in the sup norm if one is known."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ..support.words import did_you_mean

Array = np.ndarray[Any, Any]
Map = Callable[[Array], Array]  # (..., n, d) -> (..., n, d)
PAIRS = 4096  # of samples that a Lipschitz constant is tested on, at each of these distances
DISTANCES = (1.0, 0.1, 0.01, 1e-3)
LARGEST = 64  # tokens times dimensions


def product(x: Array) -> Array:
    y = np.zeros_like(x)
    y[..., 0, :] = x[..., 0, :] * np.sin(3 * x[..., -1, :])
    return y


class NamedTarget(NamedTuple):
    """A target of the package: its map and its Lipschitz constant."""

    map: Map
    lipschitz: float


TARGETS = {
    "sort": NamedTarget(lambda x: np.sort(x, -2), 1.0),  # each coordinate sorted along the sequence
    "max": NamedTarget(lambda x: np.broadcast_to(x.max(-2, keepdims=True), x.shape), 1.0),  # at every position
    "convolution": NamedTarget(lambda x: np.tanh(x - 0.5 * np.roll(x, -1, -2)), 1.5),  # around the circle
    "polynomial": NamedTarget(lambda x: x * x.mean(-2, keepdims=True), 2.0),
    "shift": NamedTarget(lambda x: np.roll(x, 1, -2), 1.0),  # the token before, around the circle
    "product": NamedTarget(product, 3.1623),  # x_1 sin(3 x_n) at position 1, 0 elsewhere
}


@dataclass(frozen=True)
class Target:
    """A map of sequences of `tokens` vectors of dimension `dim`; `lipschitz` is an assumption, or None."""

    name: str
    map: Map
    tokens: int
    dim: int
    lipschitz: float | None

    @property
    def variables(self) -> int:
        return self.tokens * self.dim

    def __call__(self, x: Array) -> Array:
        """[N, n d] -> [N, n d]."""
        return np.array(self.map(x.reshape(-1, self.tokens, self.dim)), float).reshape(len(x), -1)


def known_or_typed(text: str) -> tuple[Map, float | None]:
    """A target by name, or the function that a user typed. What is typed here is run."""
    if text in TARGETS:
        return TARGETS[text].map, TARGETS[text].lipschitz
    if not text.strip().startswith("lambda"):
        raise ValueError(
            f'Unknown target {text!r}. {did_you_mean(text, TARGETS)} Or type a function, such as "lambda x: x[::-1]".'
        )
    try:
        typed = eval(text, {"np": np})  # the user typed it on the command line; texts of files never come here
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an expression of Python: {error.msg}.") from None
    return TypedTarget(typed), None


class TypedTarget(NamedTuple):
    """A typed function, which takes one sequence [n, d] after the other: x[::-1] must not reverse a batch."""

    of_one: Map

    def __call__(self, x: Array) -> Array:
        found = np.stack([np.asarray(self.of_one(one)) for one in x.reshape(-1, *x.shape[-2:])])
        return found.reshape(*x.shape[:-2], *found.shape[1:])


def samples(target: Target, many: int, seed: int = 0) -> Array:
    """Points of the domain: random ones, and a third of them on its faces."""
    rng = np.random.default_rng(seed)
    x = rng.random((many, target.variables))
    flat = rng.random(x.shape) < 0.3
    flat[many // 3 :] = False
    return np.where(flat, np.round(x), x)


def read_target(name: str, map: Map, tokens: int, dim: int, lipschitz: float | None) -> Target:
    """The target, after everything that samples can refute has been tested."""
    if tokens < 1 or dim < 1 or tokens * dim > LARGEST:
        raise ValueError(f"tokens={tokens} and dim={dim}: both must be positive, and their product at most {LARGEST}.")
    if lipschitz is not None and not (lipschitz >= 0 and isfinite(lipschitz)):
        raise ValueError(f"lipschitz={lipschitz} must be 0 or a positive number.")
    target = Target(name, map, tokens, dim, lipschitz)
    check_map(target)
    if lipschitz is not None:
        check_lipschitz(target, lipschitz)
    return target


def check_map(target: Target) -> None:
    """Refuse a function of the wrong shape, one that is not finite, and one that is random."""
    x = samples(target, 64).reshape(-1, target.tokens, target.dim)
    if isinstance(target.map, TypedTarget):
        y = np.stack([checked_values(target.name, target.map.of_one, one) for one in x])
    else:
        y = checked_values(target.name, target.map, x)
    if y.dtype.kind not in "fiub" or not np.isfinite(y.astype(float)).all():
        raise ValueError(f"The target {target.name!r} returns numbers that are not finite on [0, 1].")
    if not np.array_equal(y, np.asarray(target.map(x))):
        raise ValueError(f"The target {target.name!r} returns different numbers for one input: it must not be random.")


def checked_values(name: str, map: Map, x: Array) -> Array:
    """The values of a function that must run and return the shape that it takes."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused in one line
            y = np.asarray(map(x))
    except Exception as error:
        raise ValueError(
            f"The target {name!r} fails on an array of shape {x.shape}: {' '.join(str(error).split())}."
        ) from None
    if y.shape != x.shape:
        raise ValueError(
            f"The target {name!r} returns shape {y.shape} for an input of shape {x.shape}: it must return the shape "
            "that it takes."
        )
    return y


def check_equivariant(target: Target) -> None:
    """Refuse a target that a network without positions cannot reach, with two inputs that prove it."""
    n, d = target.tokens, target.dim
    if n != 2 and (n, d) != (3, 1):
        raise ValueError(
            f"Without positions, networks of 2 tokens, or of 3 of dimension 1, can be built; got {n} of dimension {d}. "
            "Leave out --no-positions."
        )
    x = samples(target, PAIRS)
    for some in (x[PAIRS // 3 :], x):  # inside first: tokens on faces are often equal, and prove less clearly
        for order in list(permutations(range(n)))[1:]:
            check_order(target, some, list(order))


def check_order(target: Target, x: Array, order: list[int]) -> None:
    """Refuse a target whose values do not change their order as its tokens do."""

    def exchanged(y: Array) -> Array:
        return y.reshape(-1, target.tokens, target.dim)[:, order].reshape(x.shape)

    here, swapped = target(x), exchanged(x)
    there = target(swapped)
    apart = np.abs(exchanged(here) - there).max(1)
    worst = int(np.argmax(apart))
    if apart[worst] > 1e-9:
        first, second, y, z = (np.round(one[worst], 4).tolist() for one in (x, swapped, here, there))
        raise ValueError(
            f"The target {target.name!r} is not equivariant, so no network without positions reaches it: {first} has "
            f"the values {y}, and its tokens exchanged, {second}, have {z}."
        )


def check_lipschitz(target: Target, lipschitz: float) -> None:
    """Refuse a constant that a pair of samples contradicts."""
    x, rng = samples(target, PAIRS), np.random.default_rng(1)
    for distance in DISTANCES:
        signs = rng.choice([-1.0, 1.0], x.shape)
        y = np.clip(x + distance * signs, 0, 1)
        far, apart = np.abs(target(x) - target(y)).max(1), np.abs(x - y).max(1)
        worst = int(np.argmax(far - lipschitz * apart))
        if far[worst] > lipschitz * apart[worst] * (1 + 1e-9) + 1e-12:
            raise ValueError(
                f"lipschitz={lipschitz:g} is contradicted: {np.round(x[worst], 4).tolist()} and "
                f"{np.round(y[worst], 4).tolist()} are {apart[worst]:.4g} apart and their values {far[worst]:.4g}: use "
                f"at least {far[worst] / apart[worst]:.4g}."
            )

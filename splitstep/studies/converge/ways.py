"""Ways to run one network: which schemes, sub-steps and step lengths are tried, and the loop over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ...notation import read
from ...scheme import Scheme, with_tableau
from ...schemes import SCHEMES, scheme
from ...support.typed import Figure
from ...tableau import EULER, MIDPOINT, RK4
from ...training.progress import Counting
from .problem import Problem, Way

FACTORS = tuple(2 ** (k / 2) for k in range(-4, 5))  # of the step
SUBSTEPS = (1, 2, 4, 8)
TRIED = ("lie", "parallel", "strang", "strang-midpoint", "heun", "rk4")  # of which those are run that fit the fields

T = TypeVar("T")
B = TypeVar("B", bound=Mapping[str, Tensor])
Compare = Callable[[Tensor], T]  # the output of a way on a batch with that of the network itself


class WayEffect(Protocol):
    """What a way to run a network changes; without a scheme the way is the continuous limit."""

    @property
    def scheme(self) -> str | None: ...
    @property
    def substeps(self) -> int: ...
    @property
    def factor(self) -> float: ...
    @property
    def kl(self) -> Figure | None: ...
    @property
    def shared(self) -> Figure | None: ...


def check_factors(factors: Sequence[float]) -> tuple[float, ...]:
    """The factors of the step in order, each once."""
    for one in factors:
        if not 0 < one < math.inf:
            raise ValueError(f"--steps: a step of {one:g} times its length is none: use numbers above 0.")
    return tuple(sorted(set(factors)))


def check_substeps(substeps: Sequence[int]) -> tuple[int, ...]:
    """The numbers of sub-steps in order, each once."""
    if not all(0 < one <= 1024 for one in substeps):
        given = ",".join(map(str, substeps))
        raise ValueError(f"--substeps {given}: give whole numbers from 1 to 1024, such as --substeps 1,2,4,8.")
    return tuple(sorted(set(substeps)))


def given_schemes(own: Scheme, texts: Sequence[str]) -> list[Scheme]:
    """The network's own scheme, then those given."""
    given = [scheme(text) for text in texts]
    for one in given:
        if one.replaces or one.projections or set(one.fields) != set(own.fields):
            raise ValueError(
                f"--schemes: {str(one)!r} does not run the fields of this network, {', '.join(own.fields)}, with parts "
                "that all add: use schemes of these fields."
            )
    return list(dict.fromkeys([own, *given]))


def fitting(own: Scheme) -> list[Scheme]:
    """The network's own scheme and the usual ones that have the same fields."""
    return [own, *(s for s in map(SCHEMES.__getitem__, TRIED) if s.fields == own.fields and s != own)]


def usual(own: Scheme) -> list[Scheme]:
    """The model's own scheme and others of the same fields: parallel, both of Strang's, of order two, of order four."""
    names = whole_fields(own)
    if len(names) < 2:
        return [own, with_tableau(own, MIDPOINT), with_tableau(own, RK4)] if names else [own]
    together, strang = read("+".join(names)), symmetric(*names)
    others = [symmetric(*reversed(names)), with_tableau(strang, MIDPOINT), with_tableau(together, RK4)]
    return list(dict.fromkeys([own, together, strang, *others]))


def strang_of(own: Scheme) -> Scheme | None:
    """Strang's splitting of a scheme's fields, the last ones outside: F/2 A F/2 of A F. None if it has one field, or
    advances one by fractions already."""
    names = whole_fields(own)
    return symmetric(*names) if len(names) > 1 else None


def symmetric(inner: str, *outer: str) -> Scheme:
    halves = [f"{name}/2" for name in outer]
    return read(" ".join([*reversed(halves), inner, *halves]))


def whole_fields(own: Scheme) -> list[str]:
    """The fields in order, if all advance whole steps by Euler."""
    simple = all(part.fraction == 1 and part.tableau == EULER and not part.half for _, part in own.substeps)
    return [name for _, part in own.substeps for name in part.fields] if simple and len(own.branches) == 1 else []


@torch.no_grad()
def run_ways(
    problems: Callable[[B], Problem],
    batches: Sequence[B],
    ways: Iterable[Way],
    comparing: Callable[[B, Problem, Tensor], Compare[T]],
    progress: Counting | None = None,
) -> dict[Way, list[T]]:
    """What is found in the output of each way, batch by batch: `comparing` is given a batch, its problem and the
    network's own output."""
    found: dict[Way, list[T]] = {way: [] for way in ways}
    for number, batch in enumerate(batches):
        problem = problems(batch)
        compare = comparing(batch, problem, problem.finish(problem.end()))
        for k, (way, own) in enumerate(found.items(), 1):
            own.append(compare(problem.finish(problem.end(way))))
            if progress is not None:
                progress(number * len(found) + k, len(batches) * len(found))
    return found

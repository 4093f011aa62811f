"""Orders measured on smooth nonlinear fields in float64.

The equation is x' = sum over letters L of f_L(t, x) with f_L(t, x) = sin(x W_L + v_L cos 3t), its weights drawn at
random for each letter; in the autonomous problem v_L = 0. In a doubled state (a, b), a' is the sum of the fields that
move a, evaluated at b, and the other way round. In the untied problem every name has a field of its own (F0 and F1
differ), weighted in the sum by the fraction of a step that it advances.

Both problems, without and with time, are solved in one pass, the particles of one below those of the other.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from ..integrate import Field, State, Step, Time, integrate, refine, uniform
from ..order import Colouring, letter
from ..scheme import Scheme, with_tableau
from ..schemes import scheme
from ..tableau import BUTCHER5
from .orders import COUNTS, Measured, Orders, Row

END = 2.0  # the interval is [0, END] for two letters; more of them move the state faster, so it is shorter
SHAPE = (4, 5)  # of the state of a problem: a few particles, so no single one decides
FLOOR = 3e-11  # smaller errors may be those of the reference, or rounding


Errors = tuple[float, float]  # of the problem without and of that with time, after the same number of steps
Term = tuple[str, str, float]  # of an equation: a field, the half that it moves (if the state is doubled), its factor


def with_slopes(result: Orders) -> Orders:
    """The result with the measured orders of its schemes, and with the errors that show them."""
    rows = list[Row]()
    for row, s in ((row, scheme(row.notation)) for row in result.rows):
        errors = [] if s.replaces else list(_errors(s, letter))
        shown = {"measured": _measured(s, errors), "errors": tuple(timed for _, timed in errors)} if errors else {}
        rows.append(replace(row, **shown))
    return replace(result, rows=tuple(rows))


def measure(scheme: Scheme) -> Measured | None:
    """The scheme's orders, measured; None if a part replaces the state, for then the scheme approximates no equation.

    The error of n steps is the distance to a reference solution by another integrator (Dormand-Prince 8(5,3)). If the
    scheme projects, there is no reference, and the error is the distance between n and 2n steps.
    """
    return None if scheme.replaces else _measured(scheme, _errors(scheme, letter))


def _measured(scheme: Scheme, errors: Iterable[Errors]) -> Measured:
    """The orders that these errors show, and those with untied weights."""
    autonomous, timed = _slopes(errors)
    tied = len({name[0] for name in scheme.fields}) == len(scheme.fields)
    return Measured(autonomous, timed, timed if tied else _slopes(_errors(scheme, str))[1])


def _slopes(errors: Iterable[Errors]) -> list[float]:
    """The slope of each problem; errors are asked for until they are below FLOOR in both."""
    kept = list[Errors]()
    for one in errors:
        kept.append(one)
        if len(kept) > 2 and all(min(own[2:]) < FLOOR for own in zip(*kept, strict=True)):
            break
    return [_slope(own) for own in zip(*kept, strict=True)]


def _slope(errors: Sequence[float]) -> float:
    """log2 of the ratio of errors when n doubles, at the finest n whose errors are all above FLOOR.

    The same rule for every scheme: n is each of COUNTS.
    """
    coarse, fine, *others = errors
    for finer in others:
        if finer < FLOOR:
            break
        coarse, fine = fine, finer
    return math.log2(coarse / fine) if coarse > 0 and fine > 0 else math.nan


def _errors(scheme: Scheme, colouring: Colouring) -> Iterator[Errors]:
    ends = (_end(scheme, n, colouring) for n in COUNTS)
    if scheme.projections:
        return (_distances(x, y) for x, y in pairwise(ends))
    exact = _reference(_terms(scheme, colouring), _interval(scheme))
    return (_distances(x, exact) for x in ends)


def _interval(scheme: Scheme) -> float:
    """How long the equation is solved."""
    return END * min(1.0, 2 / len({letter(name) for name in scheme.fields}))


def _distances(x: Tensor, y: Tensor) -> Errors:
    """The distance in each problem; x and y [..., particles of both, d]."""
    plain, timed = (own.norm().item() for own in (x - y).chunk(2, -2))
    return plain, timed


@torch.no_grad()
def _end(scheme: Scheme, n: int, colouring: Colouring) -> Tensor:
    """The state of both problems at the end of the interval after n steps; a doubled state is stacked."""
    fields: dict[str, Field] = {name: _field(colouring(name)) for name in scheme.fields}
    fields |= dict.fromkeys(scheme.projections, _normalise)
    x, other = _start()
    state: State = (x, other) if scheme.doubled else x
    state = integrate(scheme, uniform(fields, _interval(scheme), n), state)
    return torch.stack(state) if scheme.doubled else state


def _terms(scheme: Scheme, colouring: Colouring) -> tuple[Term, ...]:
    """The terms of the equation that the scheme approximates."""
    found: dict[tuple[str, str], float] = {}
    for weight, part in scheme.substeps:
        for name in part.fields:
            key = colouring(name), part.half
            found[key] = found.get(key, 0.0) + float(weight * part.fraction)
    return tuple((*key, share) for key, share in sorted(found.items()))


def _start() -> tuple[Tensor, Tensor]:
    """The start of both problems; if the state is doubled, of its two halves."""
    x = _random("start", SHAPE)
    return torch.cat([x, x]), torch.cat([x.flip(0), x.flip(0)])


def _random(seed: str, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(list(map(ord, seed))).standard_normal(shape))


class Sine:
    """f_L(t, x) = sin(x W_L + v_L cos 3t), with v_L = 0 in the upper half of the rows. Its flow is as good as exact
    here: four steps of order 5."""

    def __init__(self, name: str) -> None:
        width = SHAPE[-1]
        self.weight = 1.5 * _random(name, (width, width)) / math.sqrt(width)
        shift = _random(f"{name}t", (width,)).expand(SHAPE)
        self.shift = torch.cat([torch.zeros_like(shift), shift])

    def __call__(self, t: Time, x: Tensor, context: Any) -> Tensor:
        return torch.sin(torch.addmm(self.shift * math.cos(3 * t), x, self.weight))

    def flow(self, t: Time, h: float, x: Tensor, context: Any) -> Tensor:
        return integrate(_SOLVER, refine([Step({"Z": self}, t, h)], 4), x)


_SOLVER = with_tableau(scheme("Z"), BUTCHER5)


_field = lru_cache(Sine)  # by its name


def _normalise(t: Time, x: Tensor, context: Any) -> Tensor:
    """Layer norm without weights; with eps = 0 it is a projection."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=0.0)


@lru_cache
def _reference(terms: tuple[Term, ...], end: float) -> Tensor:
    """The solution at `end` by scipy, of the equation of these terms."""
    doubled = bool(terms[0][1])
    start = torch.stack(_start()[: 1 + doubled])

    def slope(t: float, flat: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        x = torch.from_numpy(flat).view(start.shape)
        slopes = torch.zeros_like(x)
        for name, half, share in terms:
            moves = int(half == "b")
            slopes[moves] += share * _field(name)(t, x[1 - moves if doubled else 0], None)
        return slopes.flatten().numpy()

    solved = solve_ivp(slope, (0.0, end), start.flatten().numpy(), method="DOP853", rtol=1e-13, atol=1e-13)
    assert solved.success, solved.message
    found = torch.from_numpy(solved.y[:, -1].copy()).view(start.shape)
    return found if doubled else found[0]

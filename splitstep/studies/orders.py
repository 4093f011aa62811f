"""The orders of schemes: computed from the notation, and measured on smooth nonlinear fields in float64.

The equation is x' = sum over letters L of f_L(t, x) with f_L(t, x) = sin(x W_L + v_L cos 3t), its weights drawn at
random for each letter; in the autonomous problem v_L = 0. In a doubled state a' is the sum of the fields that move a,
read at b, and b' likewise. In the untied problem every name has a field of its own, F0 another than F1, and counts in
the sum by the fraction of a step that it advances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from ..integrate import Field, State, Time, integrate, uniform
from ..order import HIGHEST, Colouring, letter
from ..scheme import Scheme
from ..schemes import SCHEMES, name_of, scheme

END = 2.0  # the interval is [0, END]
SHAPE = (4, 5)  # of the state: a few particles, so that no single one decides
COARSEST, FINEST = 4, 256  # steps over the interval
FLOOR = 3e-11  # errors below it may be the reference's, or rounding


class Measured(NamedTuple):
    """Measured orders on a problem that does not depend on time, on one that does, and on one with untied weights."""

    autonomous: float
    time_dependent: float
    untied: float  # equals time_dependent where no letter has several names


class Term(NamedTuple):
    """One term of an equation: its field, the half that it moves (if the state is doubled) and its factor."""

    field: str
    half: str
    share: float


@dataclass(frozen=True)
class Row:
    """One scheme and its orders; no name where it is no row of the table, no orders where a part replaces the state."""

    name: str | None
    notation: str
    fields: tuple[str, ...]
    evaluations: int
    splitting_order: int | None
    order: int | None
    untied_order: int | None
    unsplit: bool
    measured: Measured | None

    @property
    def splitting(self) -> str:
        """The splitting order as a reader wants it: "exact" where nothing is split, "5+" where no error was found."""
        return "exact" if self.unsplit and self.splitting_order == HIGHEST else _shown(self.splitting_order)

    @property
    def shown_orders(self) -> tuple[str, str]:
        """The order, and the order with untied weights."""
        return _shown(self.order), _shown(self.untied_order)


@dataclass(frozen=True)
class Orders:
    """The result of the study: a row per scheme, and whether the orders were measured too."""

    rows: tuple[Row, ...]
    measured: bool

    def document(self) -> list[dict[str, Any]]:
        """The result as JSON values."""
        return [self._object(row) for row in self.rows]

    def _object(self, row: Row) -> dict[str, Any]:
        computed = {
            "name": row.name,
            "notation": row.notation,
            "fields": list(row.fields),
            "evaluations": row.evaluations,
            "splitting_order": row.splitting_order,
            "order": row.order,
            "untied_order": row.untied_order,
        }
        return computed | ({"measured": row.measured and _finite(row.measured)} if self.measured else {})


def _finite(measured: Measured) -> dict[str, float | None]:
    """For JSON, which has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in measured._asdict().items()}


def orders(texts: Iterable[str] = (), measured: bool = False) -> Orders:
    """The orders of these schemes (names of rows or notations), or of the whole table."""
    return Orders(tuple(rows(texts, measured)), measured)


def rows(texts: Iterable[str] = (), measured: bool = False) -> list[Row]:
    """A row per text; without texts, a row per entry of the table."""
    chosen = [scheme(text) for text in texts] or list(SCHEMES.values())  # every notation is read before work begins
    return [_row(s, measured) for s in chosen]


def _row(s: Scheme, measured: bool) -> Row:
    unsplit = len({part.colours for _, part in s.substeps}) == 1
    return Row(
        name_of(s), str(s), s.fields, s.evaluations, s.splitting_order, s.order, s.untied_order, unsplit,
        measure(s) if measured else None,
    )  # fmt: skip


def _shown(order: int | None) -> str:
    return "-" if order is None else f"{order}+" if order == HIGHEST else str(order)


def measure(scheme: Scheme) -> Measured | None:
    """The scheme's orders, measured; None where a part replaces the state, for then no equation is approached.

    The error of n steps is the distance to a reference solution by another integrator (Dormand-Prince 8(5,3)); where
    the scheme projects, no reference exists and the error is the distance between n and 2n steps.
    """
    if scheme.replaces:
        return None
    timed = _slope(scheme, 1.0, letter)
    tied = len({name[0] for name in scheme.fields}) == len(scheme.fields)
    return Measured(_slope(scheme, 0.0, letter), timed, timed if tied else _slope(scheme, 1.0, str))


def _slope(scheme: Scheme, v: float, colouring: Colouring) -> float:
    """log2 of the ratio of errors when n doubles, at the finest n whose errors are all above FLOOR.

    The same rule for every scheme: n = COARSEST, 2 COARSEST, ... FINEST.
    """
    errors = _errors(scheme, v, colouring)
    coarse, fine = next(errors), next(errors)
    for finer in errors:
        if finer < FLOOR:
            break
        coarse, fine = fine, finer
    return math.log2(coarse / fine) if coarse > 0 and fine > 0 else math.nan


def _errors(scheme: Scheme, v: float, colouring: Colouring) -> Iterator[float]:
    counts = [COARSEST * 2**k for k in range(int(math.log2(FINEST // COARSEST)) + 1)]
    ends = (_end(scheme, v, n, colouring) for n in counts)
    if not scheme.projections:
        exact = _reference(_terms(scheme, colouring), v)
        yield from (_distance(x, exact) for x in ends)
        return
    last = next(ends)
    for x in ends:
        yield _distance(x, last)
        last = x


def _distance(x: Tensor, y: Tensor) -> float:
    return (x - y).norm().item()


@torch.no_grad()
def _end(scheme: Scheme, v: float, n: int, colouring: Colouring) -> Tensor:
    """The state at END after n steps; a doubled state is stacked."""
    fields: dict[str, Field] = {name: _field(colouring(name), v) for name in scheme.fields}
    fields |= dict.fromkeys(scheme.projections, _normalise)
    x = _start()
    state: State = (x, x.flip(0)) if scheme.doubled else x
    state = integrate(scheme, uniform(fields, END, n), state)
    return torch.stack(state) if scheme.doubled else state


def _terms(scheme: Scheme, colouring: Colouring) -> tuple[Term, ...]:
    """The terms of the equation that the scheme approaches."""
    found: dict[tuple[str, str], float] = {}
    for weight, part in scheme.substeps:
        for name in part.fields:
            key = colouring(name), part.half
            found[key] = found.get(key, 0.0) + float(weight * part.fraction)
    return tuple(Term(*key, share) for key, share in sorted(found.items()))


def _start() -> Tensor:
    return _random("start", SHAPE)


def _random(seed: str, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(list(map(ord, seed))).standard_normal(shape))


@lru_cache
def _field(name: str, v: float) -> Field:
    """f_L(t, x) = sin(x W_L + v v_L cos 3t)."""
    width = SHAPE[-1]
    weight, shift = 1.5 * _random(name, (width, width)) / math.sqrt(width), v * _random(f"{name}t", (width,))

    def f(t: Time, x: Tensor, context: Any) -> Tensor:
        return torch.sin(torch.addmm(shift * math.cos(3 * t), x, weight))

    return f


def _normalise(t: Time, x: Tensor, context: Any) -> Tensor:
    """Layer norm without weights; eps = 0, so that it is a projection."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=0.0)


@lru_cache
def _reference(terms: tuple[Term, ...], v: float) -> Tensor:
    """The solution at END by scipy, of the equation of these terms."""
    start = torch.stack([_start(), _start().flip(0)]) if terms[0].half else _start()[None]

    def slope(t: float, flat: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        x = torch.from_numpy(flat).view(start.shape)
        slopes = torch.zeros_like(x)
        for name, half, share in terms:
            moves = half == "b"
            slopes[int(moves)] += share * _field(name, v)(t, x[int(not moves) if half else 0], None)
        return slopes.flatten().numpy()

    solved = solve_ivp(slope, (0.0, END), start.flatten().numpy(), method="DOP853", rtol=1e-13, atol=1e-13)
    assert solved.success, solved.message
    end = torch.from_numpy(solved.y[:, -1].copy()).view(start.shape)
    return end if terms[0].half else end[0]

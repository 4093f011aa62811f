"""Explicit Butcher tableaux: how one sub-flow is advanced over its fraction of a step. No torch here."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import isclose
from numbers import Rational, Real
from typing import Any

from .support.registry import Registry

Coefficient = Fraction | float
LARGEST = 10**9  # of a coefficient: above it rounding would swamp the checks of sums
SHORT = 10**9  # the largest denominator of a decimal that is a fraction: nine digits after the point


def coefficient(value: Fraction | float) -> Coefficient:
    """The number as this package keeps it: an exact `Fraction`, or a `float` that is not a short decimal.

    A float is kept as the fraction that its decimal text shows if the denominator is at most SHORT: 0.1 is 1/10.
    """
    number: Any = value
    if not (isinstance(number, Real) and abs(value) < LARGEST):
        raise ValueError("a coefficient must be a number below 10^9 in size, such as 1/2 or 0.675.")
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    exact = Fraction(repr(float(value)))
    return exact if exact.denominator <= SHORT else float(value)


@dataclass(frozen=True)
class Tableau:
    """Explicit Runge-Kutta method with stages k_j = f(t + c_j h, x + h sum_i a_ji k_i), x' = x + h sum_j b_j k_j."""

    name: str
    a: tuple[tuple[Coefficient, ...], ...]
    b: tuple[Coefficient, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", tuple(tuple(map(coefficient, row)) for row in self.a))
        object.__setattr__(self, "b", tuple(map(coefficient, self.b)))
        if not re.fullmatch(r"[a-z]\w*", self.name):
            raise ValueError(f"A tableau's name is a word in lower case, such as heun for @heun; got {self.name!r}.")
        rows = [len(row) for row in self.a]
        if rows != list(range(len(self.b))):
            raise ValueError(
                f"Tableau {self.name!r}: `a` must be strictly lower triangular, rows of length "
                f"{list(range(len(self.b)))}; got rows of length {rows}."
            )
        if not isclose(sum(self.b), 1):
            raise ValueError(f"Tableau {self.name!r}: the weights `b` must sum to 1; got {sum(self.b)}.")

    @property
    def c(self) -> tuple[Coefficient, ...]:
        return tuple(sum(row, Fraction(0)) for row in self.a)


def _rational(name: str, a: list[list[str]], b: list[str]) -> Tableau:
    return Tableau(name, tuple(tuple(map(Fraction, row)) for row in a), tuple(map(Fraction, b)))


EULER = _rational("euler", [[]], ["1"])
MIDPOINT = _rational("midpoint", [[], ["1/2"]], ["0", "1"])
HEUN = _rational("heun", [[], ["1"]], ["1/2", "1/2"])
KUTTA3 = _rational("kutta3", [[], ["1/2"], ["-1", "2"]], ["1/6", "2/3", "1/6"])
RK4 = _rational("rk4", [[], ["1/2"], ["0", "1/2"], ["0", "0", "1"]], ["1/6", "1/3", "1/3", "1/6"])
BUTCHER5 = _rational(  # of the highest order that is tested
    "butcher5",
    [
        [],
        ["1/4"],
        ["1/8", "1/8"],
        ["0", "-1/2", "1"],
        ["3/16", "0", "0", "9/16"],
        ["-3/7", "2/7", "12/7", "-12/7", "8/7"],
    ],
    ["7/90", "0", "16/45", "2/15", "16/45", "7/90"],
)
EXACT = Tableau("exact", BUTCHER5.a, BUTCHER5.b)  # of a sub-flow that its field solves: for the order, BUTCHER5 does


def _accept(value: Any) -> Tableau:
    if isinstance(value, Tableau) and value.name != EXACT.name:
        return value
    raise ValueError(f"it is not a splitstep.Tableau with a free name but {value!r:.40}")


TABLEAUX = Registry("tableau", {t.name: t for t in (EULER, MIDPOINT, HEUN, KUTTA3, RK4)}, "tableaux", _accept)

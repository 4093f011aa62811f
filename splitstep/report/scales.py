"""Axes of charts: what they show, where a value stands between 0 and 1, and which values have marks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from .charts import Axis, BarChart, ComplexPlane, HeatMap, LineChart, PlainChart, PointChart, TrailChart

MARKS = 6  # at most about as many on an axis
ROOM = 0.05  # beside the data, of their range


class Scale(NamedTuple):
    """A range of values along an axis, linear or logarithmic."""

    low: float
    high: float
    log: bool
    form: str
    apart: float = 0.0  # the least distance between two marks
    outside: bool = False  # some values have no place, since a logarithmic axis shows positive ones alone

    def at(self, value: float) -> float:
        """Where a value stands: 0 at the low end and 1 at the high end; on a logarithmic axis, zero is far below."""
        if self.log:
            low, high, value = math.log(self.low), math.log(self.high), math.log(max(value, 1e-300))
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low)

    def marks(self) -> list[tuple[float, str]]:
        """Values with marks, and how they are written; none if they have no format."""
        if not self.form:
            return []
        if self.log and math.log10(self.high) - math.log10(self.low) >= 0.9:
            return [(value, short(value)) for value in decades(self.low, self.high)]
        step = max(nice((self.high - self.low) / MARKS), self.apart)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(k * step, self.write(k * step, step)) for k in range(first, last + 1)]

    def write(self, value: float, step: float) -> str:
        """A value with as many decimals as its step needs."""
        if "%" in self.form:
            return f"{value:.{decimals(step * 100)}%}"
        return short(value, step) if abs(self.high) >= 10_000 else f"{value:,.{decimals(step)}f}"


def scale(axis: Axis, values: Iterable[float], room: float = ROOM) -> Scale:
    """The scale of an axis that shows these values, with a little room beside them."""
    every = [value for value in values if math.isfinite(value)]
    positive = [value for value in every if value > 0]
    log = axis.log and bool(positive)
    found = positive if log else every
    low, high = axis.shown or (min(found, default=0.0), max(found, default=1.0))
    if axis.shown is None and log:
        wider = math.exp(room * max(math.log(high) - math.log(low), 0.1))
        low, high = max(low / wider, 1e-300), high * wider
    elif axis.shown is None:
        wider = room * (high - low) or abs(high) * room or 1.0
        low, high = low - wider, high + wider
    return Scale(low, high, log, axis.form, axis.apart, len(found) < len(every))


def extent(chart: PlainChart) -> tuple[list[float], list[float]]:
    """All figures along both axes; those of a heat map are its values."""
    match chart:
        case LineChart():
            ys = [y for line in chart.lines for y in (*line.y, *line.low, *line.high)]
            return [x for line in chart.lines for x in line.x], ys if chart.level is None else [*ys, chart.level]
        case PointChart():
            ends = (y for one in chart.points for y in (one.y, one.low, one.high))
            return [one.x for one in chart.points], [y for y in ends if y is not None]
        case TrailChart():
            return [x for one in chart.trails for x in one.x], [y for one in chart.trails for y in one.y]
        case BarChart():
            return [x for bar in chart.bars for x in (0.0, bar.value, bar.low, bar.high) if x is not None], []
        case HeatMap():
            return [abs(value) for row in chart.values for value in row], []
        case ComplexPlane():
            every = [z for _, group in chart.groups for z in group]
            return [z.real for z in every], [z.imag for z in every]


def nice(step: float) -> float:
    """The next larger 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def decimals(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten in a range; if it is a wide one, powers of ten alone, or some of them."""
    span = math.log10(high) - math.log10(low)
    factors = (1, 2, 5) if span < 3 else (1,)
    every = max(1, math.ceil(span / (MARKS + 1)))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers if power % every == 0 for factor in factors]
    return [value for value in found if low <= value <= high]


def short(value: float, step: float | None = None) -> str:
    """A large number with a letter for its thousands, and with as many decimals as its step needs: 2.5M."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e15):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(value) >= factor:
            digits = ".4g" if step is None else f".{decimals(step / factor)}f"
            return f"{value / factor:{digits}}{letter}"
    return f"{value:.4g}"

"""How sentences about a model spell figures: means over texts with their intervals, and what an interval decides."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ...experiments.experiment import Rule, Sample, decide
from ...experiments.statistics import FEWEST, UNBOUNDED, Bounds, Estimate
from ...support.words import counted, listed
from .result import Figures, ModelFindings, Series

ZERO = Rule()
POSITIVE, SHARES = Bounds(0.0), Bounds(0.0, 1.0)  # of losses, and of shares
NAMED = 6  # layers that a sentence names


def over_texts(values: Iterable[float], bounds: Bounds = UNBOUNDED) -> Estimate | None:
    """The mean over texts with its interval.

    Figures that are the same on all texts show no spread but a fact, such as what a layer costs that does nothing:
    their interval is a point.
    """
    found = Sample({i: x for i, x in enumerate(values) if math.isfinite(x)}, bounds).mean()
    if found is not None and found.low is None and found.n >= FEWEST:
        return found._replace(low=found.mean, high=found.mean)
    return found


def above(values: Iterable[float], rule: Rule = ZERO) -> bool:
    """Whether the whole interval is above a level."""
    return decide(over_texts(values), rule) == "supported"


def below(values: Iterable[float], rule: Rule = ZERO) -> bool:
    """Whether the whole interval is below a level."""
    return decide(over_texts(values), rule) == "not supported"


def undecided(values: Iterable[float], rule: Rule) -> bool:
    """Whether the interval contains a level, or there is none."""
    return decide(over_texts(values), rule) == "undecided"


class Unit(NamedTuple):
    """How figures are written: as decimals or per cent, with one digit more if all are small."""

    style: Literal["f", "%"]
    digits: int
    word: str = ""  # behind the first of them
    sign: Literal["", "+"] = ""

    def written(self, *values: float) -> list[str]:
        scale = 100 if self.style == "%" else 1
        more = max(map(abs, values)) * scale < 10 ** (1 - self.digits)
        return [f"{round(x, 9) + 0.0:{self.sign}.{self.digits + more}{self.style}}" for x in values]  # no minus zero

    def spelt(self, found: Estimate | None) -> str:
        """A mean with its interval, and of how many texts: 0.58 nats [0.41, 0.75] on 4 texts."""
        return "unknown" if found is None else f"{self.interval(found)} {on(found.n)}"

    def interval(self, found: Estimate) -> str:
        """A mean with its interval: 0.58 nats [0.41, 0.75]."""
        if found.low is None or found.high is None:
            return f"{self.written(found.mean)[0]}{self.word}"
        if found.low == found.high:
            whole = f"{100 * found.mean:.6g}%" if self.style == "%" else f"{found.mean:.6g}"
            return f"exactly {whole}{self.word}"
        mean, low, high = self.written(found.mean, found.low, found.high)
        return f"{mean}{self.word} [{low}, {high}]"

    @property
    def signed(self) -> "Unit":
        return self._replace(sign="+")

    @property
    def change(self) -> "Unit":
        """For changes: those of an output have no sign, and one need not say of what they are."""
        return self._replace(word="") if self.style == "%" else self.signed


NATS, PLAIN, SHARE = Unit("f", 2, " nats"), Unit("f", 2), Unit("%", 0)
OF_OUTPUT = Unit("%", 1, " of the output")


def unit_of(model: ModelFindings) -> Unit:
    """What costs are in: nats, the loss of a task that is no choice among several, or shares of the output."""
    if not model.losses:
        return OF_OUTPUT
    health = model.evidence.health
    return PLAIN if health is not None and health.guess is None else NATS


def costs(model: ModelFindings, found: Estimate | None) -> str:
    """What a cut does: the loss changes by +0.58 nats [+0.41, +0.75] on 4 texts."""
    return f"the {'loss' if model.losses else 'output'} changes by {unit_of(model).change.spelt(found)}"


def columns(found: Series | None) -> Mapping[int, Figures]:
    """The figures of a series by layer or state, text by text."""
    return {} if found is None else dict(zip(found.numbers, zip(*found.figures, strict=True), strict=True))


def minus(one: Iterable[float], other: Iterable[float]) -> list[float]:
    """The differences on the texts that both have: the first ones."""
    return [a - b for a, b in zip(one, other, strict=False)]


def layers(numbers: Sequence[int]) -> str:
    """Layers by their numbers: layer 3; layers 3, 4 and 5."""
    return f"layer{'s' * (len(numbers) > 1)} {first_few([*map(str, numbers)])}"


def among(model: ModelFindings) -> str:
    """The layers that were left out, such as layers 0 to 9; empty if these are all."""
    numbers = sorted(one.layer for one in model.skipped)
    if not numbers or len(numbers) == model.layers:
        return ""
    whole = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"layers {numbers[0]} to {numbers[-1]}" if whole else layers(numbers)


def first_few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return listed([*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else names)


def on(texts: int) -> str:
    return f"on {counted(texts, 'text')}"


def sentence(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]

"""A network as a numerical integration: a list of steps and a scheme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from .integrate import At, Observe, Site, Step, Time, integrate
from .reversible import integrate_reversibly
from .scheme import Scheme


class Stack(nn.Module):
    """`layers` steps of one scheme, each with its own fields; `make(name, layer)` builds the field of that name.

    Layer i starts at t = i * step. Where the scheme is doubled the pair starts as (x, x) and ends as its mean, and
    training rebuilds states instead of storing them.
    """

    def __init__(self, scheme: Scheme, layers: int, make: Callable[[str, int], nn.Module], step: float = 1.0) -> None:
        super().__init__()
        self.scheme = scheme
        self.step = step
        names = (*scheme.fields, *scheme.projections)
        self.layers = nn.ModuleList(nn.ModuleDict({name: make(name, i) for name in names}) for i in range(layers))
        self.places = {letter: places(scheme, letter) for letter in {name[0] for name in names}}

    def slot(self, site: Site, letter: str) -> int | None:
        """A number for an evaluation of the letter, dense over the network: where a cache keeps its keys and values."""
        place = self.places[letter].get(site[1:])
        return None if place is None else site.step * len(self.places[letter]) + place

    def steps(self, t: Time = 0.0) -> list[Step]:
        return [Step(layer, t + i * self.step, self.step) for i, layer in enumerate(self.layers)]  # pyright: ignore[reportArgumentType]

    def forward(
        self, x: Tensor, context: Any = None, observe: Observe | None = None, at: At | None = None, t: Time = 0.0
    ) -> Tensor:
        if not self.scheme.doubled:
            return integrate(self.scheme, self.steps(t), x, context, observe, at)
        rebuild = self.training and observe is None and len(self.scheme.branches) == 1
        run = integrate_reversibly if rebuild else integrate
        a, b = run(self.scheme, self.steps(t), (x, x), context, observe, at)
        return (a + b) / 2


def places(scheme: Scheme, letter: str) -> dict[tuple[int, int, int], int]:
    """(part, stage, branch) of one step's evaluations of a letter, numbered."""
    found = [
        (part, stage, branch)
        for branch, (_, program) in enumerate(scheme.plan)
        for part, move in enumerate(program)
        if any(name[0] == letter for name in move.fields)
        for stage in range(len(move.stages))
    ]
    return {place: number for number, place in enumerate(found)}

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
        places = [
            (b, p, s)
            for b, (_, prog) in enumerate(scheme.plan)
            for p, m in enumerate(prog)
            for s in range(len(m.stages))
        ]
        self.places = {place: k for k, place in enumerate(places)}

    def slot(self, site: Site) -> int:
        """A number for the evaluation, dense over the whole network: where a cache keeps its keys and values."""
        return site.step * len(self.places) + self.places[site.branch, site.part, site.stage]

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

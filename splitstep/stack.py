"""A network as a numerical integration: a list of steps and a scheme."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from .integrate import At, Observe, Run, Site, Step, Time, integrate, refine
from .reversible import integrate_reversibly
from .scheme import Scheme


class Stack(nn.Module):
    """`layers` steps of one scheme, each with its own fields; `make(name, layer)` builds the field of that name.

    Layer i starts at t = i * step, or, if `forward` is given the layers' lengths, at the sum of those before it.
    `substeps` cuts each layer into that many equal steps of the same fields. If the scheme is doubled, the pair starts
    as (x, x), the result is its mean, and training rebuilds states instead of storing them.
    """

    def __init__(
        self, scheme: Scheme, layers: int, make: Callable[[str, int], nn.Module], step: float = 1.0, substeps: int = 1
    ) -> None:
        super().__init__()
        if layers < 1 or substeps < 1:
            raise ValueError(f"A stack has at least one layer of one step; got layers={layers}, substeps={substeps}.")
        self.scheme, self.step, self.substeps = scheme, step, substeps
        names = (*scheme.fields, *scheme.projections)
        _ = scheme.plan, scheme.doubled, scheme.replaces, scheme.solved  # cached now: a compiler cannot trace the locks
        self.layers = nn.ModuleList(nn.ModuleDict({name: make(name, i) for name in names}) for i in range(layers))
        self.numbers: dict[str, dict[tuple[int, int, int], int]] = {}

    def slot(self, site: Site, letters: str) -> int | None:
        """Where a cache keeps the keys and values of an evaluation of these letters; there are no gaps."""
        if letters not in self.numbers:
            self.numbers[letters] = numbered(self.scheme, letters)
        number = self.numbers[letters].get(site[1:])
        return None if number is None else site.step * len(self.numbers[letters]) + number

    def steps(self, t: Time = 0.0, lengths: Sequence[float] | None = None) -> list[Step]:
        """The steps that start at time t: `substeps` for each layer."""
        n = len(self.layers)
        if lengths is not None and len(lengths) != n:
            raise ValueError(f"{len(lengths)} lengths for {n} layers: give one for each layer, or none.")
        starts = [i * self.step if lengths is None else sum(lengths[:i]) for i in range(n)]
        hs = lengths or [self.step] * n
        steps = [Step(layer, t + start, h) for layer, start, h in zip(self.layers, starts, hs, strict=True)]  # pyright: ignore[reportArgumentType]
        return refine(steps, self.substeps) if self.substeps > 1 else steps

    def forward(
        self,
        x: Tensor,
        context: Any = None,
        observe: Observe | None = None,
        at: At | None = None,
        t: Time = 0.0,
        lengths: Sequence[float] | None = None,
        run: Run | None = None,
    ) -> Tensor:
        steps = self.steps(t, lengths)
        if not self.scheme.doubled:
            return integrate(self.scheme, steps, x, context, observe, at, run)
        if self.training and observe is None and len(self.scheme.branches) == 1:
            a, b = integrate_reversibly(self.scheme, steps, (x, x), context, observe, at)
        else:
            a, b = integrate(self.scheme, steps, (x, x), context, observe, at, run)
        return (a + b) / 2


def numbered(scheme: Scheme, letters: str) -> dict[tuple[int, int, int], int]:
    """(part, stage, branch) of one step's evaluations of these letters, numbered."""
    found = [
        (part, stage, branch)
        for branch, (_, program) in enumerate(scheme.plan)
        for part, move in enumerate(program)
        if any(name[0] in letters for name in move.fields)
        for stage in range(len(move.stages))
    ]
    return {evaluation: number for number, evaluation in enumerate(found)}

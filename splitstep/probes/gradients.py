"""How gradients flow back through the layers."""

from collections.abc import Iterable, Iterator, Sequence
from math import exp, log, nan
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from ..integrate import Event
from .probe import Figures, Pass, Probe, begins_step, numbers, wide


class Weight(NamedTuple):
    """A parameter of a stack: its group, such as A.qkv, and its layer."""

    group: str
    layer: int
    value: nn.Parameter


@final
class Gradients(Probe):
    """Norms of the gradient of the batch's loss, over all tokens and coordinates.

    "x": |dloss/dx_l| for the states x_l at the start of each layer and, last, at the end of the stack. "growth": how
    much the gradient grows on its way back through each layer, |dloss/dx_l| / |dloss/dx_{l+1}|; "rate": the geometric
    mean of that. Then a series for each group of parameters, such as A.qkv, with a number for each layer. Of a doubled
    state it is the derivative along a common shift of both halves.
    """

    gradients = True

    def __init__(self) -> None:
        self.kept: list[tuple[Tensor, ...]] = []

    def __call__(self, event: Event) -> None:
        if begins_step(event):
            self.kept.append(event.state if isinstance(event.state, tuple) else (event.state,))

    def halves(self, passed: Pass) -> list[tuple[Tensor, ...]]:
        """The states by which the loss is differentiated; a pair that begins as one tensor counts once."""
        kept = self.kept[:: passed.stack.substeps]
        return [tuple({id(half): half for half in halves}.values()) for halves in (*kept, (passed.x,))]

    def sources(self, passed: Pass) -> Sequence[Tensor]:
        states = [half for halves in self.halves(passed) for half in halves]
        return [*states, *(weight.value for weight in weights_of(passed))]

    def figures(self, passed: Pass) -> Figures:
        found = iter(passed.gradients)
        sums = (torch.stack([next(found) for _ in halves]).sum(0) for halves in self.halves(passed))
        states = [norm(one, passed.real) for one in sums]
        groups: dict[str, dict[int, list[Tensor]]] = {}
        for weight, gradient in zip(weights_of(passed), found, strict=True):
            groups.setdefault(weight.group, {}).setdefault(weight.layer, []).append(norm(gradient, None))
        series = {"x": states} | {name: list(map(root, layers.values())) for name, layers in groups.items()}
        read = iter(numbers([one for values in series.values() for one in values]))
        out = {name: tuple(next(read) for _ in values) for name, values in series.items()}
        growth = tuple(a / b if b else nan for a, b in zip(out["x"], out["x"][1:], strict=False))
        return {"x": out.pop("x"), "growth": growth, "rate": (geometric_mean(growth),), **out}


def weights_of(passed: Pass) -> Iterator[Weight]:
    """The parameters of the stack that are trained."""
    for number, layer in enumerate(passed.stack.layers):
        for name, value in layer.named_parameters():
            if value.requires_grad:
                field, _, rest = name.partition(".")
                yield Weight(f"{field}.{rest.rpartition('.')[0] or rest}", number, value)


def norm(gradient: Tensor, real: Tensor | None) -> Tensor:
    """The root of the sum of squares, without padding."""
    if real is not None:
        gradient = torch.where(real[..., None], gradient, 0)
    return torch.linalg.vector_norm(gradient, dtype=wide(gradient))


def root(norms: Sequence[Tensor]) -> Tensor:
    return torch.linalg.vector_norm(torch.stack(list(norms)))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; not a number if a value is not positive."""
    known = list(values)
    return exp(sum(map(log, known)) / len(known)) if all(value > 0 for value in known) else nan

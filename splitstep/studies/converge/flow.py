"""A network on a batch as an initial-value problem: what is integrated, from which state, and what is read out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...integrate import Step, integrate, refine
from ...kernels.loss import IGNORED, shifted
from ...models import CausalConfig, SplitstepModel
from ...models.base import all_stacks
from ...notation import shown
from ...probes.splitting import SUM, advanced, summed
from ...scheme import Scheme
from ...stack import Stack


@dataclass(frozen=True)
class Flow:
    """x' = the sum of the fields from x at t = 0, by one step per layer (or `substeps`), and finish(x) -> logits.

    `real` [B, T] is False for padding; `scored` has the shape of the logits without their last axis and is False where
    nothing is predicted. Anything that can be written so can be studied, whoever made the network.
    """

    scheme: Scheme
    steps: Sequence[Step]
    x: Tensor
    context: Any
    finish: Callable[[Tensor], Tensor]
    real: Tensor | None = None
    scored: Tensor | None = None
    substeps: int = 1

    def end(self, scheme: Scheme | None = None, substeps: int | None = None, factor: float = 1.0) -> Tensor:
        """The state after all layers: of the network itself, or with another scheme, other sub-steps, longer steps."""
        steps = refine(scaled(self.steps, factor), substeps or self.substeps)
        return advanced(scheme or self.scheme, steps, self.x, self.context)

    def limit(self, substeps: int, factor: float = 1.0) -> Tensor:
        """The state after all layers as their number of sub-steps grows: rk4 on the sum of the fields."""
        steps = [one._replace(fields=summed(self.scheme, one)) for one in scaled(self.steps, factor)]
        return integrate(SUM, refine(steps, substeps), self.x, self.context)

    def states(self) -> list[Tensor]:
        """The state before each layer and after the last, by the network's own scheme; of a pair the mean."""
        found = [self.x]
        for step in self.steps:
            found.append(advanced(self.scheme, refine([step], self.substeps), found[-1], self.context))
        return found


def scaled(steps: Sequence[Step], factor: float) -> list[Step]:
    """The same fields with steps `factor` times as long."""
    return [Step(one.fields, factor * one.t, factor * one.h) for one in steps]


def check_equation(scheme: Scheme) -> None:
    """Refuse a scheme that approximates no equation."""
    if scheme.replaces or scheme.projections:
        raise ValueError(
            f"A part of {shown(scheme)!r} projects or replaces the state, so there is no equation that shorter steps "
            "approach: use a network whose parts all add, such as one trained with scheme=lie."
        )


def flow_of(model: SplitstepModel, batch: Mapping[str, Tensor]) -> Flow:
    """The flow of a model on a batch. The model is run once; `finish` runs what follows its stack."""
    stacks = list(all_stacks(model))
    if len(stacks) != 1:
        raise ValueError(f"A {model.config.model_type} model has {len(stacks)} stacks: use a model with one.")
    [stack] = stacks
    check_equation(stack.scheme)
    given = {name: as_input(x, model) for name, x in batch.items() if name != "labels"}
    start: list[Any] = []
    with stack.register_forward_pre_hook(lambda _, inputs: start.extend(inputs[:2])):
        logits = model(**given, use_cache=False).logits

    def finish(x: Tensor) -> Tensor:
        with standing_in(stack, x):
            return model(**given, use_cache=False).logits

    x, context = start
    steps = [Step(layer, i * stack.step, stack.step) for i, layer in enumerate(stack.layers)]  # pyright: ignore
    mask = given.get("attention_mask")
    scored = predicted(model, batch, logits)
    return Flow(stack.scheme, steps, x, context, finish, mask if mask is None else mask.bool(), scored, stack.substeps)


def as_input(x: Tensor, model: SplitstepModel) -> Tensor:
    x = x.to(model.device)
    return x.to(model.dtype) if x.is_floating_point() else x


def predicted(model: SplitstepModel, batch: Mapping[str, Tensor], logits: Tensor) -> Tensor | None:
    """Which logits are scored; None: all."""
    labels = batch.get("labels")
    if labels is None or labels.ndim < logits.ndim - 1:
        return None
    aligned = shifted(labels) if isinstance(model.config, CausalConfig) else labels
    return (aligned != IGNORED).to(logits.device)


@contextmanager
def standing_in(stack: Stack, x: Tensor) -> Iterator[None]:
    """The stack returns x instead of running."""
    stack.forward = lambda *inputs, **named: x  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        del stack.forward

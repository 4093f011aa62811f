"""A network on a batch as an initial-value problem: what is integrated, from which state, and what is read out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...flows import Flow
from ...flows.flow import OwnFlow
from ...integrate import Field, Step, Time, integrate, refine
from ...kernels.loss import IGNORED, shifted
from ...models import CausalConfig, SplitstepModel
from ...models.base import all_stacks
from ...probes.splitting import SUM, advanced, summed
from ...scheme import Scheme, shown


class Way(NamedTuple):
    """A way to run a network's fields: by a scheme, or (None) by their continuous limit, which is rk4 on their sum with
    many sub-steps. The step is `factor` times as long; `merged` neighbouring layers are one step."""

    scheme: Scheme | None
    substeps: int
    factor: float = 1.0
    merged: int = 1


@dataclass(frozen=True)
class Problem:
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

    def end(self, way: Way | None = None) -> Tensor:
        """The state after all layers: of the network itself, or by another way to run its fields."""
        scheme, substeps, factor, merged = way or Way(self.scheme, self.substeps)
        steps = [Step(one.fields, factor * one.t, factor * one.h) for one in merge(self.steps, merged)]
        if scheme is not None:
            return advanced(scheme, refine(steps, substeps), self.x, self.context)
        whole = [one._replace(fields=summed(self.scheme, one)) for one in steps]
        return integrate(SUM, refine(whole, substeps), self.x, self.context)

    def states(self) -> list[Tensor]:
        """The state before each layer and after the last, by the network's own scheme; of a pair the mean."""
        found = [self.x]
        for step in self.steps:
            found.append(advanced(self.scheme, refine([step], self.substeps), found[-1], self.context))
        return found


def merge(steps: Sequence[Step], many: int) -> list[Step]:
    """Every `many` neighbouring layers as one step over their whole time, with the mean of their fields: all of them
    are evaluated at the same state. The last step has the layers that are left."""
    if many == 1:
        return list(steps)
    return [one_step(steps[i : i + many]) for i in range(0, len(steps), many)]


def one_step(steps: Sequence[Step]) -> Step:
    h = sum(one.h for one in steps)
    return Step(
        {name: mean_field([(one.h / h, one.fields[name]) for one in steps]) for name in steps[0].fields}, steps[0].t, h
    )


def mean_field(weighted: Sequence[tuple[float, Field]]) -> Field:
    def mean(t: Time, x: Tensor, context: Any) -> Tensor:
        return torch.stack([weight * field(t, x, context) for weight, field in weighted]).sum(0)

    return mean


def no_equation(scheme: Scheme) -> str:
    """Why a scheme approximates no equation; empty if it does."""
    if not (scheme.replaces or scheme.projections):
        return ""
    return (
        f"a part of {shown(scheme)!r} projects or replaces the state, so there is no equation that shorter steps "
        "approach"
    )


def check_equation(scheme: Scheme) -> None:
    """Refuse a scheme that approximates no equation."""
    if why := no_equation(scheme):
        raise ValueError(
            f"{why[0].upper()}{why[1:]}: use a network whose parts all add, such as one trained with scheme=lie."
        )


def problem_of_flow(flow: Flow, inputs: Mapping[str, Any], scored: Tensor | None = None) -> Problem:
    """The main stack of any model on its inputs. Stacks before it, such as an encoder, run as they are."""
    stack, doubled = flow.stacks[flow.main], flow.scheme.doubled
    start, context = flow.embed(inputs), flow.context(inputs)
    steps = [Step(layer, i * stack.step, stack.step) for i, layer in enumerate(stack.layers)]  # pyright: ignore
    mask = inputs.get("decoder_attention_mask" if "decoder_input_ids" in inputs else "attention_mask")
    return Problem(
        stack.scheme, steps, start[0] if doubled else start, context,
        lambda x: flow.head((x, x) if doubled else x, context), None if mask is None else mask.bool(), scored,
        stack.substeps,
    )  # fmt: skip


def problem_of(model: SplitstepModel, batch: Mapping[str, Tensor]) -> Problem:
    """One of our own models on a batch of its task."""
    stacks = list(all_stacks(model))
    if len(stacks) != 1:
        raise ValueError(f"A {model.config.model_type} model has {len(stacks)} stacks: use a model with one.")
    check_equation(stacks[0].scheme)
    given = {name: moved(x, model) for name, x in batch.items() if name != "labels"}
    labels, logits = labels_of(model, batch), model(**given, use_cache=False).logits
    scored = None if labels is None or labels.ndim < logits.ndim - 1 else (labels != IGNORED).to(logits.device)
    return problem_of_flow(OwnFlow(model), given, scored)


def moved(x: Tensor, model: SplitstepModel) -> Tensor:
    """An input where the model is, numbers in its precision."""
    return x.to(model.device, model.dtype if x.is_floating_point() else x.dtype)


def labels_of(model: SplitstepModel, batch: Mapping[str, Tensor]) -> Tensor | None:
    """The label of each prediction, in a causal model that of the next token."""
    labels = batch.get("labels")
    return shifted(labels) if labels is not None and isinstance(model.config, CausalConfig) else labels

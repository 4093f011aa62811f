"""What becomes of a model when a layer is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...flows import Flow
from ...flows.blocks import first_float
from ...integrate import integrate
from ...models import SplitstepModel

SAME = 1e-3  # of the largest logit: by how much later tokens may change what earlier ones predict


class Judge(NamedTuple):
    """How a model's output is judged: by the loss it returns, by the next token, or only by how it changes."""

    by: Literal["labels", "next token", "output"]

    @staticmethod
    def of(flow: Flow, inputs: Mapping[str, Any]) -> Judge:
        """The loss of our own models needs labels; that of others is the next token's, if they predict it."""
        if isinstance(flow.model, SplitstepModel):
            return Judge("labels" if inputs.get("labels") is not None else "output")
        return Judge("next token" if predicts_next(flow, inputs) else "output")

    def given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of the pass."""
        return {name: x for name, x in inputs.items() if name != "labels" or self.by == "labels"}

    def loss(self, output: Tensor, inputs: Mapping[str, Any]) -> float | None:
        """Nats for each prediction."""
        if self.by == "labels":
            return float(output) if output.numel() == 1 else None
        if self.by == "output":
            return None
        ids = inputs["input_ids"][:, 1:].to(output.device)
        return float(cross_entropy(output[:, :-1].double().flatten(0, 1), ids.flatten()))


@torch.no_grad()
def predicts_next(flow: Flow, inputs: Mapping[str, Any]) -> bool:
    """Whether the output are logits over the vocabulary that do not depend on later tokens."""
    ids = inputs.get("input_ids")
    if ids is None or ids.shape[1] < 2 or "decoder_input_ids" in inputs:
        return False
    config: Any = flow.model.config
    words = config.get_text_config().vocab_size
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % words
    mask = {"attention_mask": inputs["attention_mask"]} if "attention_mask" in inputs else {}
    device = next(flow.model.parameters()).device
    one, two = (first_float(flow.model(**on(device, {"input_ids": x, **mask}))) for x in (ids, other))
    if one is None or two is None or one.shape != (*ids.shape, words):
        return False
    return bool((one[:, :-1] - two[:, :-1]).abs().max() <= SAME * one.abs().max())


def on(device: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x.to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()}


@torch.no_grad()
def skipped_layers(flow: Flow, inputs: Mapping[str, Any], judge: Judge, layers: Sequence[int]) -> dict[int, float]:
    """What changes if a layer is left out: the loss minus the model's own, or |y' - y| / |y| of the output. The entry
    -1 is the model's own loss, if it has one."""
    given, stack = judge.given(inputs), flow.stacks[flow.main]
    if not layers and judge.by == "output":
        return {}
    context, steps, k = flow.context(given), stack.steps(), stack.substeps
    x, starts = flow.embed(given), list[Any]()
    for first in range(0, len(steps), k):
        starts.append(x)
        x = integrate(stack.scheme, steps[first : first + k], x, context)
    own = flow.head(x, context)
    loss = judge.loss(own, inputs)
    found = {} if loss is None else {-1: loss}
    for layer in layers:
        rest = steps[(layer + 1) * k :]
        end = integrate(stack.scheme, rest, starts[layer], context) if rest else starts[layer]
        found[layer] = change(judge, flow.head(end, context), own, inputs)
    return found


def change(judge: Judge, output: Tensor, own: Tensor, inputs: Mapping[str, Any]) -> float:
    before, after = (judge.loss(one, inputs) for one in (own, output))
    if before is not None and after is not None:
        return after - before
    return float((output - own).norm() / own.norm())

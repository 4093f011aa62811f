"""How a model's output is judged, text by text: by its own loss, by the next token, or only by how it changes."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...flows import Flow
from ...flows.blocks import first_float
from ...flows.examples import as_inputs, batch_of, called, examples_of
from ...integrate import State
from ...kernels.loss import IGNORED
from ...models import SplitstepModel
from ...probes.watching import row_of

SAME = 1e-3  # of the largest logit: by how much later tokens may change what earlier ones predict


class Judge(NamedTuple):
    """How a model's output is judged: by the loss it returns, by the next token, or only by how it changes.

    An output has a row for each text of a batch. That of "labels" are the losses themselves.
    """

    by: Literal["labels", "next token", "output"]

    @staticmethod
    def of(flow: Flow, inputs: Mapping[str, Any]) -> "Judge":
        """The loss of our own models needs labels; that of others is the next token's, if they predict it."""
        if isinstance(flow.model, SplitstepModel):
            return Judge("output" if inputs.get("labels") is None else "labels")
        return Judge("next token" if predicts_next(flow, inputs) else "output")

    def given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the model is given of these inputs: labels only if its own loss is what counts."""
        return {name: x for name, x in inputs.items() if name != "labels" or self.by == "labels"}

    def output(self, flow: Flow, x: State, context: Any, inputs: Mapping[str, Any]) -> Tensor:
        """What the model returns for these states after the last layer. A loss of its own is a mean over a batch, so
        the head reads one text after the other."""
        if self.by != "labels":
            return flow.head(x, context)
        batch, losses = batch_of(inputs), list[Tensor]()
        for i in range(batch):
            flow.last = as_inputs(flow.model, examples_of(inputs, batch, (i,)))
            losses.append(flow.head(row_of(x, i)).reshape(1))
        flow.last = as_inputs(flow.model, inputs)
        return torch.cat(losses)

    @torch.no_grad()
    def of_model(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """What a model returns for a batch by itself, without a flow; a loss of its own for one text after another."""
        batch = batch_of(inputs)
        rows = [examples_of(inputs, batch, (i,)) for i in range(batch)] if self.by == "labels" else [inputs]
        outputs = [first_float(called(model, as_inputs(model, row))[0]) for row in rows]
        return torch.cat([x.reshape(1) if self.by == "labels" else x for x in outputs if x is not None])

    def losses(self, output: Tensor, inputs: Mapping[str, Any]) -> list[float] | None:
        """Nats for each prediction, in the mean over those of each text; None: the model has no loss."""
        if self.by == "labels":
            return output.tolist()
        if self.by == "output":
            return None
        ids = inputs["input_ids"]
        words = ids.masked_fill(inputs.get("attention_mask", torch.ones_like(ids)) == 0, IGNORED)[:, 1:]
        rows = zip(output[:, :-1], words.to(output.device), strict=True)  # one at a time: logits are large
        return [float(cross_entropy(logits.double(), wanted, ignore_index=IGNORED)) for logits, wanted in rows]


def relative(output: Tensor, own: Tensor) -> list[float]:
    """|y' - y| / |y| of each row; 0 if nothing has changed, whatever y is."""
    moved, size = (torch.linalg.vector_norm(x.double().reshape(len(x), -1), dim=1) for x in (output - own, own))
    return (moved / size.clamp(min=torch.finfo(size.dtype).tiny)).tolist()


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
    both = (as_inputs(flow.model, {"input_ids": x, **mask}) for x in (ids, other))
    one, two = (first_float(flow.model(**inputs)) for inputs in both)
    if one is None or two is None or one.shape != (*ids.shape, words):
        return False
    return bool((one[:, :-1] - two[:, :-1]).abs().max() <= SAME * one.abs().max())

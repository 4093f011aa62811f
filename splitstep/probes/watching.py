"""One pass of a batch through a model or a flow, watched by several probes at once."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..fields import Context
from ..flows import Flow
from ..flows.blocks import first_float
from ..flows.examples import batch_of, examples_of
from ..flows.flow import one_state
from ..integrate import Event, Observe, State
from ..kernels.loss import IGNORED
from ..models.body import Body
from ..stack import Stack
from .probe import Figures, Pass, Probe, rows_of

Made = Mapping[str, Mapping[str, Probe]]  # by the names of probe and stack
Found = dict[str, dict[str, Figures]]


def watch(model: nn.Module, batch: Mapping[str, Any], probes: Made, stacks: Mapping[str, Stack]) -> Found:
    """What the probes find: they share one forward pass and, if one of them asks for gradients, one backward pass."""
    asking = [name for name, made in probes.items() if any(one.gradients for one in made.values())]
    if asking and batch.get("labels") is None:
        raise ValueError(f'probe "{asking[0]}" differentiates the loss, and the batch has no labels: add them')
    ends: dict[str, Tensor] = {}
    decoders: set[str] = set()
    begun: list[str] = []

    def begin(name: str, _: nn.Module, given: Any) -> None:
        begun.append(name)
        if asking and not given[0].requires_grad:  # what is before the stack may be frozen
            given[0].requires_grad_()

    def see(event: Event) -> None:
        if isinstance(event.context, Context) and event.context.memory is not None:
            decoders.add(begun[-1])
        for made in probes.values():
            made[begun[-1]](event)

    with ExitStack() as held:
        for name, stack in stacks.items():
            held.enter_context(stack.register_forward_pre_hook(partial(begin, name)))
            held.enter_context(stack.register_forward_hook(lambda *given, name=name: ends.update({name: given[-1]})))
        held.enter_context(torch.set_grad_enabled(bool(asking) or torch.is_grad_enabled()))
        output = model(**batch, use_cache=False, observe=see)
    passes: dict[str, Pass] = {}
    for name, x in ends.items():
        real, head = real_tokens(batch, x, name in decoders), head_of(model, name)
        passes[name] = Pass(model, batch, name, stacks[name], x, output, real, shared={}, head=head)
    gradients = differentiate(output, probes, passes) if asking else {}
    return {
        name: {
            stack: one.figures(passes[stack]._replace(gradients=gradients.get((name, stack), ())))
            for stack, one in made.items()
            if stack in passes
        }
        for name, made in probes.items()
    }


def head_of(model: nn.Module, stack: str) -> Callable[[Tensor], Tensor] | None:
    """What follows a stack of ours, up to the logits; None if the model has nothing of the kind."""
    around = model.get_submodule(stack.rpartition(".")[0])
    if not (isinstance(model, PreTrainedModel) and isinstance(around, Body)):
        return None
    unembedding: Any = model.get_output_embeddings()
    return None if unembedding is None else lambda x: unembedding(around.norm(x))


def real_tokens(batch: Mapping[str, Any], x: Tensor, decodes: bool) -> Tensor | None:
    """Which tokens [B, T] of a stack's states are not padding; None if all of them are real. A decoder that is given no
    mask has a real token wherever it has a label."""
    mask = batch.get("decoder_attention_mask" if decodes else "attention_mask")
    labels = batch.get("labels") if decodes else None
    if mask is None and labels is not None:
        mask = labels != IGNORED
    return mask.bool() if mask is not None and mask.shape == x.shape[:2] else None


def differentiate(output: Any, probes: Made, passes: Mapping[str, Pass]) -> dict[tuple[str, str], tuple[Tensor, ...]]:
    """The gradients of the loss by the sources of each probe, from one backward pass."""
    wanted = {
        (name, stack): list(one.sources(passes[stack]))
        for name, made in probes.items()
        for stack, one in made.items()
        if one.gradients and stack in passes
    }
    sources = [source for found in wanted.values() for source in found]
    gradients = torch.autograd.grad(output.loss, sources, allow_unused=True)
    filled = (torch.zeros_like(x) if g is None else g for x, g in zip(sources, gradients, strict=True))
    return {key: tuple(next(filled) for _ in found) for key, found in wanted.items()}


def watch_flow(flow: Flow, batch: Mapping[str, Any], probes: Mapping[str, Probe]) -> Found:
    """What the probes find in the main stack of a flow, by the names of probe and stack."""
    refuse_gradients(probes)

    def see(event: Event) -> None:
        for probe in probes.values():
            probe(event)

    whole, context = seen_pass(flow, batch, see)
    head = head_on(flow, context, len(whole.x)) if is_vocabulary(flow.model, whole.output, whole.x) else None
    passed = whole._replace(shared={}, head=head)
    return {name: {flow.main: probe.figures(passed)} for name, probe in probes.items()}


def watch_texts(
    flow: Flow, batch: Mapping[str, Any], probes: Mapping[str, Mapping[int, Probe]]
) -> Iterator[tuple[str, dict[int, Figures]]]:
    """What probes find in each text of a batch of one length, in one pass: probes[name][i] sees text i and nothing
    else. Each name comes as soon as its figures are there."""
    refuse_gradients({name: one for name, made in probes.items() for one in made.values()})
    numbers = sorted({i for made in probes.values() for i in made})
    rows = {i: examples_of(batch, batch_of(batch), (i,)) for i in numbers}
    alone = {i: AsAlone(flow, rows[i]) for i in numbers} if batch_of(batch) > 1 else {}

    def see(event: Event) -> None:
        for i in numbers:
            own = event_of(event, i, alone[i].context) if alone else event
            for made in probes.values():
                if i in made:
                    made[i](own)

    whole, context = seen_pass(flow, batch, see)
    heads = {}
    if is_vocabulary(flow.model, whole.output, whole.x):
        heads = {i: alone[i].head if alone else head_on(flow, context, 1) for i in numbers}
    passes = {i: pass_of(whole, i, rows[i], heads.get(i)) for i in numbers}
    for name, made in probes.items():
        yield name, {i: one.figures(passes[i]) for i, one in made.items()}


def refuse_gradients(probes: Mapping[str, Probe]) -> None:
    if asking := [name for name, probe in probes.items() if probe.gradients]:
        raise ValueError(f'probe "{asking[0]}" differentiates the loss, which a flow does not have: leave it out')


def seen_pass(flow: Flow, batch: Mapping[str, Any], see: Observe) -> tuple[Pass, Any]:
    """A pass of a batch through the main stack of a flow, and the context of its fields."""
    inputs = {name: x for name, x in batch.items() if name != "labels"}
    end, returned, context = flow.run(inputs, see, flow.main)
    x = one_state(end)
    real = real_tokens(batch, x, "decoder_input_ids" in batch)
    return Pass(flow.model, inputs, flow.main, flow.stacks[flow.main], x, first_float(returned), real), context


@final
class AsAlone:
    """A text of a batch as if it were alone: the context of its fields, and the head on its states."""

    def __init__(self, flow: Flow, inputs: Mapping[str, Any]) -> None:
        self.flow = flow
        self.context = flow.context({name: x for name, x in inputs.items() if name != "labels"})
        self.last = flow.last

    def head(self, x: Tensor) -> Tensor:
        self.flow.last = self.last
        return self.flow.head((x, x) if self.flow.scheme.doubled else x, self.context)


def row_of(x: State, i: int) -> State:
    """The state of one text of a batch."""
    return tuple(half[i : i + 1] for half in x) if isinstance(x, tuple) else x[i : i + 1]


def event_of(event: Event, i: int, context: Any) -> Event:
    """What one text of a batch sees of an event."""
    x, after, read = (one[i : i + 1] for one in (event.x, event.x_after, event.read))
    added = {name: one[i : i + 1] for name, one in event.increments.items()}
    return event._replace(
        x=x, increments=added, x_after=after, context=context, read=read, state=row_of(event.state, i)
    )


def pass_of(whole: Pass, i: int, inputs: Mapping[str, Any], head: Callable[[Tensor], Tensor] | None) -> Pass:
    """One text's part of a pass."""
    x, output, real = (None if one is None else one[i : i + 1] for one in (whole.x, whole.output, whole.real))
    return whole._replace(batch=inputs, x=x, output=output, real=real, shared={}, head=head)


def head_on(flow: Flow, context: Any, batch: int) -> Callable[[Tensor], Tensor]:
    """The flow's head on states [n, T, width] of the first n examples of this pass."""
    doubled = flow.stacks[flow.main].scheme.doubled

    def head(x: Tensor) -> Tensor:
        return flow.head((x, x) if doubled else x, rows_of(context, batch, range(len(x))))

    return head


def is_vocabulary(model: Any, output: Tensor | None, x: Tensor) -> bool:
    """Whether the output has a number for each token of the vocabulary: as many as an embedding has rows."""
    rows = {table_rows(get) for get in (model.get_input_embeddings, model.get_output_embeddings)}
    if output is None or output.ndim != 3:
        return False
    return output.shape[:2] == x.shape[:2] and output.shape[-1] in rows


def table_rows(get: Callable[[], Any]) -> int | None:
    """How many rows an embedding has; None if there is none."""
    try:
        table = get()
    except NotImplementedError:  # a model of audio, say
        return None
    return len(table.weight) if isinstance(table, nn.Embedding | nn.Linear) else None

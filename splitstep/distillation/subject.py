"""What a causal model shows of a batch of texts: logits, states of layers, attention masses; only what is wanted.

Fused attention does not tell its weights, and written out it keeps a matrix [B, heads, T, T] in every layer. The row of
each text's last real token in one layer is enough for SRA's masses, and follows from that layer's queries and keys.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..flows.decompose import state_of
from ..flows.examples import made_up
from ..flows.keys import Key, places
from ..flows.layers import check_causal, layers_of
from ..flows.record import Functions
from ..models import SplitstepModel
from ..models.base import all_stacks
from .geometry import attention_masses, full_precision, last_real, masses_of_rows
from .records import FINAL, LOGITS, MASSES, OUTPUT, Outputs, Shape, wide


@final
class Subject:
    """A causal model that shows what is wanted. It is not a module: what it holds is neither trained nor saved."""

    def __init__(self, model: Any, name: str) -> None:
        check_causal(model, name)
        self.model, self.name = model, name
        self.layers = layers_of(model, name)
        head: Any = model.get_output_embeddings()
        self.shape = Shape(len(self.layers), int(head.weight.shape[1]))
        self.vocabulary = int(head.weight.shape[0])
        self.fused = False  # whether masses follow from a call of fused attention; else all weights are written out

    def prepare(self, wanted: Collection[Key]) -> None:
        """Make ready for a method. Masses are read from the last layer's fused attention if it has one; else attention
        is written out in all layers."""
        if MASSES not in wanted:
            return
        self.fused = self.calls_fused_attention()
        if not self.fused and not isinstance(self.model, SplitstepModel):
            self.model.set_attn_implementation("eager")

    @torch.no_grad()
    def calls_fused_attention(self) -> bool:
        """Whether the last layer calls fused attention for all tokens at once, tried in training on a short text."""
        training, given = self.model.training, made_up(self.model, self.name)
        cuda = [given["input_ids"].device] if given["input_ids"].is_cuda else []
        self.model.train()
        try:
            with torch.random.fork_rng(devices=cuda), watching_attention(self.last_modules) as seen:
                self.model(**given, use_cache=False)
        finally:
            self.model.train(training)
        tokens = given["input_ids"].shape[1]
        return seen.call is not None and seen.call.query.shape[2] == seen.call.key.shape[2] == tokens

    @property
    def last_modules(self) -> list[nn.Module]:
        """The modules of the last layer that are called: it, or its fields if it is one of our own."""
        last: Any = self.layers[-1]
        return list(last.values()) if isinstance(self.model, SplitstepModel) else [last]

    def show(self, ids: Tensor, mask: Tensor, wanted: Collection[Key]) -> Outputs:
        """One pass of the model."""
        own, layers = isinstance(self.model, SplitstepModel), places("states", wanted)
        more = {"output_hidden_states": True} if own and layers else {}
        more |= {"output_attentions": True} if MASSES in wanted and not self.fused else {}
        watched = self.last_modules if MASSES in wanted and self.fused else []
        with self.watching(wanted) as seen, watching_attention(watched) as attention:
            output = self.model(input_ids=ids, attention_mask=mask, use_cache=False, **more)
        real, found = mask.bool(), {LOGITS: output.logits, **seen}
        if own:
            found |= {Key("states", n): output.hidden_states[int(n)] for n in layers if n < self.shape.layers}
        if MASSES in wanted:
            found[MASSES] = self.masses(attention.call, output, real)
        if OUTPUT in wanted:
            found[OUTPUT] = self.output
        return Outputs(real, self.shape.layers, found)

    def masses(self, call: "Call | None", output: Any, real: Tensor) -> Tensor:
        """SRA's masses of tokens, [B, T]."""
        if not self.fused:
            return attention_masses(output.attentions[-1], real)
        assert call is not None, "the last layer called fused attention when it was tried"
        return masses_of_rows(call.last_rows(real), real)

    @property
    def output(self) -> Tensor:
        """The output matrix, [V, d]."""
        return self.model.get_output_embeddings().weight

    @contextmanager
    def watching(self, wanted: Collection[Key]) -> Iterator[dict[Key, Tensor]]:
        """The states after layers and after the final norm, in passes inside of this context."""
        seen: dict[Key, Tensor] = {}

        def keep(key: Key, result: Any) -> None:
            seen[key] = state_of(result)

        with ExitStack() as held:
            for layer in places("states", wanted):
                if (module := self.module_after(int(layer))) is not None:
                    key = Key("states", layer)
                    held.enter_context(module.register_forward_hook(lambda *call, key=key: keep(key, call[-1])))
            if FINAL in wanted:
                head = self.model.get_output_embeddings()
                held.enter_context(head.register_forward_pre_hook(lambda *call: keep(FINAL, call[-1])))
            yield seen

    def module_after(self, layer: int) -> nn.Module | None:
        """The module that returns the state after a layer. Our own layers are fields, which a stack integrates: it
        returns the last state, and the model itself tells those before it."""
        if not isinstance(self.model, SplitstepModel):
            return self.layers[layer - 1]
        return list(all_stacks(self.model))[-1] if layer == self.shape.layers else None


class Call(NamedTuple):
    """The arguments of `scaled_dot_product_attention`, under their names there."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @torch.no_grad()
    def last_rows(self, real: Tensor) -> Tensor:
        """softmax(q k^T scale + mask) for the last real token of each text, without dropout, [B, heads, T]."""
        last = last_real(real)
        query, key = wide(of_texts(self.query, last)), wide(self.key)
        grouped = query.unflatten(1, (key.shape[1], -1))  # several heads may share a key
        with full_precision(query):
            scores = (grouped @ key.mT).flatten(1, 2) * (query.shape[-1] ** -0.5 if self.scale is None else self.scale)
        if self.is_causal:
            later = torch.arange(key.shape[2], device=last.device) > last[:, None, None]
            scores = scores.masked_fill(later, -inf)
        if self.attn_mask is not None:
            whole = self.attn_mask.expand(len(last), -1, *self.query.shape[2:3], key.shape[2])
            row = of_texts(whole, last)
            scores = scores.masked_fill(~row, -inf) if row.dtype == torch.bool else scores + row
        return scores.softmax(-1)


def of_texts(x: Tensor, positions: Tensor) -> Tensor:
    """x [B, heads, T, ...] at one position of each text, [B, heads, ...]."""
    return x[torch.arange(len(positions), device=x.device), :, positions]


@final
class LastAttention:
    """Keeps the last call of fused attention."""

    call: Call | None = None

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any, target: Tensor | None) -> Any:
        if function is functional.scaled_dot_product_attention:
            self.call = Call(*args, **kwargs)
        return function(*args, **kwargs)


@contextmanager
def watching_attention(modules: Iterable[nn.Module]) -> Iterator[LastAttention]:
    """Fused attention inside of these modules, in passes inside of this context. Others do not pay for it."""
    seen = LastAttention()
    mode = Functions(seen)

    def begin(module: nn.Module, args: Any) -> None:
        mode.__enter__()

    with ExitStack() as held:
        for module in modules:
            held.enter_context(module.register_forward_pre_hook(begin))
            held.enter_context(
                module.register_forward_hook(lambda *_: mode.__exit__(None, None, None), always_call=True)
            )
        yield seen

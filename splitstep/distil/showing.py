"""What a causal model shows of a batch of texts: logits, states of layers, attention masses; only what is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from ..models import SplitstepModel
from ..models.base import all_stacks
from ..pretrained.blocks import first_float
from ..pretrained.layers import check_causal, layers_of
from .geometry import attention_masses
from .records import Shape, Shown
from .terms.term import Input, Needs


@final
@dataclass(frozen=True)
class Wanted:
    """What one of the two models has to show."""

    inputs: frozenset[Input]
    layers: tuple[int, ...]

    @staticmethod
    def of(needs: Needs, side: int) -> Wanted:
        """What a method needs of the teacher (0) or of the student (1)."""
        return Wanted(needs.inputs, tuple(sorted({pair[side] for pair in needs.layers})))


@final
class Shower:
    """A causal model that shows what is wanted. It is not a module, so nothing that it holds is trained or saved with
    it."""

    def __init__(self, model: Any, name: str) -> None:
        check_causal(model, name)
        self.model, self.name = model, name
        self.layers = layers_of(model, name)
        head: Any = model.get_output_embeddings()
        self.shape = Shape(len(self.layers), int(head.weight.shape[1]))
        self.vocabulary = int(head.weight.shape[0])

    def prepare(self, wanted: Wanted) -> None:
        """Make ready for a method: fused attention does not tell its weights, so masses need the plain one."""
        if "masses" in wanted.inputs and not isinstance(self.model, SplitstepModel):
            self.model.set_attn_implementation("eager")

    def show(self, ids: Tensor, mask: Tensor, wanted: Wanted) -> Shown:
        """One pass of the model."""
        own = isinstance(self.model, SplitstepModel)
        more = {"output_hidden_states": True} if own and wanted.layers else {}
        masses = {"output_attentions": True} if "masses" in wanted.inputs else {}
        with self.watching(wanted) as seen:
            output = self.model(input_ids=ids, attention_mask=mask, use_cache=False, **more, **masses)
        states = {layer: seen[f"{layer}"] for layer in wanted.layers if f"{layer}" in seen}
        if own:
            states |= {layer: output.hidden_states[layer] for layer in wanted.layers if layer < self.shape.layers}
        real = mask.bool()
        return Shown(
            real,
            self.shape.layers,
            output.logits,
            states,
            masses=attention_masses(output.attentions[-1], real) if masses else None,
            final=seen.get("final"),
            output=self.output if "output" in wanted.inputs else None,
        )

    @property
    def output(self) -> Tensor:
        """The output matrix, [V, d]."""
        return self.model.get_output_embeddings().weight

    @contextmanager
    def watching(self, wanted: Wanted) -> Iterator[dict[str, Tensor]]:
        """The states after layers, by their number, and after the final norm, in passes inside of this context."""
        seen: dict[str, Tensor] = {}

        def keep(name: str) -> Any:
            def hook(module: nn.Module, args: Any, result: Any) -> None:
                found = first_float(result)
                assert found is not None
                seen[name] = found

            return hook

        def keep_final(module: nn.Module, args: Any) -> None:
            seen["final"] = args[0]

        with ExitStack() as held:
            for layer in wanted.layers:
                if (module := self.module_after(layer)) is not None:
                    held.enter_context(module.register_forward_hook(keep(f"{layer}")))
            if "final" in wanted.inputs:
                held.enter_context(self.model.get_output_embeddings().register_forward_pre_hook(keep_final))
            yield seen

    def module_after(self, layer: int) -> nn.Module | None:
        """The module that returns the state after a layer. Our own layers are fields, which a stack integrates: it
        returns the last state, and the model itself tells those before it."""
        if not isinstance(self.model, SplitstepModel):
            return self.layers[layer - 1]
        return list(all_stacks(self.model))[-1] if layer == self.shape.layers else None

"""The flow of one of our own models: its stacks are steps and fields already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor

from ..integrate import State
from ..models import SplitstepModel
from ..stack import Stack
from .blocks import first_float, intercepted
from .examples import as_inputs
from .flow import Flow, Inputs, Remembered, Stopped


class Start(NamedTuple):
    """What a stack was given."""

    x: Tensor
    context: Any


@final
class OwnFlow(Flow):
    """A model of ours; nothing is traced. A doubled state starts as (x, x), and the head reads its mean; it belongs to
    the inputs last given, whatever the context."""

    def __init__(self, model: SplitstepModel) -> None:
        stacks = {name: module for name, module in model.named_modules() if isinstance(module, Stack)}
        super().__init__(model.eval(), stacks)
        self.last = Remembered()

    def start(self, inputs: Mapping[str, Any]) -> Start:
        """What the last stack is given in a pass of these inputs."""
        found: list[Start] = []

        def stop(module: Any, forward: Any, args: Any, kwargs: Any) -> NoReturn:
            found.append(Start(*args[:2]))
            raise Stopped

        try:
            with torch.no_grad(), intercepted([self.stacks[self.main]], stop):
                self.model(**inputs, use_cache=False)
        except Stopped:
            pass
        return found[0]

    def embed(self, inputs: Inputs) -> State:
        self.last.context = as_inputs(self.model, inputs)
        x = self.start(self.last.context).x
        return (x, x) if self.scheme.doubled else x

    def context(self, inputs: Inputs) -> Any:
        self.last.context = as_inputs(self.model, inputs)
        return self.start(self.last.context).context

    def head(self, x: State, context: Any = None) -> Tensor:
        end = (x[0] + x[1]) / 2 if self.scheme.doubled else x
        with intercepted([self.stacks[self.main]], lambda *call: end):
            found = first_float(self.model(**self.last.use(None), use_cache=False))
        assert found is not None
        return found

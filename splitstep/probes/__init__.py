"""Probes: measurements of a running network, one in each file, each a pure function of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from ..integrate import Event
from ..stack import Stack
from ..support.registry import Registry
from .increment_norms import IncrementNorms
from .probe import Figures, Pass, Probe
from .state_norms import StateNorms

__all__ = ["PROBES", "Figures", "Pass", "Probe", "observe"]

PROBES: Registry[Callable[[], Probe]] = Registry(
    "probe", {"state_norms": StateNorms, "increment_norms": IncrementNorms}
)


def observe(model: nn.Module, batch: Mapping[str, Any], probes: Sequence[str]) -> dict[str, dict[str, Figures]]:
    """What the probes measure in one pass of a batch through the model, by the names of probe and stack.

    The model keeps its mode (training or evaluation) and must pass `observe` on to its stacks.
    """
    stacks = {name: module for name, module in model.named_modules() if isinstance(module, Stack)}
    made = {name: {stack: PROBES.find(name)() for stack in stacks} for name in probes}
    ends: dict[str, Tensor] = {}
    begun: list[str] = []

    def see(event: Event) -> None:
        for by_stack in made.values():
            by_stack[begun[-1]](event)

    with ExitStack() as hooks:
        for name, stack in stacks.items():
            hooks.enter_context(stack.register_forward_pre_hook(lambda *_, name=name: begun.append(name)))
            hooks.enter_context(stack.register_forward_hook(lambda *given, name=name: ends.update({name: given[-1]})))
        output = model(**batch, use_cache=False, observe=see)
    return {
        name: {stack: one.figures(Pass(model, batch, stack, ends[stack], output)) for stack, one in by_stack.items()}
        for name, by_stack in made.items()
    }

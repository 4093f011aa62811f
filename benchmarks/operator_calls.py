"""Calls of PyTorch's operators and FLOPs: what a step costs on any machine, counted where it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, final

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

IDLE = ("_unsafe_view", "promote_types", "empty", "empty_like", "new_empty", "empty_strided")  # they compute nothing
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal")  # the host waits for what they find


@final
class Calls(TorchDispatchMode):
    """Counts calls of operators that compute something, by name: views do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, returns = func._schema.name.split("::")[1], [one.alias_info for one in func._schema.returns]
        if name not in IDLE and not any(one is not None and not one.is_write for one in returns):
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


class Counts(NamedTuple):
    """Calls of operators, those that make the host wait for a number, and FLOPs of matrix products and attention."""

    calls: int
    waits: int
    flops: int


def counted(act: Callable[[], Any]) -> Counts:
    """What a function costs, backward passes inside of it included."""
    calls, flops = Calls(), FlopCounterMode(display=False)
    with flops, calls:
        act()
    return Counts(calls.found.total(), sum(calls.found[name] for name in WAITING), flops.get_total_flops())

"""The processes that train together, and how they communicate."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, distributed

T = TypeVar("T")
PATIENCE = timedelta(days=30)  # how long processes wait for one that prepares data or translates


class World(NamedTuple):
    """This process's number, how many there are, its device, and the group for waiting and exchanging objects."""

    rank: int
    size: int
    device: torch.device
    control: Any = None

    def sum(self, x: Tensor) -> Tensor:
        """The sum of x over all processes, on each of them."""
        if self.size > 1:
            x = x.clone()
            distributed.all_reduce(x)
        return x

    def any(self, flag: bool | int) -> bool:
        """Whether the flag is set on one of the processes."""
        return bool(self.sum(torch.tensor([float(flag)], device=self.device)))

    def together(self, act: Callable[[], T]) -> list[T]:
        """What `act` returns on each process, sent to all of them; if it fails on one, all raise its error."""
        if self.size == 1:
            return [act()]
        results: list[Any] = [None] * self.size
        try:
            mine = act(), None
        except (ValueError, OSError) as error:
            mine = None, error
        distributed.all_gather_object(results, mine, self.control)
        for _, error in results:
            if error is not None:
                raise error
        return [value for value, _ in results]

    def from_first(self, act: Callable[[], T]) -> T:
        """What `act` returns on the first process, sent to all of them."""
        return cast(T, self.together(lambda: act() if self.rank == 0 else None)[0])

    def on_first(self, act: Callable[[], T]) -> T | None:
        """What `act` returns on the first process; None on the others."""
        found: list[T] = []
        self.together(lambda: found.append(act()) if self.rank == 0 else None)
        return found[0] if found else None

    @property
    def memory(self) -> int:
        """The device's memory in bytes; devices other than NVIDIA's and AMD's share the machine's."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_properties(self.device).total_memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")


def launched(name: str, default: int = 0) -> int:
    """A number that torchrun or `accelerate launch` has set in the environment."""
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        raise ValueError(
            f"the environment's {name} is {os.environ[name]!r}, and must be a whole number, as torchrun and accelerate "
            f"launch set it: unset {name}"
        ) from None


def check_launch() -> None:
    """Refuse an incomplete launch: each process would train for itself, or wait for ever."""
    for name in NUMBERS:
        launched(name)
    rank, size = launched("RANK"), launched("WORLD_SIZE", 1)
    if not 0 <= rank < size or (size > 1 and not {"RANK", "LOCAL_RANK"} <= os.environ.keys()):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        found = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
        raise ValueError(
            f"the environment has {found}; torchrun and accelerate launch set {', '.join(names)}, with RANK below "
            "WORLD_SIZE: start with one of these, or unset them"
        )


def this_world() -> World:
    """The processes that torchrun or `accelerate launch` has started; this one alone without either."""
    from accelerate import PartialState

    check_launch()
    # Without `cpu`, accelerate would let processes that torchrun starts without a GPU train each for itself.
    found = torch.accelerator.current_accelerator()
    without = "LOCAL_RANK" in os.environ and (found is None or found.type == "mps")
    state = PartialState(cpu=without or launch_flag("ACCELERATE_USE_CPU"))
    control = control_group(distributed.group.WORLD) if state.num_processes > 1 else None
    return World(state.process_index, state.num_processes, torch.device(state.device or "cpu"), control)


@cache
def control_group(everyone: Any) -> Any:
    """A group of all processes that waits for days; the one for gradients gives up after minutes."""
    return distributed.new_group(backend="gloo", timeout=PATIENCE)


def launch_flag(flag: str) -> bool:
    """Whether `accelerate launch` has set a flag in the environment."""
    return os.environ.get(flag, "").lower() in ("1", "true", "yes")

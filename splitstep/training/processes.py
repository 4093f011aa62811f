"""The processes that train together: who this one is, and what they tell each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, distributed

T = TypeVar("T")


PATIENCE = timedelta(days=30)  # with a process that prepares data or translates while the others wait for it


class World(NamedTuple):
    """This process's number, how many there are, its device, and the group in which processes wait and talk."""

    rank: int
    size: int
    device: torch.device
    control: Any = None

    def sum(self, x: Tensor) -> Tensor:
        """x added up over all processes, on each of them."""
        if self.size > 1:
            x = x.clone()
            distributed.all_reduce(x)
        return x

    def together(self, act: Callable[[], T]) -> list[T]:
        """What `act` returns on each process, told to all of them; if it fails on one, all fail alike."""
        if self.size == 1:
            return [act()]
        told: list[Any] = [None] * self.size
        try:
            mine = act(), None
        except (ValueError, OSError) as error:
            mine = None, error
        distributed.all_gather_object(told, mine, self.control)
        for _, error in told:
            if error is not None:
                raise error
        return [value for value, _ in told]

    def wait(self) -> None:
        """Go on when all processes are here."""
        self.together(lambda: None)

    def from_first(self, act: Callable[[], T]) -> T:
        """What `act` returns on the first process, told to all of them."""
        return cast(T, self.together(lambda: act() if self.rank == 0 else None)[0])

    def on_first(self, act: Callable[[], T]) -> T | None:
        """What `act` returns on the first process, None on the others, which it may mean nothing to."""
        found: list[T] = []
        self.together(lambda: found.append(act()) if self.rank == 0 else None)
        return found[0] if found else None

    @property
    def memory(self) -> int:
        """The bytes that the device has; all but NVIDIA's and AMD's share the machine's."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_properties(self.device).total_memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")


def launched(name: str, default: int = 0) -> int:
    """A number that torchrun and `accelerate launch` tell their processes by a variable of the environment."""
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        raise ValueError(
            f"the environment's {name} is {os.environ[name]!r}, and must be a whole number, as torchrun and accelerate "
            f"launch set it: unset {name}"
        ) from None


def check_launch() -> None:
    """Refuse half of what a launcher sets: processes would each train for themselves, or wait for ever."""
    for name in NUMBERS:
        launched(name)
    rank, size = launched("RANK"), launched("WORLD_SIZE", 1)
    if not 0 <= rank < size or (size > 1 and not {"RANK", "LOCAL_RANK"} <= os.environ.keys()):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        found = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
        raise ValueError(
            f"the environment has {found}; torchrun and accelerate launch set {', '.join(names)}, and the first is "
            "below the last: start with one of these, or unset them"
        )


def this_world() -> World:
    """As torchrun or `accelerate launch` have set it up; alone where neither has."""
    from accelerate import PartialState

    check_launch()
    # Unless told, accelerate leaves processes that torchrun starts without a GPU alone, each training for itself.
    found = torch.accelerator.current_accelerator()
    without = "LOCAL_RANK" in os.environ and (found is None or found.type == "mps")
    state = PartialState(cpu=without or asked("ACCELERATE_USE_CPU"))
    control = control_group(distributed.group.WORLD) if state.num_processes > 1 else None
    return World(state.process_index, state.num_processes, torch.device(state.device or "cpu"), control)


@cache
def control_group(everyone: Any) -> Any:
    """A group of all processes that waits for days, where that of the gradients gives up after minutes."""
    return distributed.new_group(backend="gloo", timeout=PATIENCE)


def asked(flag: str) -> bool:
    """Whether `accelerate launch` was given a flag, as it tells its processes."""
    return os.environ.get(flag, "").lower() in ("1", "true", "yes")

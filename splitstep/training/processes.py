"""The processes that train together: how they communicate, measure their time, and stop without losing anything."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, final

import torch
from torch import Tensor, distributed

T = TypeVar("T")
PATIENCE = timedelta(days=30)  # how long processes wait for one that prepares data or translates


class Processes(NamedTuple):
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


def this_world() -> Processes:
    """The processes that torchrun or `accelerate launch` has started; this one alone without either."""
    from accelerate import PartialState

    check_launch()
    # Without `cpu`, accelerate would let processes that torchrun starts without a GPU train each for itself.
    found = torch.accelerator.current_accelerator()
    without = "LOCAL_RANK" in os.environ and (found is None or found.type == "mps")
    state = PartialState(cpu=without or launch_flag("ACCELERATE_USE_CPU"))
    control = control_group(distributed.group.WORLD) if state.num_processes > 1 else None
    return Processes(state.process_index, state.num_processes, torch.device(state.device or "cpu"), control)


@cache
def control_group(everyone: Any) -> Any:
    """A group of all processes that waits for days; the one for gradients gives up after minutes."""
    return distributed.new_group(backend="gloo", timeout=PATIENCE)


def launch_flag(flag: str) -> bool:
    """Whether `accelerate launch` has set a flag in the environment."""
    return os.environ.get(flag, "").lower() in ("1", "true", "yes")


class Times(NamedTuple):
    """Seconds of the whole run; seconds of its timed updates, and the tokens of these."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    timed_tokens: int = 0

    @property
    def rate(self) -> float | None:
        """Tokens per second of training."""
        return self.timed_tokens / self.training_seconds if self.training_seconds else None


@final
class Clock:
    """Counts on from the times of the last checkpoint. Training time does not count inside `paused`, nor before the
    first such block ends: evaluation, checkpoints and the first update of each shape (compilation, capture)."""

    def __init__(self, before: Times, world: Processes) -> None:
        self.before, self.world = before, world
        self.start = time.monotonic()
        self.training, self.tokens = before.training_seconds, before.timed_tokens
        self.since: float | None = None

    def count(self, tokens: int) -> None:
        self.tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.world.synchronise()
        if self.since is not None:
            self.training += time.monotonic() - self.since
            self.since = None
        try:
            yield
        finally:
            self.world.synchronise()
            self.since = time.monotonic()

    def read(self) -> Times:
        """The times now; on a GPU they are right only after a synchronisation, such as reading the losses."""
        now = time.monotonic()
        running = 0.0 if self.since is None else now - self.since
        return Times(self.before.seconds + now - self.start, self.training + running, self.tokens)


class Stopped(InterruptedError):
    """A run was asked to stop, wrote a checkpoint of this step, and is not finished."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__(f"stopped after step {step:,}, which is saved")
        self.number = number


@final
class Stop:
    """Handles these signals during training. By default it handles none, and they act as usual."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals, self.asked = signals, 0

    @contextmanager
    def handling(self, world: Processes) -> Iterator[None]:
        """Note a signal instead of ending at once. A second one ends a process that trains alone; each of several may
        get the same one twice, from the terminal and from the launcher."""
        before = {number: signal.getsignal(number) for number in self.signals}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def note(number: int, frame: Any) -> None:
            self.asked = number
            if world.size == 1:
                restore()

        for number in self.signals:
            signal.signal(number, note)
        try:
            yield
        finally:
            restore()

    def agreed(self, world: Processes, synced: bool) -> int:
        """The signal that asks to stop, else 0. Several processes agree on it, at `synced` steps only."""
        if world.size == 1 or not self.signals:
            return self.asked
        return (self.asked or signal.SIGTERM) if synced and world.any(self.asked) else 0


NEVER = Stop()

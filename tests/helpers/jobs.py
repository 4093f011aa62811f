"""Jobs for worker processes; in a module that is quick to import, for every process imports it."""

import atexit
import os
import signal
import time
from pathlib import Path
from typing import Any


def die_once(marker: str) -> int:
    """Kill the own process the first time."""
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def answer(x: int) -> int:
    return x + 1


def title_of(letter: str) -> str:
    """What a letter stands for, as this process knows it."""
    from splitstep.letters import LETTERS

    return LETTERS[letter].title


def linger(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def refuse() -> None:
    raise ValueError("one clear line")


def clear_up(file: str) -> None:
    """Leave something to do for the end of the process, as libraries do."""
    atexit.register(lambda: Path(file).write_text("done"))


def fill_device(*arguments: object) -> None:
    """Find the GPU full, as PyTorch says it."""
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has 1.00 GiB free.")


def fill_device_in_training(run: Any, out: Path, data: Path) -> None:
    """Train a run that finds the GPU full."""
    from splitstep.training import loop

    loop.fit = fill_device
    loop.train(run.recipe, out / run.folder, data, quiet=True)

"""Jobs for worker processes; in a module that is quick to import, for every process imports it."""

from __future__ import annotations

import atexit
import os
import signal
import time
from pathlib import Path


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


def linger(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def refuse() -> None:
    raise ValueError("one clear line")


def clear_up(file: str) -> None:
    """Leave something to do for the end of the process, as libraries do."""
    atexit.register(lambda: Path(file).write_text("done"))

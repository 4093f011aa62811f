"""An engine in the test's own process, so that a study can be watched and patched."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from splitstep.jobs.engines import Engine


@contextmanager
def here(text: str, jobs: int) -> Iterator[Engine]:
    """An engine of one thread."""
    with ThreadPoolExecutor(1) as executor:
        yield Engine("here", executor, 1, (BrokenProcessPool,))

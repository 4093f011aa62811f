"""An engine that runs jobs in this process, for tests of what is run rather than where."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from splitstep.jobs.engines import Engine


@contextmanager
def here(text: str, jobs: int) -> Iterator[Engine]:
    """An engine in this process."""
    with ThreadPoolExecutor(1) as executor:
        yield Engine("here", executor, 1, (BrokenProcessPool,))

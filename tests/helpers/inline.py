"""Engines that start no interpreter: in the process of a test, where a study can be watched and patched, or forked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from children import SERVER

from splitstep import jobs
from splitstep.jobs import Engine


@contextmanager
def here(text: str, jobs: int) -> Iterator[Engine]:
    """An engine of one thread."""
    with ThreadPoolExecutor(1) as executor:
        yield Engine("here", executor, 1, (BrokenProcessPool,))


@contextmanager
def forked() -> Iterator[None]:
    """Inside, processes of local engines are forked from the server of `children`, which has imported everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "multiprocessing", SimpleNamespace(get_context=lambda method: SERVER))
        yield

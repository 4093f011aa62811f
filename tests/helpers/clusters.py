"""Dask clusters on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.forkserver import ensure_running
from typing import Any


@contextmanager
def dask_cluster(workers: int) -> Iterator[Any]:
    """A cluster whose workers are forked from the server of `children`, which has imported everything."""
    import dask.config
    from distributed import LocalCluster

    ensure_running()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
    ):
        yield cluster

"""Where independent jobs run: processes of this machine or a Dask cluster, as `concurrent.futures` executors."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, final

from .support.words import first_line

T = TypeVar("T")

TRIES = 2  # how often a job is started if its process dies
_starting = threading.Lock()
ANSWER_SECONDS = 10  # how long a cluster may take to answer
CLEAR_UP_SECONDS = 10  # how long an idle process may take to end by itself


class Engine(NamedTuple):
    """An executor, how many jobs it runs at once, and the errors that mean that a job's process died."""

    name: str
    executor: Executor
    workers: int
    died: tuple[type[BaseException], ...]
    repeats: bool = False  # whether it starts a job elsewhere if a worker falls silent, which may still be at it


def threads_per_job() -> int:
    """Torch threads of each job: $OMP_NUM_THREADS, else 1. It does not depend on the number of workers, so figures do
    not either."""
    given = os.environ.get("OMP_NUM_THREADS", "1")
    return int(given) if given.isdecimal() and int(given) > 0 else 1


def default_workers() -> int:
    """As many as keep the cores busy; one if there is a GPU, which they would share."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if torch.cuda.is_available() else max(1, cores // threads_per_job())


def check_engine(text: str) -> tuple[str, str]:
    """The kind and the argument of "local", "local=N" or "dask=ADDRESS"."""
    kind, equals, argument = text.partition("=")
    processes = kind == "local" and (not equals or (argument.isdecimal() and int(argument) > 0))
    if not processes and not (kind == "dask" and argument):
        raise ValueError(f"--engine {text} is unknown: use local, local=N (processes) or dask=ADDRESS.")
    return kind, argument


def workers_of(text: str) -> int:
    """How many jobs an engine runs at once."""
    kind, argument = check_engine(text)
    if kind == "local":
        return int(argument or default_workers())
    with open_engine(text, 1) as engine:
        return engine.workers


@contextmanager
def open_engine(text: str, jobs: int) -> Iterator[Engine]:
    """The engine that the text names, with no more processes than jobs; leaving it ends what still runs."""
    kind, argument = check_engine(text)
    with _local(argument, jobs) if kind == "local" else _dask(argument) as engine:
        yield engine


@contextmanager
def _local(argument: str, jobs: int) -> Iterator[Engine]:
    workers = max(1, min(int(argument or default_workers()), jobs))
    executor = Processes(workers)
    try:
        yield Engine(f"local={workers}", executor, workers, (BrokenProcessPool,))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _dask(address: str) -> Iterator[Engine]:
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise ValueError(f"--engine dask={address} needs a package: pip install 'splitstep[cluster]'.") from None
    try:
        client = Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {address} within {ANSWER_SECONDS} s ({first_line(error).rstrip('.:')}): "
            "check the address, such as tcp://HOST:8786, or use --engine local."
        ) from None
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except (OSError, TimeoutError):
        client.close()
        raise ValueError(
            f"the Dask scheduler at {address} has no workers: start some with `dask worker {address} --nthreads 1`."
        ) from None
    workers = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    executor: Any = client.get_executor(pure=False)
    try:
        yield Engine(f"dask={address}", executor, workers, (KilledWorker, CancelledError), repeats=True)
    finally:
        executor.shutdown(wait=False)
        client.close(timeout=5)


@final
class Processes(Executor):
    """Worker processes with one job at a time each: if one dies, only its own job is lost, and is tried again.

    A `ProcessPoolExecutor` of several processes breaks as a whole and does not say which one died, so each process has
    an executor of its own.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._workers = [_Worker() for _ in range(workers)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()
        try:
            for _ in range(TRIES - 1):
                with suppress(BrokenProcessPool):
                    return worker.call(fn, args, kwargs)
            return worker.call(fn, args, kwargs)
        finally:
            self._idle.put(worker)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; without `wait`, even those that are working."""
        if not wait:
            for worker in self._workers:
                worker.end()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            worker.end()


class _Worker:
    """One process, started when first needed and again after a death."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._ended = False
        self._busy = False
        self._process: BaseProcess | None = None

    def call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        if self._ended:
            raise CancelledError
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            signal.pthread_sigmask(
                signal.SIG_BLOCK, {signal.SIGINT}
            )  # of this thread; the process begins with its mask
            self._pool = ProcessPoolExecutor(1, context, _prepare)
            with without_script():
                started = self._pool.submit(os.getpid)
            started.result()
            [self._process] = self._pool._processes.values()  # unlike a pid, it never refers to another process
        self._busy = True
        try:
            return self._pool.submit(fn, *args, **kwargs).result()
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = None
            raise
        finally:
            self._busy = False

    def end(self) -> None:
        """End the process: at once if it is working; else its libraries have time to clean up."""
        self._ended = True
        if self._pool is not None and self._process is not None:
            if self._busy:
                self._process.terminate()
            else:
                late = threading.Timer(CLEAR_UP_SECONDS, self._process.terminate)
                late.daemon = True
                late.start()
            self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def without_script() -> Iterator[None]:
    """Hide the program that runs while a process starts, which would run it again: the jobs are all splitstep's."""
    with _starting:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def _prepare() -> None:
    """In a worker: leave Ctrl-C to the parent, and end when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()

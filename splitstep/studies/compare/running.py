"""Executes the planned runs in workers; runs that an earlier call finished are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from ...jobs.engines import Engine, open_engine, threads_per_job
from ...jobs.progress import RunsProgress
from ...support.words import counted
from ...training.directory import InUse, RunDirectory
from .plan import Planned
from .trials import Ended, read_ended

HELD_SECONDS = 10.0  # before a run is tried again whose directory another worker holds

_one_at_a_time = threading.Lock()  # a cluster's worker may have several threads, but torch has one seed per process


def run_all(runs: Sequence[Planned], out: Path, data: Path, engine_text: str, watch: RunsProgress) -> Iterator[Ended]:
    """The runs as they end, those of an earlier call first."""
    left = []
    for run in runs:
        directory = RunDirectory(out / run.folder)
        result = directory.result()
        if result is None:
            left.append(run)
            continue
        ended = read_ended(run, directory, result)
        watch.done(run.folder, f"{ended.summary()}, from an earlier call")
        yield ended
    if not left:
        return
    with open_engine(engine_text, len(left)) as engine:
        watch.note(f"{counted(len(left), 'run')} on {engine.name}, {engine.workers} at once")

        def submit(run: Planned, wait_seconds: float = 0.0) -> Future[Ended]:
            return engine.executor.submit(run_one, run, out, data, threads_per_job(), wait_seconds)

        futures = {submit(run): run for run in left}
        while futures:
            done, _ = wait(futures, timeout=1.0, return_when=FIRST_COMPLETED)
            watch.look([(out / run.folder, run.recipe.train.steps) for run in futures.values()])
            for future in done:
                run = futures.pop(future)
                ended = outcome(future, run, engine)
                if ended is None:
                    watch.note(f"{run.folder}: a worker that fell silent still holds it; trying again")
                    futures[submit(run, HELD_SECONDS)] = run
                    continue
                watch.done(run.folder, ended.summary())
                yield ended


def run_one(run: Planned, out: Path, data: Path, threads: int, wait_seconds: float) -> Ended:
    """Train one run in a worker, after a pause, and return all that the study needs: its disk may not be ours."""
    import torch

    from ...training import train

    time.sleep(wait_seconds)
    with _one_at_a_time:
        torch.set_num_threads(threads)
        result = train(run.recipe, out / run.folder, data, quiet=True)
        return read_ended(run, RunDirectory(out / run.folder), result)


def outcome(future: Future[Ended], run: Planned, engine: Engine) -> Ended | None:
    """What a run ended with; None if a worker that the engine gave up still holds its directory."""
    try:
        return future.result()
    except InUse:
        if engine.repeats:
            return None
        raise
    except engine.died:
        raise ValueError(
            f"{run.folder}: its process was killed twice (is there enough memory?), or the cluster went away. Start "
            "the same command again: finished runs are kept, and this one continues from its checkpoint."
        ) from None
    except ImportError as error:
        raise ValueError(f"{run.folder}: the worker lacks a package ({error}): install splitstep there too.") from None

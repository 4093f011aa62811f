"""The runs of a plan, done in workers; those that an earlier call finished are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from ...jobs.engines import Engine, open_engine, threads_per_job
from ...jobs.progress import RunsProgress
from ...support.words import counted
from ...training import read_recipe
from ...training.directory import InUse, RunDirectory
from .plan import Planned
from .result import Trial
from .trials import Output, output_of, run_summary, trial_of

HELD_SECONDS = 10.0  # before a run is tried again whose directory another worker holds

_one_at_a_time = threading.Lock()  # a cluster's worker may have several threads, and torch's seed is the process's


class Ended(NamedTuple):
    """A run that is over, and what its model wrote for each test split."""

    trial: Trial
    written: Mapping[str, Sequence[str]]


def run_all(runs: Sequence[Planned], out: Path, data: Path, engine_text: str, watch: RunsProgress) -> Iterator[Ended]:
    """The runs as they end, those of an earlier call first."""
    open_runs = []
    for run in runs:
        directory = RunDirectory(out / run.folder)
        result = directory.result()
        if result is None:
            open_runs.append(run)
            continue
        output = output_of(directory, result)
        trial = trial_of(run, output)
        watch.done(run.folder, f"{run_summary(trial, result.metric)}, from an earlier call")
        yield Ended(trial, output.written)
    if not open_runs:
        return
    with open_engine(engine_text, len(open_runs)) as engine:
        watch.note(f"{counted(len(open_runs), 'run')} on {engine.name}, {engine.workers} at once")

        def submit(run: Planned, wait_seconds: float = 0.0) -> Future[Output]:
            arguments = run.recipe.document(), str(out / run.folder), str(data), threads_per_job()
            return engine.executor.submit(run_one, *arguments, wait_seconds)

        futures = {submit(run): run for run in open_runs}
        while futures:
            ended, _ = wait(futures, timeout=1.0, return_when=FIRST_COMPLETED)
            watch.look([(out / run.folder, run.recipe.train.steps) for run in futures.values()])
            for future in ended:
                run = futures.pop(future)
                output = outcome(future, run, engine)
                if output is None:
                    watch.note(f"{run.folder}: a worker that fell silent still holds it; trying again")
                    futures[submit(run, HELD_SECONDS)] = run
                    continue
                trial = trial_of(run, output)
                watch.done(run.folder, run_summary(trial, output.result.metric))
                yield Ended(trial, output.written)


def run_one(recipe: Mapping[str, Any], folder: str, data: str, threads: int, wait_seconds: float) -> Output:
    """One run in a worker, after a pause: plain data in, records of plain data out."""
    import torch

    from ...training import train

    time.sleep(wait_seconds)
    with _one_at_a_time:
        torch.set_num_threads(threads)
        out = Path(folder)
        result = train(read_recipe(recipe, folder), out, Path(data), quiet=True)
        return output_of(RunDirectory(out), result)


def outcome(future: Future[Output], run: Planned, engine: Engine) -> Output | None:
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
            "the same command again: finished runs are kept, and this one goes on from its checkpoint."
        ) from None
    except ImportError as error:
        raise ValueError(f"{run.folder}: the worker lacks a package ({error}): install splitstep there too.") from None

"""Executes the planned runs in workers; runs that an earlier call finished are kept."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from math import inf
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from ..jobs import Engine, check_engine, open_engine, threads_per_job
from ..own_letters import Source, portable_sources, receive
from ..recipe import NETWORKS
from ..support.files import InUse, alone
from ..support.memory import NoMemory, no_memory
from ..support.provenance import Provenance, made_by_study
from ..support.typed import plain
from ..support.words import counted
from ..tasks import Task
from ..text.files import data_root
from ..training.directory import RunDirectory
from ..training.networks import SCHEME, stored_start
from ..training.processes import Processes
from ..training.progress import Progress, Running, RunsProgress
from .plan import Planned, check_runs
from .trials import RunRecord, read_ended


class Ending(Protocol):
    """What a job ended with."""

    def summary(self) -> str:
        """It in a few words."""
        ...


T = TypeVar("T")
E = TypeVar("E", bound=Ending)
HELD_SECONDS = 10.0  # before a run is tried again whose directory another worker holds

_one_at_a_time = threading.Lock()  # a cluster's worker may have several threads, but torch has one seed per process


class Job(NamedTuple, Generic[T]):
    """Work for a worker: `act(*arguments)`, which trains so many steps in a folder of the study's own."""

    folder: str
    steps: int
    act: Callable[..., T]
    arguments: tuple[Any, ...]
    seconds: float | None = None  # that it takes beside others, if that is known

    @property
    def work(self) -> float:
        """Its share of all work."""
        return float(self.steps) if self.seconds is None else self.seconds


class Workplace(NamedTuple):
    """Where the runs of a study execute, and how much is said meanwhile, under a title."""

    title: str
    out: Path
    data: Path | None
    engine: str
    quiet: bool

    @property
    def is_here(self) -> bool:
        """Whether runs execute on this machine, with its files."""
        return check_engine(self.engine)[0] == "local"

    @property
    def room(self) -> float:
        """The bytes that a run may take; what a GPU or another machine has, only its workers know."""
        known = self.is_here and not torch.cuda.is_available()
        return Processes(0, 1, torch.device("cpu")).memory if known else inf

    def say(self, text: str) -> None:
        """A line on standard error, unless it is empty or nothing is to be said."""
        if text and not self.quiet:
            print(f"{self.title}  {text}", file=sys.stderr, flush=True)

    def execute(
        self,
        runs: Sequence[Planned],
        tasks: Mapping[str, Task],
        tidy: bool = False,
        seconds: Callable[[Planned], float] | None = None,
        later: float = 0.0,
    ) -> list[RunRecord]:
        """What the runs ended with, in the order of the plan; those of an earlier call are read. `tidy`: checkpoints of
        runs that are over are deleted. `seconds` says how long a run takes by a plan, `later` how long all those of
        later stages take."""
        out, data, ended = self.out.resolve(), data_root(self.data).resolve(), dict[str, RunRecord]()
        ordered = check_runs(runs, out, tasks, self.room)
        jobs = [
            Job(run.folder, run.recipe.train.steps, run_one, (run, out, data), seconds and seconds(run))
            for run in ordered
        ]
        work = sum(job.work for job in jobs) + later
        if self.is_here:
            check_starts([run for run in ordered if not (out / run.folder).exists()], tasks)
        if runs and not (out / "runs").exists():  # later stages do not say it again
            self.say(runs[0].recipe.train.too_late)
        out.mkdir(parents=True, exist_ok=True)
        with alone(out, "written"), Progress(self.title, sum(job.steps for job in jobs), self.quiet) as bar:
            for folder, found in run_left(jobs, kept_record, out, self.engine, RunsProgress(bar, len(jobs), work)):
                ended[folder] = found
                if tidy:
                    shutil.rmtree(RunDirectory(out / folder).checkpoints, ignore_errors=True)
        return [ended[run.folder] for run in runs]


def check_starts(runs: Sequence[Planned], tasks: Mapping[str, Task]) -> None:
    """Refuse what a run cannot start from before any of them begins."""
    found = {(run.block, run.scheme, run.arm, run.recipe.start): run for run in runs}
    for run in found.values():
        recipe, task = run.recipe, tasks[run.block]
        if recipe.start is not None and NETWORKS.find(recipe.network_name) is SCHEME:
            stored_start(recipe.start, recipe.config(task), recipe, task)


def run_one(run: Planned, out: Path, data: Path) -> RunRecord:
    """Train one run, and return all that the study needs: the worker's disk may not be ours."""
    from ..training import train

    result = train(run.recipe, out / run.folder, data, quiet=True)
    return read_ended(run, RunDirectory(out / run.folder), result)


def kept_record(job: Job[RunRecord]) -> RunRecord | None:
    """What an earlier call has left of a run."""
    run, out, _ = job.arguments
    directory = RunDirectory(out / run.folder)
    result = directory.result()
    return None if result is None else read_ended(run, directory, result)


def run_left(
    jobs: Sequence[Job[E]], kept: Callable[[Job[E]], E | None], out: Path, engine_text: str, watch: RunsProgress
) -> Iterator[tuple[str, E]]:
    """What jobs ended with, by folder: first what an earlier call has kept, then the others as they end."""
    left = list[Job[E]]()
    for job in jobs:
        found = kept(job)
        if found is None:
            left.append(job)
            continue
        watch.done(job.folder, f"{found.summary()}, from an earlier call", job.work)
        yield job.folder, found
    for job, found in run_jobs(left, out, engine_text, watch):
        watch.done(job.folder, found.summary(), job.work)
        yield job.folder, found


def made_by_runs(recipe: dict[str, Any], data: Mapping[str, Any], engine: str) -> Provenance:
    """The provenance of a study whose runs were executed here."""
    return made_by_study(recipe=recipe, data=plain(data), engine=engine, threads=threads_per_job())


def run_jobs(jobs: Sequence[Job[T]], out: Path, engine_text: str, watch: RunsProgress) -> Iterator[tuple[Job[T], T]]:
    """The jobs as they end, each with what it returned."""
    if not jobs:
        return
    letters = portable_sources()
    with open_engine(engine_text, len(jobs)) as engine:
        watch.note(f"{counted(len(jobs), 'job')} on {engine.name}, {engine.workers} at once")

        def submit(job: Job[T], wait_seconds: float = 0.0) -> Future[T]:
            return engine.executor.submit(in_worker, threads_per_job(), wait_seconds, letters, job.act, *job.arguments)

        futures = {submit(job): job for job in jobs}
        while futures:
            done, _ = wait(futures, timeout=1.0, return_when=FIRST_COMPLETED)
            watch.look([Running(out / job.folder, job.steps, job.work) for job in futures.values()])
            for future in done:
                job = futures.pop(future)
                found = outcome(future, job, engine)
                if found is None:
                    watch.note(f"{job.folder}: a worker that fell silent still holds it; trying again")
                    futures[submit(job, HELD_SECONDS)] = job
                    continue
                yield job, found


def in_worker(
    threads: int, wait_seconds: float, letters: Sequence[Source], act: Callable[..., T], *arguments: Any
) -> T:
    """Do one job in a worker, after a pause, with so many threads of torch and these letters."""
    time.sleep(wait_seconds)
    with _one_at_a_time:
        torch.set_num_threads(threads)
        receive(letters)
        return act(*arguments)


def outcome(future: Future[T], run: Planned | Job[T], engine: Engine) -> T | None:
    """What a run or a job ended with; None if a worker that the engine gave up still holds its directory."""
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
    except (NoMemory, RuntimeError, MemoryError) as error:
        if not isinstance(error, NoMemory) and not no_memory(error):
            raise
        raise NoMemory(too_little_memory(run.folder, engine)) from None
    except ImportError as error:
        raise ValueError(f"{run.folder}: the worker lacks a package ({error}): install splitstep there too.") from None


def too_little_memory(folder: str, engine: Engine) -> str:
    """What to do if a job found too little memory: run fewer beside each other, if there were several."""
    short = f"{folder}: the device has too little memory"
    if engine.workers == 1:
        return (
            f"{short}: end what else runs there, and start the same command again, which continues; or lower "
            "train.batch, with another --out."
        )
    fewer = "fewer workers" if engine.repeats else f"--engine local={engine.workers // 2}"
    return (
        f"{short} for {engine.workers} jobs at once: start the same command with {fewer}; it continues, and finished "
        "runs are kept."
    )

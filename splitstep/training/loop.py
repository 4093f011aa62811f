"""The training loop. Batches are a pure function of the step, so a run can stop and continue anywhere."""

from contextlib import ExitStack
from math import isfinite
from pathlib import Path

import torch

from ..options import evaluates, learning_rate, records
from ..probes import observe
from ..recipe import Recipe
from ..schemes import label
from ..support.memory import NoMemory, no_memory
from ..support.provenance import made
from ..support.words import counted
from .directory import Environment, RunDirectory
from .evaluate import evaluate, evaluating, finish, finish_diverged, free_run
from .objective import prefetched
from .processes import NEVER, Processes, Stop, Stopped, this_world
from .progress import Journal, Progress, open_tensorboard
from .result import RunResult
from .run import Diverged, Run
from .update import autocast


def fit(run: Run, journal: Journal, stop: Stop = NEVER) -> None:
    """Train from the run's present step to the end, or until it is asked to stop."""
    options = run.options
    if run.state.step == 0:
        record_if_due(run, journal)
    with prefetched(run.work, run.state.step, options.steps) as works:
        for work in works:
            lr = learning_rate(options, run.state.step)
            run.advance(work, lr)
            step = run.state.step
            last = step == options.steps
            evaluating = evaluates(options, step)
            looking = evaluating or step % options.log_every == 0
            if looking:
                report(run, journal, lr)
            if evaluating:
                with run.clock.paused():
                    validate(run, journal)
            record_if_due(run, journal)
            if step in run.snapshots:
                with run.clock.paused():
                    run.add_snapshot()
            asked = stop.agreed(run.world, looking)
            if last or asked or run.due(looking):
                with run.clock.paused():
                    run.save()
            if asked and not last:
                raise Stopped(step, asked)


def report(run: Run, journal: Journal, lr: float) -> None:
    """Log and show the latest training figures."""
    figures = {**run.look(), "lr": lr}
    step, steps, rate = run.state.step, run.options.steps, run.clock.read().rate or 0.0
    journal.write(step, "train", {**figures, "tokens_per_second": rate})
    left = (steps - step) * run.state.tokens / step / rate if rate else None
    journal.progress.update(step, {"loss": figures["loss"], "lr": lr, "tokens/s": rate}, left, step == steps)


def validate(run: Run, journal: Journal) -> None:
    """Evaluate on the validation split and keep the best weights. The model runs freely only if they depend on it."""
    options, name = run.options, run.task.metric.name
    size = options.evaluate_batch or options.batch
    figures = evaluate(run.model, run.task, "valid", size, run.precision, run.world)
    if not all(map(isfinite, figures.values())):
        raise Diverged(run.state.step, figures["loss"], run.norm)
    if options.keep == "best":
        if options.best == "metric" and name not in figures:
            found = free_run(run.whole(), run.task, "valid", run.precision, run.world)
            assert found is not None, f"task {run.task.name} has no figure {name}"
            figures |= found.figures
        run.keep_if_best(figures)
    journal.write(run.state.step, "valid", figures)
    shown = name if name in figures else "loss"
    journal.progress.update(run.state.step, {f"valid {shown}": figures[shown]}, force=True)


def record_if_due(run: Run, journal: Journal) -> None:
    """Journal what probes find, if the recipe has any and this is a step for it. The first process does it alone."""
    if run.recipe.probes and records(run.options, run.state.step):
        with run.clock.paused():
            model = run.whole()

            def watched() -> None:
                with evaluating(model), autocast(run.precision, run.world.device):
                    found = observe(model, run.examples, run.recipe.probes)
                journal.write_probes(run.state.step, found)

            run.world.on_first(watched)


def train(
    recipe: Recipe,
    out: Path,
    data: Path | None = None,
    quiet: bool = False,
    tensorboard: bool = False,
    stop: Stop = NEVER,
) -> RunResult:
    """Train a recipe in the directory `out`, or continue it there, or return its result if it has finished. If `stop`
    handles signals, they end the run with `Stopped`, after a checkpoint."""
    world, directory = this_world(), RunDirectory(out)
    begun = (out / "recipe.yaml").exists()
    extends = world.from_first(lambda: directory.claim(recipe))
    result = directory.result()
    if result is not None and not extends:
        return result
    with ExitStack() as held:
        world.on_first(lambda: held.enter_context(directory.locked()))
        held.enter_context(torch.random.fork_rng([world.device] if world.device.type == "cuda" else []))
        run: Run | None = None
        try:
            run = begin(recipe, directory, world, data, extends)
            journal = open_journal(run, quiet, tensorboard, held)
            for line in filter(None, (run.remark, first_line(run))):
                journal.progress.say(line)
            with journal.progress, stop.handling(world):
                fit(run, journal, stop)
            return finish(run, journal.progress)
        except Diverged as error:
            assert run is not None
            return finish_diverged(run, error)
        except BaseException as error:
            full = no_memory(error)
            free = not begun if run is None else full and not run.state.step
            if world.rank == 0 and free:  # the corrected recipe will be another one, and needs the directory
                directory.release()
            if full:
                raise NoMemory(TOO_LARGE.format(out)) from None
            raise


def begin(recipe: Recipe, directory: RunDirectory, world: Processes, data: Path | None, extends: bool) -> Run:
    """The run, new or continued, with its environment recorded. The first process loads the data first and fetches
    what is missing; then the others find it."""
    task = world.on_first(lambda: recipe.load_task(data)) or recipe.load_task(data)
    if directory.environment_file.exists():
        directory.environment()  # a damaged one is refused before anything changes
    run = Run(recipe, directory, task, world)
    now = Environment(made(data=task.describe()), run.start)
    world.on_first(lambda: directory.keep_environment(now))
    if extends:
        world.on_first(lambda: directory.extend(recipe))
    return run


TOO_LARGE = "{}: the device has too little memory: lower train.batch, raise train.accumulate, or make the model smaller"


def first_line(run: Run) -> str:
    """The first line that a run prints: its size, its device, and what is unusual."""
    options, step = run.options, run.state.step
    parameters = sum(p.numel() for p in run.model.parameters())
    where = f"{run.world.device.type}, {str(run.precision).removeprefix('torch.')}, {run.mode}"
    before, steps = run.directory.extended_from(), f"{options.steps:,}"
    on = f", continues after step {step:,}" if step else ""
    if step == before > 0:
        on = f", extended from {step:,} to {steps} steps; the schedule is now that of {steps}"
    late = f"; {options.too_late}" if options.too_late else ""
    held = "".join(
        f"; {remark}: " + ", ".join(f"{count:,} of {split}" for split, count in found.items())
        for remark, found in run.task.remarks().items()
    )
    begun = f"; {run.start.summary()}" if run.start else ""
    return f"{parameters:,} parameters, {counted(options.steps, 'step')}, {where}{on}{begun}{late}{held}"


def open_journal(run: Run, quiet: bool, tensorboard: bool, held: ExitStack) -> Journal:
    """The run's journal, silent on all processes but the first; `held` closes its files."""
    recipe, silent = run.recipe, run.world.rank > 0
    title = f"{recipe.task} {run.kind or label(run.model.config.scheme)} seed {recipe.train.seed}"
    writer = open_tensorboard(run.directory, run.state.step) if tensorboard and not silent else None
    if writer is not None:
        held.callback(writer.close)
    return Journal(run.directory, Progress(title, recipe.train.steps, quiet or silent), writer, silent)

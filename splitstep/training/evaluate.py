"""The figures of a model on one split of a task: teacher-forced, and running freely; and the end of a run, its result
and its saved model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..support.auto_classes import silent
from ..support.files import whole_folder
from ..support.provenance import made
from ..support.words import counted
from ..tasks import Batch, FreeRun, Task
from ..tasks.pairs.scores import Score
from .processes import Processes
from .progress import Counting, Progress
from .result import Divergence, Kept, RunResult, SplitResult
from .run import Diverged, Run
from .update import autocast

PATIENCE = 2.0  # seconds before an evaluation shows its progress


def share(batches: Iterator[Batch], world: Processes) -> Iterator[tuple[Batch, bool]]:
    """This process's batches, and whether each counts: sharded models need equally many on all processes."""
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) == world.size:
            yield group[world.rank], True
            group = []
    if group:
        counts = world.rank < len(group)
        yield group[world.rank if counts else 0], counts


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and no gradients."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def reported(batches: Iterator[Batch], total: Callable[[], int], progress: Counting | None) -> Iterator[Batch]:
    """The batches, with progress after each once the work has taken a while; only then they are counted."""
    begun, number = time.monotonic(), 0
    for done, batch in enumerate(batches, 1):
        yield batch
        if progress is not None and time.monotonic() - begun > PATIENCE:
            number = number or total()
            progress(done, number)


def evaluate(
    model: nn.Module,
    task: Task,
    split: str,
    size: int,
    precision: torch.dtype,
    world: Processes | None = None,
    progress: Counting | None = None,
) -> dict[str, float]:
    """The figures over every example of the split; several processes share the batches and add their sums."""
    device = next(model.parameters()).device
    world = Processes(0, 1, device) if world is None else world
    totals: dict[str, float] = {}
    each: list[Tensor] = []
    batches = reported(task.batches(split, size), lambda: sum(1 for _ in task.batches(split, size)), progress)
    with evaluating(model):
        for batch, counts in share(batches, world):
            moved = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
            with autocast(precision, device):
                output = model(**{name: x for name, x in moved.items() if name != "labels"}, use_cache=False)
            logits = output.logits
            for name, value in task.score_output(output, moved).items():
                totals[name] = totals.get(name, 0.0) + float(value) * counts
            if counts and (found := task.predictions(logits, moved)) is not None:
                each.append(found.cpu())
    if world.size > 1:
        names = sorted(totals)
        summed = world.sum(torch.tensor([totals[name] for name in names], dtype=torch.float64, device=device))
        totals = dict(zip(names, summed.tolist(), strict=True))
    everything = [one for part in world.together(lambda: each) for one in part]
    return task.summary(totals) | (task.summary_of_all(torch.cat(everything)) if everything else {})


def free_run(
    model: nn.Module, task: Task, split: str, precision: torch.dtype, world: Processes, progress: Counting | None = None
) -> FreeRun | None:
    """What the model writes for a split by itself, on the first process, with its scores, sent to all processes."""

    def act() -> FreeRun | None:
        with evaluating(model):
            return task.free_run(model, split, precision, progress)

    return world.from_first(act)


def result_of(run: Run, status: Literal["finished", "diverged"]) -> RunResult:
    """The result of a run, however it ended."""
    state, about = run.state, run.network.about(run.model, run.task)
    how = made(recipe=run.recipe.document())
    return RunResult(
        status=status,
        task=run.recipe.task,
        kind=run.kind,
        seed=run.options.seed,
        metric=run.task.metric,
        best_step=state.best_step,
        kept=kept(run),
        valid=state.best_valid,
        steps=state.step,
        tokens=state.tokens,
        seconds=round(state.times.seconds, 3),
        tokens_per_second=state.times.rate,
        **about._asdict(),
        device=device_name(run.world.device),
        processes=run.world.size,
        parallel=run.parallel,
        precision=str(run.precision).removeprefix("torch."),
        mode=run.mode,
        start=run.directory.environment().start,
        commit=how.commit,
        made=how,
    )


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def kept(run: Run) -> Kept:
    """Which weights the run ends with."""
    if run.snapshots:
        return Kept("average", [step for step in run.snapshots if step <= run.state.step])
    name = run.task.metric.name if run.options.best == "metric" else "loss"
    return Kept("best", [] if run.state.best_step is None else [run.state.best_step], name)


def finish(run: Run, progress: Progress) -> RunResult:
    """Test the weights that were kept, save them as a Hugging Face model, write the result."""
    run.load_kept()
    model = run.whole()
    evaluated = {split: evaluate_split(run, model, split, progress) for split in ("valid", *run.task.tests)}
    figures = {split: one for split, (one, _) in evaluated.items()}
    written = {split: found for split, (_, found) in evaluated.items() if found is not None}
    splits = {
        split: SplitResult(len(found.lines), figures[split], tuple(Score(**one) for one in found.scores))
        for split, found in written.items()
    }
    result = replace(
        result_of(run, "finished"), valid=figures["valid"], test=figures[run.task.tests[0]], splits=splits or None
    )

    def save() -> None:
        with whole_folder(run.directory.model) as part, silent():
            model.save_pretrained(part)
            run.task.save_with(part)
            (part / "README.md").write_text(run.network.card(result, model, run.task, part), encoding="utf-8")
        if written:
            with whole_folder(run.directory.translations) as part:
                for split, found in written.items():
                    text = "".join(f"{line}\n" for line in found.lines)
                    (part / f"{split}.txt").write_text(text, encoding="utf-8")
        run.directory.write_result(result)

    run.world.on_first(save)
    return result


def evaluate_split(run: Run, model: Any, split: str, progress: Progress) -> tuple[dict[str, float], FreeRun | None]:
    """All figures of the run's present weights on a split, and what `model`, the same weights unsharded, writes."""
    known = run.state.best_valid if split == "valid" else None
    size = run.options.evaluate_batch or run.options.batch
    shown = progress.counting(f"{split}: evaluated", "batches")
    figures = known or evaluate(run.model, run.task, split, size, run.precision, run.world, shown)
    found = free_run(model, run.task, split, run.precision, run.world, progress.counting(f"{split}: translated"))
    return {**figures, **(found.figures if found else {})}, found


def finish_diverged(run: Run, error: Diverged) -> RunResult:
    """The result of a run that diverged: when, where, and how large everything was."""
    run.state = run.state._replace(times=run.clock.read())
    measured = norms(run)  # by all processes, because a sharded model needs them; of the first one's part of the batch
    layer, states, weights = run.world.from_first(lambda: measured)
    found = Divergence(error.step, error.loss, error.gradient_norm, layer, states, weights, error.reason)
    result = replace(result_of(run, "diverged"), diverged=found)
    run.world.on_first(lambda: run.directory.write_result(result))
    return result


@torch.no_grad()
def norms(run: Run) -> tuple[int | Literal["embedding"], tuple[float, ...], tuple[float, ...]]:
    """The layer, the state norms and the weight norms of a divergence, on the last batch.

    After a gradient that is not finite nothing is updated, so the weights are still those that led to it.
    """
    work = run.work(run.fault.step - 1 if run.fault else run.state.step - 1).to(run.world.device)
    with autocast(run.precision, run.world.device):
        sizes, weights = run.network.norms(run.model, work.parts[0], work.seeds[0])
    growth = [after / before if before else 0.0 for before, after in pairwise(sizes)]
    bad = next((i - 1 for i, size in enumerate(sizes) if not isfinite(size)), None)
    layer = growth.index(max(growth)) if bad is None else bad
    return "embedding" if layer < 0 else layer, tuple(sizes), tuple(weights)

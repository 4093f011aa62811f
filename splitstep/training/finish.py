"""The end of a run: its result and its saved model."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

import torch

from ..models.base import silent
from ..support.files import whole_folder
from ..support.provenance import made
from ..support.words import counted
from ..tasks import FreeRun
from ..tasks.pairs.scores import Score
from .evaluate import evaluate, free_run
from .progress import Progress
from .result import Divergence, Kept, RunResult, SplitResult
from .run import Diverged, Run
from .update import autocast


def result_of(run: Run, status: Literal["finished", "diverged"]) -> RunResult:
    """The result of a run, however it ended."""
    state, about = run.state, run.network.about(run.model, run.task)
    how = made(recipe=run.recipe.document())
    return RunResult(
        status=status,
        task=run.recipe.task,
        scheme=about.scheme,
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
        cost=about.cost,
        matched=about.matched,
        shape=about.shape,
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

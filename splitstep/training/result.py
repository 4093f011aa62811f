"""The end of a run: its result as a document, and the model beside it."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import Any

import torch

from ..models import SplitstepModel
from ..models.base import all_stacks, silent
from ..models.cost import cost
from ..probes import observe
from ..schemes import name_of, scheme
from ..support.files import whole_folder
from ..support.words import counted
from ..tasks import FreeRun
from .directory import stamp
from .evaluate import evaluate, free_run
from .journal import stated
from .progress import Progress
from .run import Diverged, Run
from .sharding import gathered
from .update import autocast


def document(run: Run, status: str) -> dict[str, Any]:
    """What is known of a run, however it ended."""
    state, config = run.state, run.model.config
    return {
        "status": status,
        "task": run.recipe.task,
        "scheme": {"name": name_of(scheme(config.scheme)), "notation": config.scheme},
        "seed": run.options.seed,
        "metric": run.task.metric._asdict(),
        "best_step": state.best_step,
        "kept": kept(run),
        "valid": state.best_valid,
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.times.seconds, 3),
        "tokens_per_second": state.times.rate,
        "cost": cost(config, run.task.length)._asdict(),
        "matched": config.matched,
        "shape": {"layers": config.layers, "width": config.width, "ffn": config.ffn, "step": config.step},
        "device": device_name(run.world.device),
        "processes": run.world.size,
        "parallel": run.parallel,
        "precision": str(run.precision).removeprefix("torch."),
        "mode": run.mode,
        **stamp(),
        "recipe": run.recipe.document(),
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def kept(run: Run) -> dict[str, Any]:
    """Which weights the run ends with."""
    if run.snapshots:
        return {"by": "average", "steps": [step for step in run.snapshots if step <= run.state.step]}
    name = run.task.metric.name if run.options.best == "metric" else "loss"
    return {"by": "best", "figure": name, "steps": [] if run.state.best_step is None else [run.state.best_step]}


def finish(run: Run, progress: Progress) -> dict[str, Any]:
    """Test the weights that were kept, save them as a Hugging Face model, write the result."""
    run.load_kept()
    model = run.whole()
    judged = {split: judge(run, model, split, progress) for split in ("valid", *run.task.tests)}
    figures = {split: {name: stated(value) for name, value in one.items()} for split, (one, _) in judged.items()}
    written = {split: found for split, (_, found) in judged.items() if found is not None}
    result = {**document(run, "finished"), "valid": figures["valid"], "test": figures[run.task.tests[0]]}
    if written:
        result["splits"] = {
            split: {"lines": len(found.lines), "figures": figures[split], "scores": found.scores}
            for split, found in written.items()
        }
    if run.world.rank == 0:
        with whole_folder(run.directory.model) as part, silent():
            model.save_pretrained(part)
            run.task.save_with(part)
        if written:
            with whole_folder(run.directory.translations) as part:
                for split, found in written.items():
                    text = "".join(f"{line}\n" for line in found.lines)
                    (part / f"{split}.txt").write_text(text, encoding="utf-8")
        run.directory.write_result(result)
    run.world.wait()
    return result


def judge(run: Run, model: SplitstepModel, split: str, progress: Progress) -> tuple[dict[str, float], FreeRun | None]:
    """All figures of the run's present weights on a split, and what `model`, which has them whole, writes for it."""
    known = run.state.best_valid if split == "valid" else None
    size = run.options.evaluate_batch or run.options.batch
    figures = known or evaluate(run.model, run.task, split, size, run.precision, run.world)
    found = free_run(model, run.task, split, run.precision, run.world, progress.counting(f"{split}: translated"))
    return {**figures, **(found.figures if found else {})}, found


def give_up(run: Run, error: Diverged) -> dict[str, Any]:
    """The result of a run that blew up: when, where, and how large everything was."""
    run.state = run.state._replace(times=run.clock.read())
    found = {"step": error.step, "loss": stated(error.loss), "gradient_norm": stated(error.gradient_norm), **norms(run)}
    result = {**document(run, "diverged"), "diverged": found}
    if run.world.rank == 0:
        run.directory.write_result(result)
    run.world.wait()
    return result


@torch.no_grad()
def norms(run: Run) -> dict[str, Any]:
    """The size of the state after the embedding and after each layer on the last batch, and of each layer's weights;
    `layer` is the first one that a state leaves as no number, else the one in which states grow most.

    No update happened after a gradient that was no number, so the weights are still those that led to it.
    """
    work = run.work(run.fault.step - 1 if run.fault else run.state.step - 1).to(run.world.device)
    with autocast(run.precision, run.world.device):
        found = observe(run.model, {**work.parts[0], "dropout_seed": work.seeds[0]}, ["state_norms"])["state_norms"]
    sizes = [size for figures in found.values() for size in figures["x"]]
    growth = [after / before if before else 0.0 for before, after in pairwise(sizes)]
    bad = next((i - 1 for i, size in enumerate(sizes) if not isfinite(size)), None)
    layer = growth.index(max(growth)) if bad is None else bad
    weights = [
        float(torch.stack([gathered(p.detach()).float().norm() for p in layer.parameters()]).norm())
        for stack in all_stacks(run.model)
        for layer in stack.layers
    ]
    return {
        "layer": "embedding" if layer < 0 else layer,
        "state_norms": [stated(size) for size in sizes],
        "weight_norms": [stated(weight) for weight in weights],
    }

"""What the training loop costs beside a bare loop over the same model and batches.

    python benchmarks/harness.py --out results/harness.json

The loop logs every 20 updates, as by default, and writes a checkpoint at the end of each piece, more often than once a
minute, the default. The bare loop makes its batches, updates, and keeps its losses. Both evaluate once, at the
end. They take turns in short pieces, so whatever else runs on the machine affects both; the figure is the median of the
ratios of neighbouring pieces, in wall time and in CPU time of all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from splitstep.options import learning_rate
from splitstep.support.provenance import stamp
from splitstep.tasks import Task
from splitstep.training import Recipe, evaluate, load_recipe
from splitstep.training.directory import RunDirectory
from splitstep.training.loop import fit, open_journal
from splitstep.training.networks import build_model
from splitstep.training.objective import dropout_seed
from splitstep.training.processes import Processes
from splitstep.training.run import Run

BAR = 1.03
ALONE = Processes(0, 1, torch.device("cpu"))


def bare(recipe: Recipe, task: Task) -> tuple[Callable[[], Any], nn.Module]:
    """A plain training loop with nothing around it."""
    options = recipe.train
    model = build_model(recipe, task).train()
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, options.lr, (0.9, 0.98), options.eps, fused=True)

    def loop() -> list[torch.Tensor]:
        losses = []
        for step in range(options.steps):
            batch = task.batch(options.seed, step, options.batch)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(options, step)
            optimizer.zero_grad()
            loss = model(**batch, dropout_seed=dropout_seed(options.seed, step, 0, 0)).loss
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, options.clip)
            optimizer.step()
            losses.append(loss.detach())
        evaluate(model, task, "valid", options.batch, torch.float32)
        return losses

    return loop, model


def harness(recipe: Recipe, task: Task, folder: Path) -> tuple[Callable[[], Any], nn.Module]:
    """`fit`, as `train` calls it."""
    directory = RunDirectory(folder)
    directory.claim(recipe)
    run = Run(recipe, directory, task, ALONE)

    def loop() -> None:
        fit(run, open_journal(run, True, False, ExitStack()))

    return loop, run.model


def timed(loop: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    loop()
    return time.perf_counter() - wall, time.process_time() - cpu


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """The median ratio of (harness, bare) and its spread."""
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "ratio": round(statistics.median(ratios), 4),
        "quartiles": [round(low, 4), round(high, 4)],  # pyright: ignore
        "ratio_of_medians": round(
            statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs), 4
        ),
        "bare_seconds": round(statistics.median(theirs for _, theirs in pairs), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recipe", default="digits")
    parser.add_argument("--steps", type=int, default=200, help="updates per piece")
    parser.add_argument("--pieces", type=int, default=16, help="pieces of each loop")
    parser.add_argument("--out", type=Path, default=Path("results/harness.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    n = options.steps
    recipe = load_recipe(options.recipe, [f"train.steps={n}", f"train.evaluate_every={n}", "train.warmup=20"])
    task, begun = recipe.load_task(), time.monotonic()
    pairs: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for piece in range(-1, options.pieces):  # the first warms up
            loops = [harness(recipe, task, Path(folder) / str(piece)), bare(recipe, task)]
            found = [timed(loops[i][0]) for i in ((0, 1) if piece % 2 else (1, 0))]
            ours, theirs = found if piece % 2 else found[::-1]
            for mine, other in zip(loops[0][1].parameters(), loops[1][1].parameters(), strict=True):
                assert torch.equal(mine, other), "the two loops train different models"
            if piece >= 0:
                pairs.append((ours, theirs))
                print(
                    f"piece {piece + 1:>2}: wall {ours[0] / theirs[0]:.3f}  CPU {ours[1] / theirs[1]:.3f}", flush=True
                )
    wall, cpu = (summary([(ours[i], theirs[i]) for ours, theirs in pairs]) for i in (0, 1))
    print(f"harness / bare, median of {len(pairs)}: wall {wall['ratio']:.3f} {wall['quartiles']}, "
          f"CPU {cpu['ratio']:.3f} {cpu['quartiles']}; bar {BAR}")  # fmt: skip
    document = {
        "command": f"python benchmarks/harness.py --recipe {options.recipe} --steps {n} --pieces {options.pieces}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, CPU only, 1 thread",
        "load": round(os.getloadavg()[1], 1),
        **stamp(),
        "wall_seconds": round(time.monotonic() - begun, 1),
        "bar": BAR,
        "wall": wall,
        "cpu": cpu,
        "recipe": recipe.document(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if wall["ratio"] <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())

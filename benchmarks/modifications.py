"""Which published modifications help a small network: the table of docs/results/modifications.md, in two stages a task.

    python benchmarks/modifications.py stdlib --out results/compare/modifications
    python benchmarks/modifications.py digits --out results/compare/modifications

Stage 1 compares 14 modifications with `lie`, each at its own learning rate, over three seeds. Stage 2 takes the four
with the lowest validation loss, and compares them again with eight other seeds at one and three times the steps. The
rule was written before the runs. If interrupted, the same command continues.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import splitstep as ss
from splitstep.experiments.trials import Trial

ARMS = (
    "swiglu", "geglu", "relu", "relu2", "rms", "tanh", "qk-norm", "sandwich", "post", "no-positions", "one-kv-head",
    "no-bias", "parallel", "macaron",
)  # fmt: skip
CHANGES = {"stdlib": ["train.steps=200", "train.warmup=20", "train.evaluate_every=100"], "digits": []}
RATES, FINALISTS, BUDGETS = 3, 4, (1.0, 3.0)
SEEDS = (3, 8)  # of the two stages
FRESH = 100  # the first seed of stage 2


def finalists(trials: Sequence[Trial], first: str, count: int) -> list[str]:
    """The arms with the lowest mean validation loss, without the first one and without those that diverged."""
    losses: dict[str, list[float]] = {}
    for one in trials:
        if not one.role and one.arm != first:
            losses.setdefault(one.arm, []).append(float((one.valid or {}).get("loss", math.inf)))
    means = {arm: fmean(found) for arm, found in losses.items() if all(map(math.isfinite, found))}
    return sorted(means, key=means.__getitem__)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=CHANGES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("changes", nargs="*", help="entries of the recipe")
    asked = parser.parse_intermixed_args()
    first, arms = "lie", asked.arms.split(",")
    changes, folder = [*CHANGES[asked.task], *asked.changes], asked.out / asked.task
    found = ss.compare(
        asked.task, *changes, arms=(first, *arms), seeds=asked.seeds[0], tune=RATES, null=True,
        out=folder / "stage1", engine=asked.engine,
    )  # fmt: skip
    print(f"{asked.task}, stage 1: {found.verdict}", flush=True)
    if asked.stages == 1:
        return
    best = finalists(found.trials, first, FINALISTS)
    found = ss.compare(
        asked.task, *changes, f"train.seed={FRESH}", arms=(first, *best), seeds=asked.seeds[1], budgets=BUDGETS,
        tune=RATES, null=True, out=folder / "stage2", engine=asked.engine,
    )  # fmt: skip
    print(f"{asked.task}, stage 2: {found.verdict}", flush=True)


if __name__ == "__main__":
    main()

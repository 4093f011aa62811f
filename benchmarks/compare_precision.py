"""Whether training in bfloat16 ends where training in float32 does: the same network, with the same seeds, in both.

    OMP_NUM_THREADS=1 python benchmarks/compare_precision.py --data ./data --out results/compare/precision.json

Networks of 6 layers and width 384 learn Shakespeare by bytes, in a minute of one core each. What is compared is the
test loss in nats a token, paired by seed. The two count as equal if the interval of the difference is inside 0.005, by
the rule of `splitstep compare`. The time is that of the processor for whole runs: it shows how much faster bfloat16 is
on one that has it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from splitstep.experiments.ladder import leads
from splitstep.experiments.looks import Looks, follow
from splitstep.recipe import load_recipe
from splitstep.support.provenance import stamp
from splitstep.training import train

MARGIN, FIRST, OTHER = 0.005, "float32", "bfloat16"
ENTRIES = [
    "model.layers=6", "model.width=384", "model.heads=6", "model.ffn=1536", "train.batch=4", "train.lr=5e-4",
    "train.warmup=20", "data.valid_limit=4000", "data.test_limit=50000",
]  # fmt: skip


class Ended(NamedTuple):
    """What a run ended with."""

    precision: str
    seed: int
    loss: float
    seconds: float


def ended(precision: str, seed: int, steps: int, data: Path | None) -> Ended:
    """A run, evaluated once."""
    of_run = [f"train.precision={precision}", f"train.seed={seed}", f"train.steps={steps}"]
    recipe = load_recipe("own-text", [*ENTRIES, *of_run, f"train.evaluate_every={steps}"])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        found = train(recipe, Path(folder) / "run", data, quiet=True)
        assert found.test is not None, "the run diverged"
        return Ended(precision, seed, float(found.test["loss"]), time.process_time() - begun)


def compared(runs: list[Ended], seeds: int) -> dict[str, Any]:
    """What the runs say."""
    first, other = ({one.seed: one for one in runs if one.precision == name} for name in (FIRST, OTHER))
    losses = [{seed: one.loss for seed, one in own.items()} for own in (other, first)]
    found = follow(leads(*losses, higher=False), range(seeds), Looks((seeds,)), MARGIN)
    assert found.lead is not None
    times = sum(one.seconds for one in first.values()) / sum(one.seconds for one in other.values())
    return {"margin": MARGIN, "word": found.word, "lead": found.lead._asdict(), "times_as_fast": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path, required=True)
    chosen, runs = parser.parse_args(), list[Ended]()
    for seed in range(chosen.seeds):
        for precision in (FIRST, OTHER):
            runs.append(ended(precision, seed, chosen.steps, chosen.data))
            print(*runs[-1], file=sys.stderr, flush=True)
    found = compared(runs, chosen.seeds)
    command = f"python benchmarks/compare_precision.py --seeds {chosen.seeds} --steps {chosen.steps}"
    table = {**found, "command": command, "entries": ENTRIES, "runs": [one._asdict() for one in runs], **stamp()}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main()

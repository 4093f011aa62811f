"""Eager, compiled and captured updates: whether losses agree, and how fast each is. Needs a CUDA device.

    python benchmarks/modes.py --out results/modes

Two models: the one of the MNIST recipe, on random images, and a small causal language model on random bytes. Dropout is
on: its masks are a pure function of the seed. Every mode starts from the same weights and sees the same batches, made
before the clock starts; updates per second are those after the first ones, in which code is compiled and recorded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from splitstep.models import KINDS, CausalConfig, ImageConfig, SplitstepConfig
from splitstep.options import learning_rate
from splitstep.recipes import find_recipe
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.training import TrainOptions
from splitstep.training.objective import Learner, UpdateBatch, dropout_seed
from splitstep.training.processes import Processes
from splitstep.training.update import choose_precision, make_optimizer, make_update
from splitstep.training.weights import spread

MODES = ("eager", "compile", "capture", "compile+capture")
BAR = 3.0  # captured against eager, for the MNIST model
SEED = 0


class Case(NamedTuple):
    """A network, and what its batches look like."""

    kind: str
    config: SplitstepConfig
    batch: int


def cases() -> dict[str, Case]:
    """The MNIST recipe's network, and a small language model."""
    import yaml

    recipe: Any = yaml.safe_load(find_recipe("mnist").read_text())
    data = recipe.get("data") or {}
    shape: dict[str, Any] = {"image_size": 28, "channels": 1, "patch": data.get("patch", 4), "num_labels": 10}
    image = ImageConfig(**shape, **recipe["model"])
    text = CausalConfig(
        layers=6, width=256, heads=4, ffn=1024, vocab_size=256, max_positions=256, dropout=0.1, positions="rotary"
    )
    return {"mnist": Case("image", image, recipe["train"]["batch"]), "language": Case("causal", text, 16)}


def make_batch(case: Case, step: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1000 + step)
    if case.kind == "image":
        pixels = torch.randn(case.batch, 1, 28, 28, generator=random)
        return {"pixel_values": pixels, "labels": torch.randint(10, (case.batch,), generator=random)}
    ids = torch.randint(256, (case.batch, 256), generator=random)
    return {"input_ids": ids, "labels": ids.clone()}


def make_works(case: Case, count: int, device: torch.device) -> list[UpdateBatch]:
    def work(step: int) -> UpdateBatch:
        batch = make_batch(case, step)
        items = float(case.batch if case.kind == "image" else case.batch * 255)
        return UpdateBatch([batch], [dropout_seed(SEED, step, 0, 0)], torch.tensor(items), 0).to(device)

    return [work(step) for step in range(count)]


class Measured(NamedTuple):
    """The first losses of a mode, and its speed."""

    losses: list[float]
    updates_per_second: float
    first_seconds: float


def measure(case: Case, mode: str, precision: str, agree: int, updates: int) -> Measured:
    """`agree` updates whose losses are kept, then `updates` more that are timed."""
    torch._dynamo.reset()
    device = torch.device("cuda", torch.cuda.current_device())
    world = Processes(0, 1, device)
    options = TrainOptions(steps=agree + updates, batch=case.batch, lr=1e-3, warmup=10)
    torch.manual_seed(SEED)
    model: Any = KINDS[case.kind].model(case.config)
    model = model.to(device).train()
    optimizer = make_optimizer(model, options, device)
    learner = Learner(model)
    dtype = choose_precision(precision, device)
    update = make_update(learner, spread(learner, "none", world), optimizer, options, dtype, mode, world)
    works = make_works(case, agree, device)
    begun = time.perf_counter()
    losses = [update(work, learning_rate(options, step))[0] for step, work in enumerate(works[:1])]
    torch.cuda.synchronize()
    first = time.perf_counter() - begun
    losses += [update(work, learning_rate(options, step))[0] for step, work in enumerate(works[1:], 1)]
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for step in range(agree, agree + updates):
        update(works[step % agree], learning_rate(options, step))
    torch.cuda.synchronize()
    rate = updates / (time.perf_counter() - begun)
    return Measured([float(loss) for loss in losses], rate, first)


def difference(losses: list[float], reference: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference, strict=True))


def study(name: str, case: Case, precision: str, agree: int, updates: int) -> list[dict[str, Any]]:
    found = {mode: measure(case, mode, precision, agree, updates) for mode in MODES}
    rows = []
    for mode, one in found.items():
        rows.append(
            {
                "model": name,
                "precision": precision,
                "mode": mode,
                "difference": difference(one.losses, found["eager"].losses),
                "updates_per_second": round(one.updates_per_second, 1),
                "ratio": round(one.updates_per_second / found["eager"].updates_per_second, 2),
                "first_update_seconds": round(one.first_seconds, 2),
                "losses": one.losses,
            }
        )
        row = rows[-1]
        print(
            f"{name:<9} {precision:<9} {mode:<16} {row['difference']:>10.1e} {row['updates_per_second']:>10,.1f} "
            f"{row['ratio']:>6.2f} {row['first_update_seconds']:>8.1f}",
            flush=True,
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agree", type=int, default=30, help="updates whose losses are compared")
    parser.add_argument("--updates", type=int, default=200, help="updates that are timed")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("Error: benchmarks/modes.py needs a CUDA device: captured updates are CUDA graphs.", file=sys.stderr)
        return 2
    begun, rows = time.monotonic(), []
    print(
        f"{'model':<9} {'precision':<9} {'mode':<16} {'difference':>10} {'updates/s':>10} {'ratio':>6} {'first s':>8}"
    )
    for precision in options.precisions.split(","):
        for name, case in cases().items():
            rows += study(name, case, precision, options.agree, options.updates)
    captured = {row["precision"]: row["ratio"] for row in rows if row["model"] == "mnist" and row["mode"] == "capture"}
    shown = ", ".join(f"{ratio} in {precision}" for precision, ratio in captured.items())
    default = str(choose_precision("auto", torch.device("cuda"))).removeprefix("torch.")  # what a run trains in here
    print(f"captured / eager for the MNIST model: {shown}; bar {BAR} in {default}")
    document = {
        "command": f"python benchmarks/modes.py --agree {options.agree} --updates {options.updates} "
        f"--precisions {options.precisions}",
        "device": torch.cuda.get_device_name(),
        **stamp(),
        "wall_seconds": round(time.monotonic() - begun, 1),
        "bar": BAR,
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "result.json", json.dumps(document, indent=1) + "\n")
    return 0 if captured.get(default, 0.0) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())

"""How much memory a checkpoint takes while it is written, in each of several processes that share a model.

    python benchmarks/save_memory.py --out results/save_memory

The processes train a language model for one update, keep its weights as the best, and write a checkpoint, while a
thread reads their resident memory. The figure is the largest increase during the save, as a share of the bytes of the
process's own weights and moments; the size of the largest tensor is given too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from splitstep.support.provenance import stamp
from splitstep.training import read_recipe
from splitstep.training.directory import RunDirectory
from splitstep.training.processes import this_world
from splitstep.training.run import Run

BAR = 0.5  # of the own bytes, in addition to the largest tensor
WIDTH = 1024


def recipe(layers: int, width: int, parallel: str, processes: int) -> dict[str, Any]:
    """12 width^2 parameters in each layer."""
    return {
        "task": "stdlib",
        "data": {"length": 16, "limit": 20_000},
        "model": {"layers": layers, "width": width, "heads": 8, "ffn": 4 * width},
        "train": {"steps": 10, "batch": processes, "parallel": parallel, "mode": "eager", "precision": "float32"},
    }


def local(x: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor

    return x.to_local() if isinstance(x, DTensor) else x


class Peak:
    """The highest resident memory of this process inside the block, above that at its beginning."""

    def __enter__(self) -> Peak:
        self.process, self.stop = psutil.Process(), threading.Event()
        self.before = self.high = self.process.memory_info().rss
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def sample(self) -> None:
        while not self.stop.wait(0.002):
            self.high = max(self.high, self.process.memory_info().rss)

    def __exit__(self, *_: Any) -> None:
        self.stop.set()
        self.thread.join()

    @property
    def rise(self) -> int:
        return self.high - self.before


def measure(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One process: an update, the best weights, a save."""
    torch.set_num_threads(1)
    given = read_recipe(document, "recipe")
    world, directory = this_world(), RunDirectory(folder)
    world.on_first(lambda: directory.claim(given))
    run = Run(given, directory, given.load_task(), world)
    run.advance(run.work(0), 1e-3)
    run.keep_if_best({"loss": 1.0, "bits_per_byte": 1.0})
    run.look()
    weights = [local(p.detach()) for p in run.model.parameters()]
    own = 3 * sum(w.numel() * w.element_size() for w in weights)
    world.any(False)  # all of them begin at once
    begun = time.monotonic()
    with Peak() as peak:
        run.save()
    seconds = time.monotonic() - begun
    return {
        "rank": world.rank,
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "own_bytes": own,
        "largest_tensor": max(w.numel() * w.element_size() for w in weights),
        "rise": peak.rise,
        "save_seconds": round(seconds, 2),
    }


def launch(document: dict[str, Any], folder: Path, processes: int) -> list[dict[str, Any]]:
    """The measurement in several processes; each writes its figures to a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, __file__, "--measure", json.dumps(document), "--out", str(folder)]
    base = {
        **os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes),
    }  # fmt: skip
    children = [
        subprocess.Popen(words, env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(processes)
    ]
    for child in children:
        if child.wait():
            raise SystemExit(f"a process ended with code {child.returncode}")
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.measure:
        found = measure(json.loads(options.measure), options.out / "run")
        (options.out / f"{found['rank']}.json").write_text(json.dumps(found))
        torch.distributed.destroy_process_group()
        return 0
    rows = []
    for parallel in ("fsdp", "ddp"):
        with tempfile.TemporaryDirectory() as folder:
            document = recipe(options.layers, options.width, parallel, options.processes)
            for row in launch(document, Path(folder), options.processes):
                allowed = BAR * row["own_bytes"] + row["largest_tensor"]
                rows.append({"parallel": parallel, **row, "allowed": int(allowed), "within": row["rise"] <= allowed})
                print(
                    f"{parallel} process {row['rank']}: {row['parameters']:,} parameters, own weights and moments "
                    f"{row['own_bytes'] / 2**20:,.0f} MiB; the save took {row['save_seconds']} s and "
                    f"{row['rise'] / 2**20:,.0f} MiB more ({row['rise'] / row['own_bytes']:.2f}), "
                    f"allowed {allowed / 2**20:,.0f} MiB",
                    flush=True,
                )
    document = {
        "command": f"python benchmarks/save_memory.py --layers {options.layers} --width {options.width} "
        f"--processes {options.processes}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, CPU only, 1 thread a process",
        **stamp(),
        "bar": BAR,
        "rows": rows,
    }
    (options.out / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

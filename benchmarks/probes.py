"""What it costs to watch a run: all probes, recorded at least 20 times, against the same run without probes.

    python benchmarks/probes.py --out results/probes
    python benchmarks/probes.py --recipe mnist --data DIR --pairs 5 --out results/probes     on a GPU

Both runs are whole ones, from the recipe to the written model. They take turns, so whatever else runs on the machine
affects both; the figure is the median of the ratios of neighbours, in wall time on a GPU, in CPU time elsewhere. What
probes compute once and keep for the process is forgotten before each run. Peak memory is that of two processes of their
own, one with 20 records, one with five times as many: resident memory on a CPU, the device's own on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from splitstep.probes import PROBES
from splitstep.probes.information import input_biases, label_biases, projection
from splitstep.support.provenance import stamp
from splitstep.training import Recipe, load_recipe, train
from splitstep.training.directory import RunDirectory

BAR, GROWTH, RECORDS = 1.15, 1.02, 20


class Times(NamedTuple):
    """Wall and CPU seconds of a run."""

    wall: float
    cpu: float


def recipe_of(options: argparse.Namespace, records: int) -> Recipe:
    """The recipe with all probes and so many records in a run; with none, without probes."""
    changes = [] if options.steps is None else [f"train.steps={options.steps}"]
    steps = load_recipe(options.recipe, changes).train.steps
    if records:
        names = [name for name in PROBES if name in PROBES.own]
        changes += [f"probes=[{','.join(names)}]", f"train.probe_every={max(1, steps // records)}"]
    return load_recipe(options.recipe, changes)


def run(options: argparse.Namespace, records: int, folder: Path) -> Times:
    """Train, and count the records."""
    for function in (input_biases, label_biases, projection):
        function.cache_clear()
    recipe = recipe_of(options, records)
    wall, cpu = time.perf_counter(), time.process_time()
    train(recipe, folder, options.data, quiet=True)
    times = Times(time.perf_counter() - wall, time.process_time() - cpu)
    found = [record for record in RunDirectory(folder).logged() if record["split"] == "probe"]
    assert len(found) >= records, f"{len(found)} records"
    return times


def compared(options: argparse.Namespace) -> list[tuple[Times, Times]]:
    """(watched, plain) of each pair; who begins alternates."""
    pairs: list[tuple[Times, Times]] = []
    for number in range(-1, options.pairs):  # the first warms up
        with tempfile.TemporaryDirectory() as folder:
            order = (RECORDS, 0) if number % 2 else (0, RECORDS)
            found = {records: run(options, records, Path(folder) / str(records)) for records in order}
        if number >= 0:
            pairs.append((found[RECORDS], found[0]))
            watched, plain = pairs[-1]
            print(f"pair {number + 1}: wall {watched.wall:.2f} / {plain.wall:.2f} = {watched.wall / plain.wall:.3f}, "
                  f"CPU {watched.cpu / plain.cpu:.3f}", flush=True)  # fmt: skip
    return pairs


def summary(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """The median ratio of (watched, plain), all ratios, and the seconds of both."""
    watched, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [w / p for w, p in pairs]
    return {
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "plain_seconds": round(plain, 2),
        "seconds_per_record": round((watched - plain) / RECORDS, 4),
    }


def peak(options: argparse.Namespace, records: int) -> int:
    """The peak memory in bytes of a process that trains with so many records."""
    words = [sys.executable, __file__, "--recipe", options.recipe, "--records", str(records)]
    words += [] if options.data is None else ["--data", str(options.data)]
    words += [] if options.steps is None else ["--steps", str(options.steps)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1])


def train_and_print_peak(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(options, options.records, Path(folder) / "run")
    print(torch.cuda.max_memory_allocated() if torch.cuda.is_available() else resident_peak())


def resident_peak() -> int:
    """The most resident memory of this process; what getrusage says would include the process that started it."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recipe", default="digits")
    parser.add_argument("--steps", type=int, help="updates of a run, if not the recipe's")
    parser.add_argument("--data", type=Path, help="the folder of the data")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, help="only train with so many records, and print the peak memory")
    parser.add_argument("--out", type=Path, default=Path("results/probes"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.records:
        train_and_print_peak(options)
        return 0
    pairs = compared(options)
    wall, cpu = (summary([(w[i], p[i]) for w, p in pairs]) for i in (0, 1))
    ratio = (wall if torch.cuda.is_available() else cpu)["ratio"]
    memory = {records: peak(options, records) for records in (RECORDS, 5 * RECORDS)}
    growth = memory[5 * RECORDS] / memory[RECORDS]
    gpu = torch.cuda.is_available()
    print(f"watched / plain: wall {wall['ratio']:.3f}, CPU {cpu['ratio']:.3f}, bar {BAR}; peak memory with five times "
          f"as many records: {growth:.4f}, bar {GROWTH}")  # fmt: skip
    document = {
        "command": f"python benchmarks/probes.py --recipe {options.recipe} --pairs {options.pairs}"
        + (f" --steps {options.steps}" if options.steps else ""),
        "machine": torch.cuda.get_device_name() if gpu else f"{os.cpu_count()} cores, {platform.machine()}, 1 thread",
        "load": round(os.getloadavg()[1], 1),
        **stamp(),
        "records": RECORDS,
        "bar": BAR,
        "judged_by": "wall" if gpu else "cpu",
        "wall": wall,
        "cpu": cpu,
        "peak_bytes": memory,
        "growth": round(growth, 4),
        "growth_bar": GROWTH,
        "recipe": recipe_of(options, RECORDS).document(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{Path(options.recipe).stem}.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if ratio <= BAR and growth <= GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())

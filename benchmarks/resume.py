"""Kill runs with SIGKILL at random moments, start them again, and compare every bit with an undisturbed run.

    python benchmarks/resume.py --kills 20 --out results/resume.json

Each run is killed once, at a moment drawn uniformly between its claim of the directory and its last written file. Every
process is a new interpreter; nothing is simulated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from splitstep.support.provenance import stamp

MOMENT = ("tokens_per_second", "seconds", "date", "commit")  # what may differ between two equal runs
RECIPE: dict[str, Any] = {
    "task": "digits",
    "scheme": "macaron",
    "model": {"layers": 2, "width": 32, "heads": 2, "ffn": 64, "dropout": 0.1},
    "train": {
        "steps": 250, "batch": 16, "accumulate": 2, "lr": 0.002, "warmup": 30, "log_every": 7, "evaluate_every": 45,
        "evaluate_batch": 400,
        "checkpoint_seconds": 0.2,
    },
}  # fmt: skip
CHILD = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from splitstep.training import read_recipe, train
train(read_recipe(json.loads(sys.argv[1]), "recipe"), Path(sys.argv[2]), quiet=True)
"""


def start(out: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", CHILD, json.dumps(RECIPE), str(out)], env=environment)


def claimed(out: Path) -> float:
    """Wait until the run has claimed its directory, and return the time."""
    while not (out / "recipe.yaml").exists():
        time.sleep(0.001)
    return time.monotonic()


def fingerprint(out: Path) -> dict[str, str]:
    """A hash of the saved weights, of the last checkpoint's tensors, of the metrics and of the result."""

    def without(record: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in record.items() if key not in MOMENT}

    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    folders = (max(out.glob("checkpoints/step-*")), out / "model")  # the clock decides when earlier ones are written
    files = [file for folder in folders for file in sorted(folder.glob("*.safetensors"))]
    found = {f"{p.parent.name}/{p.name}": digest(p.read_bytes()) for p in files}
    lines = [without(json.loads(line)) for line in (out / "metrics.jsonl").read_text().splitlines()]
    result = without(json.loads((out / "result.json").read_text()))
    return {**found, "metrics": digest(json.dumps(lines).encode()), "result": digest(json.dumps(result).encode())}


def where(out: Path) -> tuple[str, bool]:
    """The state after the kill: the newest checkpoint, and whether something was half-written."""
    newest = max((p.name for p in out.glob("checkpoints/step-*")), default="none")
    stage = "after the result" if (out / "result.json").exists() else newest.replace("step-", "step ")
    return stage, any(p.name.startswith((".part-", ".old-")) for p in out.rglob("*"))


def kill_once(out: Path, delay: float) -> tuple[str, bool]:
    process = start(out)
    time.sleep(max(0.0, claimed(out) + delay - time.monotonic()))
    process.kill()
    process.wait()
    return where(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/resume.json"))
    options = parser.parse_args()
    draw, begun, rows = random.Random(options.seed), time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference"
        process = start(reference)
        first = claimed(reference)
        assert process.wait() == 0
        lasts = max(p.stat().st_mtime for p in reference.rglob("*")) - (reference / "recipe.yaml").stat().st_mtime
        expected = fingerprint(reference)
        print(f"left alone: {lasts:.1f} s of training; {time.monotonic() - first:.1f} s to the exit")
        print(f"{'kill':>4} {'at':>7}  {'newest checkpoint':<18} {'half-written':<12} {'bit-identical'}")
        for number in range(1, options.kills + 1):
            out, delay = Path(folder) / str(number), draw.uniform(0, lasts)
            stage, torn = kill_once(out, delay)
            assert start(out).wait() == 0
            found = fingerprint(out)
            same = found == expected
            rows.append({"seconds": round(delay, 3), "found": stage, "half_written": torn, "identical": same})
            print(f"{number:>4} {delay:>6.2f}s  {stage:<18} {'yes' if torn else 'no':<12} {'yes' if same else 'NO'}")
            for name in () if same else sorted(found.keys() | expected.keys()):
                print(f"     {name}: {'same' if found.get(name) == expected.get(name) else 'DIFFERENT'}")
    identical = sum(row["identical"] for row in rows)
    print(f"{identical} of {len(rows)} resumed to bit-identical weights, optimizer states, metrics and results")
    document = {
        "command": f"python benchmarks/resume.py --kills {options.kills} --seed {options.seed}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, CPU only, 1 thread",
        **stamp(),
        "wall_seconds": round(time.monotonic() - begun, 1),
        "recipe": RECIPE,
        "kills": len(rows),
        "identical": identical,
        "half_written": sum(row["half_written"] for row in rows),
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if identical == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())

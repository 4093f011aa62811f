"""Five short runs on a CPU and their results, to check that a change of code changes none of them.

    python benchmarks/fingerprints.py --out results/fingerprints.json
    python benchmarks/fingerprints.py --against results/fingerprints.json

A fingerprint is a hash of the weights, whatever their names, and the figures of the run. It depends on the machine, the
version of torch and the number of threads (one here), so compare files of one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from splitstep.recipes import FOLDER
from splitstep.training import load_recipe, train

RUNS = {
    "digits": ("digits", ["train.steps=120"]),
    "stdlib": ("stdlib", ["scheme=macaron", "train.steps=60", "data.limit=200000", "data.valid_limit=5000"]),
    "numbers": ("numbers", ["train.steps=60", "train.keep=average", "train.average=3", "train.average_every=10"]),
    "listops": ("listops", ["train.steps=100", "data.train=2000", "data.valid=200", "data.test=200"]),
    "reversible": ("digits", ["scheme=reversible", "train.steps=60", "train.accumulate=2"]),
}


def fingerprint(recipe: str, overrides: list[str], root: Path) -> dict[str, Any]:
    """The hash of the weights and the figures of one run."""
    with tempfile.TemporaryDirectory() as folder:
        train(load_recipe(str(root / f"{recipe}.yaml"), overrides), Path(folder) / "run", quiet=True)
        weights = load_file(Path(folder) / "run" / "model" / "model.safetensors")
        result = json.loads((Path(folder) / "run" / "result.json").read_text())
    hashes = sorted(hashlib.sha256(one.contiguous().numpy().tobytes()).hexdigest() for one in weights.values())
    return {
        "weights": hashlib.sha256("".join(hashes).encode()).hexdigest(),
        "valid": result["valid"],
        "test": result["test"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: fingerprint(*run, options.recipes) for name, run in RUNS.items()}
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "runs": found}, indent=1) + "\n")
    before = json.loads(options.against.read_text())["runs"] if options.against else found
    for name, one in found.items():
        print(f"{name:12} {one['weights'][:16]} {'same' if one == before[name] else 'DIFFERS'}")
    return int(found != before)


if __name__ == "__main__":
    sys.exit(main())

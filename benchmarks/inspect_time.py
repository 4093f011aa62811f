"""How long `splitstep inspect MODEL` takes by default, then with --cut 6, then with --deep, and how much memory.

    python benchmarks/inspect_time.py SmolLM2-135M-Instruct.Q4_1.gguf --out results/inspect/time.json

The three commands run one after the other in one folder, each in a process of its own, so the later ones add to what is
there. Of each: seconds, the peak of memory, the seconds from the loaded model to the estimate, and the estimate over
what it then took. The bars are those of SmolLM2-135M on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp

COMMANDS = {"default": [], "cut": ["--cut", "6"], "deep": ["--cut", "6", "--deep"]}
SECONDS = {"default": 75.0, "cut": 120.0, "deep": 180.0}  # the bars
GIB, TO_ESTIMATE, WRONG = 2.5, 3.0, 0.25
CHILD = """
import json, sys, time
from splitstep.cli import main
from splitstep.studies.inspect import study, subject

load, begin, seen = subject.load, study.Clock.begin, {}

def loaded(*given):
    flow = load(*given)
    seen.setdefault("loaded", time.monotonic())
    return flow

def began(self, what, costs):
    begin(self, what, costs)
    seen.update(estimate=self.all, began=time.monotonic())

subject.load, study.Clock.begin = loaded, began
code = main(sys.argv[2:])
took = {"to_estimate": seen["began"] - seen["loaded"], "estimate": seen["estimate"]}
took["took"] = time.monotonic() - seen["began"]
open(sys.argv[1], "w").write(json.dumps(took))
sys.exit(code)
"""


def measured(name: str, model: str, folder: Path, options: list[str]) -> dict[str, Any]:
    """One command: its time and memory as the system sees them, and what it said of its time."""
    notes, start = folder / f"{name}.json", time.perf_counter()
    words = ["inspect", model, *COMMANDS[name], *options, "--out", str(folder / "out")]
    command = [sys.executable, "-c", CHILD, str(notes), *words]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {child.returncode}")
    told = json.loads(notes.read_text())
    found = {
        "seconds": seconds, "gib": used.ru_maxrss / 2**20, "to_estimate": told["to_estimate"],
        "estimate": told["estimate"], "over_real": told["estimate"] / told["took"],
    }  # fmt: skip
    within = seconds <= SECONDS[name] and found["gib"] <= GIB and found["to_estimate"] <= TO_ESTIMATE
    return {**{key: round(x, 2) for key, x in found.items()}, "pass": within and abs(found["over_real"] - 1) <= WRONG}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--out", type=Path)
    given, options = parser.parse_known_args()
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: measured(name, given.model, Path(folder), options) for name in COMMANDS}
    bars = {"seconds": SECONDS, "gib": GIB, "to_estimate": TO_ESTIMATE, "over_real": [1 - WRONG, 1 + WRONG]}
    passed = all(one["pass"] for one in found.values())
    document = {
        "model": Path(given.model).name, "options": options, "cores": os.cpu_count(), "load_before": load,
        "commands": found, "bars": bars, "pass": passed, **stamp(),
    }  # fmt: skip
    print(text := json.dumps(document, indent=1))
    if given.out is not None:
        write_atomically(given.out, text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

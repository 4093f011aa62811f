"""How long `splitstep inspect MODEL` takes by default, and how much memory.

    python benchmarks/inspect_time.py SmolLM2-135M-Instruct.Q4_1.gguf --out results/inspect/time.json

The command runs once, in a process of its own: all default probes on 8 texts of at most 64 tokens, full spectra on 2 of
them, the null model beside it. The bars, for SmolLM2-135M on two cores: 5 minutes and 6 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp

SECONDS, GIB = 300.0, 6.0  # the bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    load, start = os.getloadavg()[0], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "splitstep", "inspect", given.model, "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    passed = seconds <= SECONDS and gib <= GIB
    name = Path(given.model).name
    found = {"model": name, "seconds": round(seconds, 1), "peak_gib": round(gib, 2), "cores": os.cpu_count()}
    document = {
        **found,
        "load_before": round(load, 1),
        "bars": {"seconds": SECONDS, "gib": GIB},
        "pass": passed,
        **stamp(),
    }
    print(json.dumps(document, indent=1))
    if given.out is not None:
        write_atomically(given.out, json.dumps(document, indent=1) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

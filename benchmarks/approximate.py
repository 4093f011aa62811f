"""Builds and certifies every target and writes what it took to results/approximate/targets.json.

    python benchmarks/approximate.py [TARGET ...]

Each network is then searched for a larger error than its certificate: 10^6 points, and ascent along the gradient from
the worst 1,000.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from splitstep.approximation import TARGETS, approximate
from splitstep.approximation.certificate import searched
from splitstep.support.provenance import stamp

OUT = Path(__file__).parents[1] / "results" / "approximate" / "targets.json"
SHAPES = ((2, 1), (3, 1), (2, 2))
POINTS, WORST, ASCENT = 1_000_000, 1000, 100  # of the search


def measured(name: str, tokens: int, dim: int) -> dict[str, Any]:
    eps = 0.005 if tokens * dim == 2 else 0.05
    start = time.perf_counter()
    built = approximate(name, tokens, dim, eps)
    seconds = time.perf_counter() - start
    one, most = built.certificate, searched(built.model, built.target, POINTS, WORST, ASCENT)
    return {
        "target": name, "tokens": tokens, "dim": dim, "eps": eps, "certified": one.error, "met": one.met,
        "sampled": one.sampled, "searched": most, "heads": built.model.config.heads,
        "units": built.units, "parameters": built.parameters, "cells": one.cells, "seconds": round(seconds, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def main(names: list[str]) -> None:
    rows = []
    for tokens, dim in SHAPES:
        for name in names or TARGETS:
            rows.append(measured(name, tokens, dim))
            print(rows[-1], flush=True)
            OUT.parent.mkdir(parents=True, exist_ok=True)
            OUT.write_text(json.dumps({"points": POINTS, "worst": WORST, **stamp(), "rows": rows}, indent=2) + "\n")
            assert rows[-1]["certified"] >= rows[-1]["searched"]


if __name__ == "__main__":
    main(sys.argv[1:])

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

import numpy as np

from splitstep.approximation import TARGETS, approximate
from splitstep.approximation.certificate import errors
from splitstep.approximation.targets import Array, Target
from splitstep.models.vectors import SplitstepVectorsModel
from splitstep.support.provenance import stamp

OUT = Path(__file__).parents[1] / "results" / "approximate" / "targets.json"
SHAPES = ((2, 1), (3, 1), (2, 2))
POINTS, WORST, ASCENT = 1_000_000, 1000, 100  # of the search
APART = 1e-6  # of the points of a difference quotient


def measured(name: str, tokens: int, dim: int) -> dict[str, Any]:
    eps = 0.005 if tokens * dim == 2 else 0.05
    start = time.perf_counter()
    built = approximate(name, tokens, dim, eps)
    seconds = time.perf_counter() - start
    one, most = built.certificate, searched(built.model, built.target)
    return {
        "target": name, "tokens": tokens, "dim": dim, "eps": eps, "certified": one.error, "met": one.met,
        "sampled": one.sampled, "searched": most, "heads": built.model.config.heads,
        "units": built.units, "parameters": built.parameters, "cells": one.cells, "seconds": round(seconds, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def searched(
    model: SplitstepVectorsModel, target: Target, points: int = POINTS, worst: int = WORST, steps: int = ASCENT
) -> float:
    """The largest error at random points, and on the way up from the worst of them. It proves nothing.

    Each point has a step of its own: longer after a rise, shorter after none. The error is as good as piecewise linear,
    and its maxima lie on kinks and faces: a step along the signs of the gradient reaches corners, one along the
    gradient itself follows a kink. They take turns.
    """
    x = np.random.default_rng(7).random((points, target.variables))
    found = errors(model, target, x)
    chosen = np.argsort(found)[-worst:]
    x, found, length = x[chosen], found[chosen], np.full(len(chosen), 0.05)
    for turn in range(steps):
        slope = gradient(model, target, x)
        steepest = np.abs(slope).max(1, keepdims=True)
        along = np.sign(slope) if turn % 2 else slope / np.maximum(steepest, 1e-300)
        moved = np.clip(x + length[:, None] * along, 0, 1)
        reached = errors(model, target, moved)
        rises = reached > found
        x, found = np.where(rises[:, None], moved, x), np.maximum(found, reached)
        length = np.clip(np.where(rises, 1.5, 0.6) * length, 1e-9, 0.2)
    return float(found.max())


def gradient(model: SplitstepVectorsModel, target: Target, x: Array) -> Array:
    """Of the error, by central differences: one-sided at the faces of the cube."""
    step = APART * np.eye(x.shape[1])
    up, down = (np.clip(x[:, None] + sign * step, 0, 1) for sign in (1, -1))
    rise, fall = (errors(model, target, side.reshape(-1, x.shape[1])) for side in (up, down))
    return (rise - fall).reshape(x.shape) / (up - down).sum(2)


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

"""Fits how the units of a network grow as eps falls, for every target, and writes results/approximate/sweeps.json.

python benchmarks/approximate_sweeps.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from splitstep.approximation import TARGETS, approximate
from splitstep.studies.approximate import exponent_of, row_of
from splitstep.support.provenance import stamp

OUT = Path(__file__).parents[1] / "results" / "approximate" / "sweeps.json"
SWEEPS = {2: (0.1, 0.05, 0.02, 0.01, 0.005), 3: (0.4, 0.2, 0.1, 0.05)}  # eps, by tokens of dimension 1


def swept(name: str, tokens: int) -> dict[str, Any]:
    """The networks of one target, and the power of eps with interval; none if their size does not change."""
    rows = [row_of(approximate(name, tokens, 1, eps)) for eps in SWEEPS[tokens]]
    exponent = exponent_of(rows)
    return {
        "target": name, "tokens": tokens, "eps": SWEEPS[tokens], "heads": [row.heads for row in rows],
        "units": [row.units for row in rows], "parameters": [row.parameters for row in rows],
        "met": all(row.met for row in rows), "exponent": None if exponent is None else exponent._asdict(),
    }  # fmt: skip


def main() -> None:
    rows = []
    for tokens in SWEEPS:
        for name in TARGETS:
            rows.append(swept(name, tokens))
            print(rows[-1], flush=True)
    OUT.write_text(json.dumps({**stamp(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()

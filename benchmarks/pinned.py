"""The pinned problem, heat with reaction: orders of splittings, and how much of them stiff diffusion takes away.

python benchmarks/pinned.py --out results/pde/pinned.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from splitstep.stability import limit
from splitstep.studies.pinned import order_reduction, pinned_orders
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.tableau import TABLEAUX


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    kinds = {"one axis": ("reflecting", 1), "two axes": ("reflecting", 2), "upwind": ("upwind", 1)}
    document = {
        "command": "python benchmarks/pinned.py",
        **stamp(),
        "orders": [row._asdict() for row in pinned_orders()],
        "constant_reaction": [row._asdict() for row in pinned_orders(reaction="constant")],
        "order_reduction": [row._asdict() for row in order_reduction()],
        "limits": {name: {kind: limit(t, *ends) for kind, ends in kinds.items()} for name, t in TABLEAUX.items()},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

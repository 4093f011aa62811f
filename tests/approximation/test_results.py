"""The table in the docs is the file that the benchmark wrote."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_targets_is_what_the_benchmark_wrote() -> None:
    rows = json.loads((ROOT / "results" / "approximate" / "targets.json").read_text())["rows"]
    text = (ROOT / "docs" / "theory" / "approximation.md").read_text()
    shown = [line for line in text.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:] != "target"]
    assert shown == [
        f"| {r['target']} | {r['tokens']} x {r['dim']} | {r['eps']:g} | {r['certified']:.4f} | {r['searched']:.4f} | "
        f"{r['units']:,} | {r['parameters']:,} | {r['cells']:,} | {r['seconds']:.0f} |"
        for r in rows
    ]
    assert all(r["searched"] <= r["certified"] for r in rows)

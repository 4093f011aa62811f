"""The table in the docs is the file that the benchmark wrote."""

import json
from pathlib import Path
from typing import Any

from splitstep.approximation import TARGETS

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "theory" / "approximation.md").read_text()


def read(name: str) -> Any:
    """A file of results."""
    return json.loads((ROOT / "results" / "approximate" / name).read_text())


def test_the_table_of_targets_is_what_the_benchmark_wrote() -> None:
    rows = read("targets.json")["rows"]
    shown = [line for line in DOCS.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:] != "target"]
    assert shown == [
        f"| {r['target']} | {r['tokens']} x {r['dim']} | {r['eps']:g} | {r['certified']:.4f} | {r['searched']:.4f} | "
        f"{r['units']:,} | {r['parameters']:,} | {r['cells']:,} | {r['seconds']:.0f} |"
        for r in rows
    ]
    assert all(r["searched"] <= r["certified"] for r in rows)


def test_the_sweep_in_the_docs_is_what_the_command_wrote() -> None:
    found = read("product/result.json")
    for row in found["rows"]:
        assert f"    {row['eps']:<8g} {row['units']:>5}   {row['parameters']:>10,}\n" in DOCS
    value, low, high = (found["exponent"][name] for name in ("value", "low", "high"))
    assert f"{value:.2f} [{low:.2f}, {high:.2f}]" in DOCS
    assert f"largest sampled error of {found['trained']['sampled']:.3f}" in DOCS


def test_the_powers_in_the_docs_are_what_the_benchmark_fitted_for_every_target() -> None:
    rows = read("sweeps.json")["rows"]
    assert {row["target"] for row in rows} == set(TARGETS)
    for row in rows:
        one, units = row["exponent"], " ".join(map(str, row["units"]))
        power = "-" if one is None else f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"
        assert f"    {row['target']:<12} {row['tokens']}   {units:<20} {power}\n" in DOCS
        assert row["met"]


def test_four_variables_in_the_docs_are_what_the_command_wrote() -> None:
    [row] = read("product-2x2/result.json")["rows"]
    assert row["met"]
    assert f"certifies {row['error']:.4f} with {row['cells']:,} cells" in " ".join(DOCS.split())

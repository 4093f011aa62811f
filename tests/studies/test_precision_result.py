"""Training in bfloat16 ends where float32 does: what the eight pairs of runs in results/ say, worked out again."""

import json
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "compare" / "precision.json").read_text(encoding="utf-8"))


def test_the_difference_is_inside_the_margin() -> None:
    losses = {(one["precision"], one["seed"]): one["loss"] for one in STORED["runs"]}
    gaps = [losses["float32", seed] - losses["bfloat16", seed] for seed in range(8)]
    half = student.ppf(0.975, 7) * stdev(gaps) / 8**0.5
    lead = STORED["lead"]
    assert (lead["mean"], lead["low"], lead["high"], lead["n"]) == pytest.approx(
        (fmean(gaps), fmean(gaps) - half, fmean(gaps) + half, 8), abs=1e-12
    )
    assert STORED["margin"] == 0.005
    assert max(abs(lead["low"]), abs(lead["high"])) < STORED["margin"]
    assert STORED["word"] == "inside"


def test_it_is_fast_enough_to_be_taken() -> None:
    seconds = {
        name: [one["seconds"] for one in STORED["runs"] if one["precision"] == name] for name in ("float32", "bfloat16")
    }
    assert STORED["times_as_fast"] == pytest.approx(sum(seconds["float32"]) / sum(seconds["bfloat16"]))
    assert STORED["times_as_fast"] >= 1.2

"""What benchmarks of comparisons measured: how long `--minutes 10` takes, and where bfloat16 ends beside float32."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy.stats import t as student

FOLDER = Path(__file__).parents[2] / "results" / "compare"
TEXTS: dict[int, Any] = {one["size"]: one for one in json.loads((FOLDER / "minutes.json").read_text())["texts"]}
PRECISION = json.loads((FOLDER / "precision.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("size", [1_000_000, 20_000_000])
def test_ten_minutes_are_eight_to_thirteen(size: int) -> None:
    assert 8 * 60 <= TEXTS[size]["wall"] <= 13 * 60
    assert TEXTS[size]["minutes"] == 10


def test_a_short_text_ends_early_and_is_used_up() -> None:
    assert TEXTS[50_000]["wall"] < 8 * 60
    assert "the text is used up" in TEXTS[50_000]["said"][0]


@pytest.mark.parametrize("size", TEXTS)
def test_the_time_left_is_within_a_fifth_after_a_tenth(size: int) -> None:
    """The first that is told after a tenth of the time of the runs, and all later ones by a fifth of it at most."""
    wall, every = TEXTS[size]["wall"], TEXTS[size]["left"]
    runs = wall - every[0][0]
    told = [(wall - at, left) for at, left in every if wall - at <= 0.9 * runs]
    true, first = told[0]
    assert first == pytest.approx(true, rel=0.2)
    assert all(abs(left - true) <= 0.2 * runs for true, left in told)


def test_the_difference_is_inside_the_margin() -> None:
    losses = {(one["precision"], one["seed"]): one["loss"] for one in PRECISION["runs"]}
    gaps = [losses["float32", seed] - losses["bfloat16", seed] for seed in range(8)]
    half = student.ppf(0.975, 7) * stdev(gaps) / 8**0.5
    lead = PRECISION["lead"]
    assert (lead["mean"], lead["low"], lead["high"], lead["n"]) == pytest.approx(
        (fmean(gaps), fmean(gaps) - half, fmean(gaps) + half, 8), abs=1e-12
    )
    assert PRECISION["margin"] == 0.005
    assert max(abs(lead["low"]), abs(lead["high"])) < PRECISION["margin"]
    assert PRECISION["word"] == "inside"


def test_it_is_fast_enough_to_be_taken() -> None:
    seconds = {
        name: [one["seconds"] for one in PRECISION["runs"] if one["precision"] == name]
        for name in ("float32", "bfloat16")
    }
    assert PRECISION["times_as_fast"] == pytest.approx(sum(seconds["float32"]) / sum(seconds["bfloat16"]))
    assert PRECISION["times_as_fast"] >= 1.2

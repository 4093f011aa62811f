"""How long `--minutes 10` took, as `benchmarks/compare_minutes.py` measured it."""

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "results" / "compare" / "minutes.json"
TEXTS: dict[int, Any] = {one["size"]: one for one in json.loads(FILE.read_text())["texts"]} if FILE.exists() else {}
pytestmark = pytest.mark.skipif(not TEXTS, reason="nobody has measured it yet")


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

"""Greedy lists of layers beside those of the cheapest layers alone: what the file says, summed up again by hand."""

import json
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "inspect" / "cuts.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "results" / "inspect.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("length", range(1, 7))
def test_each_length_is_compared_text_by_text(length: int) -> None:
    greedy, single = (
        {one["how"]: one["changes"][length - 1] for one in STORED["lists"]}[how] for how in ("greedy", "single")
    )
    gaps, found = [a - b for a, b in zip(greedy, single, strict=True)], STORED["paired"][length - 1]
    assert len(gaps) == found["texts"] == 24
    assert found["difference"] == pytest.approx(fmean(gaps), abs=1e-9)
    if any(gaps):
        half = student.ppf(0.975, 23) * stdev(gaps) / 24**0.5
        assert (found["low"], found["high"]) == pytest.approx((fmean(gaps) - half, fmean(gaps) + half), abs=1e-9)
        assert (found["verdict"] == "no significant difference") == (found["low"] <= 0 <= found["high"])
    assert f"| {length} | {found['difference']:+.3f} |" in PAGE

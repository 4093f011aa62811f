"""False decisions, coverage and power by simulation: small ones here, and what 10,000 draws gave in results/."""

import json
import runpy
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from splitstep.experiments.looks import Looks

ROOT = Path(__file__).parents[2]
DRAWS = 1000
STORED = json.loads((ROOT / "results" / "compare" / "statistics.json").read_text(encoding="utf-8"))


@lru_cache
def small() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "compare_statistics.py"))["simulated"](DRAWS)


KINDS = ("false decisions", "any of 14", "equal", "coverage", "power", "grows", "fades", "moves", "turns", "holds")


@pytest.mark.parametrize("kind", KINDS)
def test_each_share_is_within_three_standard_errors_of_its_bar(kind: str) -> None:
    for found, draws in ((small(), DRAWS), (STORED, 10_000)):
        rows = [row for row in found["bars"] if row["what"].lstrip("'").startswith(kind)]
        assert found["draws"] == draws
        assert rows
        for row in rows:
            error = (row["level"] * (1 - row["level"]) / draws) ** 0.5
            above = row["share"] - row["level"]
            away = {"at most": above, "at least": -above, "near": abs(above) - 0.05}[row["must"]]
            assert row["holds"] == (away <= 3 * error)
            assert row["holds"], row


@pytest.mark.parametrize(("what", "share"), [
    ("false decisions, plain t at each look", 0.14), ("equal at a margin that is estimated", 0.12),
])  # fmt: skip
def test_rules_that_are_wrong_too_often_miss_their_bars(what: str, share: float) -> None:
    for found in (small(), STORED):
        [row] = [row for row in found["not_used"] if row["what"] == what]
        assert not row["holds"]
        assert row["share"] == pytest.approx(share, abs=0.04)
    assert row["share"] == pytest.approx(share, abs=0.005)


def test_words_about_budgets_are_also_said_where_they_are_right() -> None:
    """A simulation in which nothing is ever said would hold every bar."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "compare_statistics.py"))
    draw, far = script["Draws"](100), 8.0
    true = {"grows": (far, 2 * far, 3 * far), "fades": (3 * far, 2 * far, far), "turns": (far, 0.0, -far)}
    for word, means in true.items():
        assert [one.word for one in draw.trends(means, None, ())] == [word] * 100
    assert {one.word for one in draw.trends((0.0, far, 2 * far), None, ())} <= {"moves", "grows", "fades", "turns"}
    held = [one.word for one in draw.trends((far, far, far), far, ())]
    assert held.count("holds") > 90


def test_the_page_has_the_bounds_that_are_used() -> None:
    *others, last = (f"{bound:.2f}" for bound in Looks().bounds)
    page = (ROOT / "docs" / "theory" / "comparison.md").read_text(encoding="utf-8")
    assert f"|t| has to be above {', '.join(others)} and {last}." in page
    assert STORED["bounds"]["pocock"] == pytest.approx(Looks().bounds, rel=1e-3)

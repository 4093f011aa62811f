"""The page on published modifications says what its files say, and the benchmark chooses by validation alone."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.modifications import ARMS, FINALISTS, finalists
from splitstep import cli
from splitstep.shelf import SHELF

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/results/modifications.md").read_text()
STORED = ROOT / "results/compare/modifications"


@pytest.mark.parametrize("task", ["stdlib", "digits"])
def test_the_tables_are_what_the_command_prints(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(STORED / task / "stage2"), "--markdown"]) == 0
    said, _, table = capsys.readouterr().out.strip().partition("\n\n")
    assert said in PAGE
    assert table in PAGE


@pytest.mark.parametrize("task", ["stdlib", "digits"])
def test_the_finalists_are_those_of_the_rule(task: str) -> None:
    one, two = (json.loads((STORED / task / stage / "result.json").read_text()) for stage in ("stage1", "stage2"))
    trials: Any = [SimpleNamespace(**trial) for trial in one["trials"]]
    names = [row["arm"] for row in two["rows"]]
    assert names == ["lie", *finalists(trials, "lie", FINALISTS)]
    assert {row["arm"] for row in one["rows"]} == {"lie", *ARMS}
    assert not set(one["seeds"]) & set(two["seeds"])


def test_leads_of_the_first_stage_are_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(STORED / "stdlib/stage1"), "--markdown"]) == 0
    found = re.findall(r"\| ([\w-]+), `[^|]*\| [^|]*\| ([-+.\d]+) \[([-+.\d]+), ([-+.\d]+)\]", capsys.readouterr().out)
    assert {arm for arm, *_ in found} == set(ARMS)
    for arm, mean, low, high in found:
        assert f"| {arm} | {-float(mean):+.3f} [{-float(high):+.3f}, {-float(low):+.3f}] |" in PAGE


def test_the_shelf_has_what_is_compared() -> None:
    assert set(ARMS) < set(SHELF)


def test_a_diverged_arm_is_no_finalist() -> None:
    def trial(arm: str, loss: float, role: str = "") -> Any:
        return SimpleNamespace(arm=arm, role=role, valid={"loss": loss})

    trials = [
        trial("lie", 1),
        trial("a", 3),
        trial("b", 2),
        trial("b", float("nan")),
        trial("c", 4),
        trial("d", 0, "tune"),
    ]
    assert finalists(trials, "lie", 2) == ["a", "c"]

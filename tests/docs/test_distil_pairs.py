"""The script behind the page on distillation runs its commands, chooses rates by its rule, and ends when it should."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "distil.md").read_text()


# A program in place of splitstep: it notes its command, and writes what a run or a study would. Seed 1 of a method is
# never finished, and a study with more than one seed goes on until it is interrupted.
def script() -> Any:
    spec = importlib.util.spec_from_file_location("runs_of_pairs", ROOT / "benchmarks" / "distil_pairs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands_of_the_page() -> list[list[str]]:
    section = PAGE.split("### After (c) and (d)")[1]
    block = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_its_commands_are_those_of_the_page() -> None:
    pairs = script()
    found = [pairs.TUNE, *(pair.made_by for pair in pairs.PAIRS.values())]
    found += [pair.study("RATE", 4) for pair in pairs.PAIRS.values()]
    assert sorted(map(list, found)) == sorted(commands_of_the_page())

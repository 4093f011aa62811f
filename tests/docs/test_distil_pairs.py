"""The script behind the page on distillation runs the commands of the page."""

import re
import runpy
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "distil.md").read_text()


def commands_of_the_page() -> list[list[str]]:
    section = PAGE.split("### After (c) and (d)")[1]
    block = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_its_commands_are_those_of_the_page() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "distil_pairs.py"))
    pairs = script["PAIRS"].values()
    found = [script["TUNE"], *(pair.made_by for pair in pairs), *(pair.study("RATE", 4) for pair in pairs)]
    assert sorted(map(list, found)) == sorted(commands_of_the_page())

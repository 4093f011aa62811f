"""docs/architecture.md draws how data flows: the values that rooms hand on in a real job come in the order drawn."""

import re
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pretrained_folders
import pytest
from inline import here

import splitstep
from splitstep.doors import compare, looks, runs
from splitstep.experiments import running

ROOT = Path(splitstep.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
JOBS = ("train", "compare", "inspect")
SMALL = ("digits", "train.steps=2", "train.warmup=1", "model.width=32")
Values = list[tuple[str, str]]  # a room, and the class of what it hands on


def drawn(job: str) -> Values:
    """The lines of one job in the drawing."""
    [block] = [one for one in re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL) if one.startswith("train ")]
    starts = [block.index(name) for name in JOBS] + [None]
    own = slice(*starts[JOBS.index(job) : JOBS.index(job) + 2])
    return [(words[0], words[1]) for line in block.splitlines()[2:] if len(words := line[own].split()) == 2]


@cache
def room_of(file: str) -> str | None:
    path = Path(file)
    return path.relative_to(ROOT).parts[0].removesuffix(".py") if path.is_relative_to(ROOT) else None


def handed_on(job: Callable[[], Any]) -> Values:
    """What each room returned to another one, by its classes, in the order in which each came up first."""
    found: dict[tuple[str, str], None] = {}

    def see(frame: Any, event: str, value: Any) -> None:
        if event != "return" or (room := room_of(frame.f_code.co_filename)) is None:
            return
        caller = frame.f_back
        while caller is not None and (home := room_of(caller.f_code.co_filename)) is None:
            caller = caller.f_back
        if caller is None or home != room:
            found.update({(room, one.__name__): None for one in type(value).__mro__})

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(found)


def run_job(job: str, folder: Path) -> None:
    if job == "train":
        runs.train(*SMALL, out=folder / "run")
    elif job == "compare":
        compare.compare(*SMALL, seeds=1, out=folder / "runs")
    else:
        model = pretrained_folders.saved(folder / "model", pretrained_folders.llama(layers=2))
        looks.inspect(str(model), texts=2, tokens=8, probes=("trajectory",), out=folder / "look")


@pytest.mark.parametrize("job", ["train", pytest.param("compare", marks=pytest.mark.nightly), "inspect"])
def test_data_flow_as_the_page_draws_it(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "open_engine", here)
    values, expected = handed_on(lambda: run_job(job, tmp_path)), drawn(job)
    assert len(expected) > 5
    assert [one for one in expected if one not in values] == []
    assert sorted(expected, key=values.index) == expected

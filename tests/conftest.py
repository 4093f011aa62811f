"""What all tests share: one thread per worker, the same hypothesis examples on every run, a cache of the module's."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Some virtual machines advertise AMX and forbid it: a bfloat16 product then ends the process. Read when torch starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch
from hypothesis import settings

# A shell starts background jobs with interrupts ignored, and children inherit that: tests of Ctrl-C need them heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
settings.register_profile("splitstep", deadline=None, derandomize=True, database=None)
settings.load_profile("splitstep")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of each module's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPLITSTEP_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def inline() -> Iterator[None]:
    """Runs of studies are in the process of the test."""
    from inline import here

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("splitstep.experiments.running.open_engine", here)
        yield


@pytest.fixture
def recipe(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Recipes on a small text with the module's SIZES and other entries."""
    from splitstep.recipe import load_recipe

    (tmp_path / "my.txt").write_text("".join(f"line {i} says {i * i}\n" for i in range(400)))
    return lambda *more: load_recipe("text", [f"data.path={tmp_path / 'my.txt'}", *request.module.SIZES, *more])

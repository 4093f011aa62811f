"""`translate` imports what it needs and no more, and importing the models leaves the collector as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from splitstep import cli
from splitstep.recipes import find_recipe

OVERRIDES = ["train.steps=1", "train.batch=128", "model.width=8", "model.heads=2", "model.ffn=8", "data.train=100"]
OVERRIDES += ["data.valid=10", "data.test=10"]
UNNEEDED = (
    "dask", "datasets", "matplotlib", "pandas", "sacrebleu", "scipy", "sklearn", "tensorboard",
    "tensorflow", "torch.utils.tensorboard", "torchdiffeq", "torchvision", "splitstep.report", "splitstep.studies",
)  # fmt: skip
CODE = """
import gc, sys
gc.disable()
from splitstep.cli import main
assert main(["translate", sys.argv[1], "--beams", "2"]) == 0
assert "splitstep.models" in sys.modules
assert not gc.isenabled()
found = [name for name in sys.argv[2:] if name in sys.modules]
assert not found, found
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("numbers") / "run"
    assert cli.main(["train", str(find_recipe("numbers")), *OVERRIDES, "--out", str(out)]) == 0
    return out


def test_translating_imports_nothing_that_other_verbs_need(run: Path) -> None:
    words = [sys.executable, "-c", CODE, str(run), *UNNEEDED]
    done = subprocess.run(words, input=b"seven\n", capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 1

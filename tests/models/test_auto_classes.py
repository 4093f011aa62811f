"""Saved models open through transformers' Auto classes: with splitstep imported, and in programs that never did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import splitstep as ss
from splitstep.models import KINDS

TINY: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}


def run(code: str, *words: str | Path) -> str:
    """What a fresh program prints."""
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a saved model of each kind."""
    root = tmp_path_factory.mktemp("models")
    for name, kind in KINDS.items():
        torch.manual_seed(0)
        kind.model(kind.config(**TINY)).save_pretrained(root / name)
    return root


def test_the_names_that_are_registered_without_an_import_are_those_of_all_kinds() -> None:
    assert {kind.config.model_type: kind.config.__name__ for kind in KINDS.values()} == ss.MODEL_TYPES


OPEN = """
from pathlib import Path
for folder in sorted(Path(sys.argv[1]).iterdir()):
    config = transformers.AutoConfig.from_pretrained(folder)
    assert config.model_type == f"splitstep-{folder.name}", config
    auto = getattr(transformers, AUTO[folder.name])
    assert type(auto.from_pretrained(folder)).__name__ == config.architectures[0]
"""
AUTO = f"AUTO = { ({name: kind.auto.__name__ for name, kind in KINDS.items()}) }\n"
ORDERS = {
    "splitstep first": "import splitstep, sys, transformers\n",
    "transformers first": "import transformers, sys; transformers.AutoModelForCausalLM; import splitstep\n",
}


@pytest.mark.parametrize("order", ORDERS)
def test_with_splitstep_imported_no_flag_is_needed(folders: Path, order: str) -> None:
    run(ORDERS[order] + "assert 'splitstep.models' not in sys.modules\n" + AUTO + OPEN, folders)


def test_the_import_brings_neither_torch_nor_transformers_and_its_hook_goes_away() -> None:
    run(
        "import sys; before = list(sys.meta_path); import splitstep; assert len(sys.meta_path) == len(before) + 1; "
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules); import transformers; "
        "from transformers import AutoConfig; left = [type(one).__name__ for one in sys.meta_path]; "
        "assert 'AfterImport' not in left, left; assert 'splitstep.models' not in sys.modules; "
        "loader = sys.modules['transformers.models.auto.configuration_auto'].__spec__.loader; "
        "assert 'exec_module' not in vars(loader); "
        "config = AutoConfig.for_model('splitstep-causal', width=16, heads=2); assert config.width == 16"
    )

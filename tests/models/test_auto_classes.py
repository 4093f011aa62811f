"""Saved models open through transformers' Auto classes: with splitstep imported, and in programs that never did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import splitstep as ss
from splitstep.models import KINDS, SplitstepConfig

TINY: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}


def run(code: str, *words: str | Path, **environment: str) -> str:
    """What a fresh program prints."""
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | environment)
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


@pytest.mark.slow
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


# Opens every model without an import of splitstep, prints its outputs and saves it somewhere else.
STRANGER = """
import json, sys, torch, transformers
from pathlib import Path
first, second = map(Path, sys.argv[1:])
found = {}
for folder in sorted(first.iterdir()):
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    model = getattr(transformers, AUTO[folder.name]).from_pretrained(folder, trust_remote_code=True).eval()
    x = torch.zeros(1, 1, 28, 28) if folder.name == "image" else torch.tensor([[5, 7, 9]])
    x = torch.zeros(1, 3, 1) if folder.name == "vectors" else x
    more = {"decoder_input_ids": x} if folder.name == "translation" else {}
    found[folder.name] = model(x, **more).logits.flatten()[:50].tolist()
    model.save_pretrained(second / folder.name)
    if folder.name == "masked":
        config.save_pretrained(second / folder.name)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_program_without_splitstep_opens_saves_and_opens_again(folders: Path, tmp_path: Path) -> None:
    modules = {"HF_MODULES_CACHE": str(tmp_path / "modules")}  # where transformers copies code before it runs it
    places = [folders, tmp_path / "second", tmp_path / "third"]
    code = AUTO + STRANGER
    assert "splitstep" not in STRANGER
    first, second = (json.loads(run(code, *pair, **modules)) for pair in pairwise(places))
    assert first == second
    assert first.keys() == KINDS.keys()
    for name in KINDS:
        contents = [sorted(file.name for file in (place / name).iterdir()) for place in places]
        assert contents[0] == contents[1] == contents[2]
        assert [file for file in contents[2] if file.endswith(".py")] == ["splitstep_models.py"]
        small = (places[2] / name / "splitstep_models.py").read_text()
        assert small == (places[0] / name / "splitstep_models.py").read_text()
        assert len(small.splitlines()) <= 8


def test_without_the_package_the_small_file_says_what_to_install(folders: Path, tmp_path: Path) -> None:
    """In a program that cannot import splitstep, as if it were not installed."""
    code = (
        "import sys, transformers\n"
        "class Missing:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'splitstep': raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "try: transformers.AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        "except ImportError as error: assert 'pip install splitstep' in str(error), error\n"
        "else: raise AssertionError"
    )
    run(code, folders / "causal", HF_MODULES_CACHE=str(tmp_path))


def test_without_the_flag_nothing_of_the_folder_is_run(folders: Path, tmp_path: Path) -> None:
    code = (
        "import sys, transformers\n"
        "try: transformers.AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=False)\n"
        "except ValueError as error: assert 'trust_remote_code=True' in str(error), error\n"
        "else: raise AssertionError\n"
        "assert 'splitstep' not in sys.modules"
    )
    run(code, folders / "causal", HF_MODULES_CACHE=str(tmp_path))


@pytest.mark.parametrize("name", list(KINDS))
def test_a_config_that_is_loaded_from_the_hub_is_saved_with_its_own_small_file(
    folders: Path, tmp_path: Path, name: str
) -> None:
    """transformers writes the name of the repository before each class; a copy must not depend on it."""
    config = KINDS[name].config.from_pretrained(folders / name)
    config.auto_map = {key: f"someone/model--{value}" for key, value in config.auto_map.items()}
    config.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert stored == json.loads((folders / name / "config.json").read_text())["auto_map"]
    assert all(value.startswith("splitstep_models.") for value in stored.values())


def test_a_config_of_no_kind_is_saved_without_code(tmp_path: Path) -> None:
    SplitstepConfig(**TINY).save_pretrained(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())

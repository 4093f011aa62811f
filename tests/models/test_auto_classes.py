"""Kinds of models and the names of the package; saved models open through transformers' Auto classes: with splitstep
imported, and in programs that never did."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

import splitstep as ss
from splitstep.models import KINDS, SplitstepConfig
from splitstep.models.config import kind_of
from splitstep.tasks import TASKS

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


@pytest.mark.parametrize("name", list(KINDS))
def test_a_kind_is_what_its_config_its_model_and_its_auto_class_say(name: str) -> None:
    kind = KINDS[name]
    config = kind.config(**TINY)
    assert kind.model.config_class is kind.config
    assert kind_of(config) is kind
    assert config.model_type == f"splitstep-{name}"
    assert ss.MODEL_TYPES[config.model_type] == kind.config.__name__
    assert type(AutoConfig.for_model(config.model_type)) is kind.config
    assert type(kind.auto.from_config(config)) is kind.model


def test_every_task_has_a_kind() -> None:
    assert {task.model for task in TASKS.values()} <= set(KINDS)
    assert ss.MODEL_TYPES.keys() == {"splitstep-block"} | {kind.config.model_type for kind in KINDS.values()}


AUTO = f"AUTO = { ({name: kind.auto.__name__ for name, kind in KINDS.items()}) }\n"
# The import brings neither torch nor transformers, its hook goes away, and names are brought on first use.
IMPORT = """
import sys
before = list(sys.meta_path)
import splitstep as ss
names = dir(ss)
assert len(sys.meta_path) == len(before) + 1
assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)
assert {'CausalConfig', 'Stack', 'scheme', 'twin'} <= set(names) == set(ss.__all__)
import transformers
transformers.AutoConfig
assert 'AfterImport' not in [type(one).__name__ for one in sys.meta_path]
assert 'splitstep.models' not in sys.modules
assert 'exec_module' not in vars(sys.modules['transformers.models.auto.configuration_auto'].__spec__.loader)
assert transformers.AutoConfig.for_model('splitstep-causal', width=16, heads=2).width == 16
assert all(getattr(ss, name) is not None for name in names)
"""
LATE = """
import sys, transformers
transformers.AutoModelForCausalLM
import splitstep
assert 'splitstep.models' not in sys.modules
"""
OPEN = """
from pathlib import Path
for folder in sorted(Path(sys.argv[1]).iterdir()):
    config = transformers.AutoConfig.from_pretrained(folder)
    assert config.model_type == f"splitstep-{folder.name}", config
    auto = getattr(transformers, AUTO[folder.name])
    assert type(auto.from_pretrained(folder)).__name__ == config.architectures[0]
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [IMPORT, pytest.param(LATE, marks=pytest.mark.nightly)], ids=["splitstep", "theirs"])
def test_with_splitstep_imported_no_flag_is_needed(folders: Path, first: str) -> None:
    run(first + AUTO + OPEN, folders)
    with pytest.raises(AttributeError, match="no attribute 'twins'"):
        _ = ss.twins


# A program that cannot import splitstep, as if it were not installed, and then one that may not run a folder's file.
REFUSED = """
import sys, transformers
class Missing:
    def find_spec(self, name, path, target=None):
        if name == 'splitstep': raise ModuleNotFoundError(f'No module named {name!r}')
def error_of(flag):
    try: transformers.AutoConfig.from_pretrained(f'{sys.argv[1]}/causal', trust_remote_code=flag)
    except Exception as error: return error
sys.meta_path.insert(0, Missing())
found = error_of(True)
assert isinstance(found, ImportError) and 'pip install splitstep' in str(found), found
sys.meta_path.pop(0)
found = error_of(False)
assert isinstance(found, ValueError) and 'trust_remote_code=True' in str(found), found
assert 'splitstep' not in sys.modules
"""
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
    """Before that, it is told what to install, and which flag lets the small file run."""
    modules = {"HF_MODULES_CACHE": str(tmp_path / "modules")}  # where transformers copies code before it runs it
    places = [folders, tmp_path / "second", tmp_path / "third"]
    first = json.loads(run(REFUSED + AUTO + STRANGER, *places[:2], **modules))
    second = json.loads(run(AUTO + STRANGER, *places[1:], **modules))
    assert first == second
    assert first.keys() == KINDS.keys()
    for name in KINDS:
        contents = [sorted(file.name for file in (place / name).iterdir()) for place in places]
        assert contents[0] == contents[1] == contents[2]
        assert [file for file in contents[2] if file.endswith(".py")] == ["splitstep_models.py"]
        small = (places[2] / name / "splitstep_models.py").read_text()
        assert small == (places[0] / name / "splitstep_models.py").read_text()
        assert len(small.splitlines()) <= 8


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

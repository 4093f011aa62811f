"""Every verb that opens a model refuses weights that are no numbers, in one line that names the tensor."""

import shlex
import shutil
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import made_up_glue
import pytest
import torch
from commands import Capsys, Patch, refusal
from distil_pairs import instructions
from pretrained_folders import llama, saved
from safetensors.torch import load_file, save_file

from splitstep.models.base import refuse_not_finite
from splitstep.training import read_recipe, train

SMALL = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}
RUNS: dict[str, dict[str, Any]] = {
    "lines": {"task": "stdlib", "data": {"limit": 3_000, "length": 16}},
    "images": {"task": "digits"},
    "numbers": {"task": "numbers", "model": {**SMALL, "decoder_layers": 1}, "train": {"steps": 1, "batch": 256}},
    "classes": {"task": "classify", "data": {"train": "rows.csv", "vocab": 300}},
    "masked": {
        "task": "mlm",
        "data": {"train": "many.txt", "vocab_size": 300, "length": 16},
        "model": {**SMALL, "token_types": 2},
    },
}
VERBS = {
    "inspect lines --texts 1 --probes drift": "lines",
    "inspect llama --texts 1 --probes drift": "llama",
    "inspect good --against llama --texts 1 --probes drift": "llama",
    "converge images --examples 4": "images",
    "converge llama": "llama",
    "generate lines --prompt def": "lines",
    "generate llama --prompt def": "llama",
    "evaluate images": "images",
    "evaluate llama --task stdlib": "llama",
    "evaluate images/model --task digits": "images",
    "predict classes": "classes",
    "translate numbers": "numbers",
    "train digits start=images model.layers=1 --out new": "images",
    "compare digits start=images model.layers=1 --schemes lie,reverse-lie --out new": "images",
    "ablate digits start=images model.layers=1 --arms no-norm --out new": "images",
    "compare glue --start lie=masked --tasks rte --data sets --out new": "masked",
    "distil llama good data.length=64 --text rows.txt --method kl --out new": "llama",
    "distil good llama data.length=64 --text rows.txt --method kl --out new": "llama",
    "compare distil llama good data.length=64 --text rows.jsonl --methods kl --out new": "llama",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and models with one number that is none, and a good model."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "rows.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    instructions(folder / "rows.jsonl")
    (folder / "rows.txt").write_text("".join(f"the cat sat on mat {n}\n\n" for n in range(200)))
    (folder / "many.txt").write_text("".join(f"he said {n * n} and {n * 317} to it\n" for n in range(800)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, given in RUNS.items():
            recipe = {"model": SMALL, "train": {"steps": 1, "batch": 4, "mode": "eager"}} | given
            train(read_recipe(recipe, name), folder / name, quiet=True)
    saved(folder / "llama", llama(2))
    saved(folder / "good", llama(2, 1))
    made_up_glue.made_up(folder / "sets", "rte")
    return folder


def poisoned(model: Path, value: float) -> str:
    """Put this value into the last matrix of the model, and say which it is."""
    [file] = model.glob("*.safetensors")
    weights = load_file(file)
    name = max(name for name, x in weights.items() if x.ndim > 1)
    weights[name] = weights[name].clone()
    weights[name].view(-1)[-1] = value
    save_file(weights, file, {"format": "pt"})
    return name


@pytest.mark.parametrize(("value", "what"), [(torch.nan, "is not a number"), (-torch.inf, "is infinite")])
@pytest.mark.parametrize("words", VERBS)
def test_a_weight_that_is_no_number_is_refused_by_its_name(
    place: Path, tmp_path: Path, words: str, value: float, what: str, capsys: Capsys, monkeypatch: Patch
) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"one\n")))
    folder = tmp_path / VERBS[words]
    name = poisoned(folder / "model" if (folder / "model").is_dir() else folder, value)
    line = refusal(capsys, *shlex.split(words))
    assert f"the weight {name} has a value that {what}" in line
    assert not any((tmp_path / "new").rglob("result.json"))


@pytest.mark.parametrize("bits", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float16", "bfloat16", "float64"])
def test_a_weight_of_any_size_is_looked_at(bits: str) -> None:
    x = torch.tensor([0.5, 2.0]).to(getattr(torch, bits))
    refuse_not_finite({"x": x}, "the model")
    x[1] = torch.nan
    with pytest.raises(ValueError, match="the model: the weight x has a value that is not a number"):
        refuse_not_finite({"x": x}, "the model")
    half = torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    refuse_not_finite({"x": half}, "the model")

"""The one loader: what it opens is what transformers opens, and what it refuses is one clear line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_folders import in_cache
from tokenizer_kinds import word_level
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import splitstep as ss
from splitstep.opening import open_model
from splitstep.training import read_recipe, train

IDS = torch.tensor([[5, 7, 9]])
LLAMA = LlamaConfig(
    vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
BERT = BertConfig(
    vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    max_position_embeddings=32,
)  # fmt: skip
CODE = """
from pathlib import Path
from transformers import PreTrainedConfig, PreTrainedModel
import torch

Path(__file__).with_name("it_ran").touch()


class OwnConfig(PreTrainedConfig):
    model_type = "own-type"


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(2, 2)
        self.post_init()
"""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of transformers in six parts, with a tokenizer."""
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    LlamaForCausalLM(LLAMA).save_pretrained(folder, max_shard_size="4KB")
    PreTrainedTokenizerFast(tokenizer_object=word_level([f"w{i}" for i in range(20)])).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "model"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    shape = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}
    document = {"task": "digits", "model": shape, "train": {"steps": 1, "batch": 4}}
    train(read_recipe(document, "recipe"), out, quiet=True)
    return out


def test_a_folder_opens_with_the_architecture_that_it_names(llama: Path, tmp_path: Path) -> None:
    found = open_model(llama)
    oracle = LlamaForCausalLM.from_pretrained(llama).eval()
    assert type(found.model) is LlamaForCausalLM
    assert not found.model.training
    assert (found.source, found.name, found.processor) == ("folder", str(llama), None)
    assert found.needs_tokenizer()("w5 w7").input_ids == [5, 7]
    torch.testing.assert_close(found.model(IDS).logits, oracle(IDS).logits, rtol=0, atol=0)
    for made in (BertModel(BERT), BertForMaskedLM(BERT)):
        made.save_pretrained(tmp_path / type(made).__name__)
        opened = open_model(tmp_path / type(made).__name__)
        assert type(opened.model) is type(made)
        with pytest.raises(ValueError, match=r"has no tokenizer: save one beside the model"):
            opened.needs_tokenizer()


def test_a_name_on_the_hub_opens_from_its_folder_in_the_cache(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache(llama, tmp_path, "someone/tiny", monkeypatch)
    found = open_model("someone/tiny")
    assert (found.source, type(found.model)) == ("hub", LlamaForCausalLM)
    with pytest.raises(ValueError, match=r"^there is no folder someone/tinny, and no model of that name comes .*$"):
        open_model("someone/tinny")


@pytest.mark.parametrize("opener", [ss.load, open_model])
def test_a_run_opens_with_its_image_processor(digits: Path, opener: Callable[[Any], Any]) -> None:
    image = pytest.importorskip("PIL.Image")
    run, folder = opener(digits), opener(str(digits / "model"))
    assert (run.source, folder.source) == ("run", "folder")
    assert type(run.model) is type(folder.model) is ss.SplitstepForImageClassification
    assert run.tokenizer is None
    assert not run.model.training
    pixels = run.processor([image.new("L", (8, 8))], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(run.model(pixels).logits, folder.model(pixels).logits, rtol=0, atol=0)


def test_a_run_that_is_not_over_and_a_comparison_are_refused(digits: Path, tmp_path: Path) -> None:
    unfinished = Path(shutil.copytree(digits, tmp_path / "runs" / "one"))
    (unfinished / "result.json").unlink()
    with pytest.raises(ValueError, match=r"has not finished: continue it with `splitstep train .*recipe.yaml --out"):
        ss.load(unfinished)
    with pytest.raises(ValueError, match=r"holds several runs: name one of them"):
        ss.load(tmp_path)
    with pytest.raises(ValueError, match=r"^there is no directory .*nothing: name a run or a model's folder$"):
        ss.load(tmp_path / "nothing")


def write_config(folder: Path, **entries: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def drop(folder: Path, pattern: str) -> None:
    for file in list(folder.glob(pattern)):
        file.unlink()


def one_pickle(folder: Path) -> None:
    drop(folder, "*.safetensors*")
    torch.save({}, folder / "pytorch_model.bin")


def cut(folder: Path) -> None:
    file = folder / "model-00001-of-00006.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda f: drop(f, "*"), r"is not a model: it has no config.json; save_pretrained writes a whole model"),
    "weights alone": (lambda f: drop(f, "*.json"), r"no config.json; copy the whole folder, not the weights alone"),
    "gguf in a folder": (lambda f: (drop(f, "*"), (f / "a.gguf").touch()), r"to open its GGUF file, .*: .*a\.gguf"),
    "adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), r"holds an adapter .* merge it"),
    "config cut off": (lambda f: (f / "config.json").write_text('{"a'), r"is not JSON .* so copy it again"),
    "another config": (lambda f: (f / "config.json").write_text("{}"), r"not the config of a model"),
    "unknown type": (lambda f: write_config(f, model_type="lama"), r"is a lama model, a type that neither .* -U"),
    "no weights": (lambda f: drop(f, "*.safetensors*"), r"has no weights: model.safetensors is missing"),
    "a pickle": (one_pickle, r"holds pytorch_model.bin and no model.safetensors. That file is a pickle"),
    "a pickle by name": (
        lambda f: write_config(f, transformers_weights="adapter_model.bin"),
        r"names weights of its own, 'adapter_model.bin'",
    ),
    "half downloaded": (
        lambda f: drop(f, "model-00002*"),
        r"is only half here: model-00002-of-00006.safetensors, one of 6 parts, is missing",
    ),
    "cut off": (cut, r"has a damaged weight file, perhaps half of it: download it again"),
    "git lfs": (
        lambda f: (f / "model-00001-of-00006.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        r"is a pointer of Git LFS, not the weights: run `git lfs pull`",
    ),
    "index cut off": (lambda f: (f / "model.safetensors.index.json").write_text("{}"), r"has no weight_map"),
    "index points away": (
        lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../a.safetensors"}}'),
        r"names '../a.safetensors', which is not a safetensors file of this folder",
    ),
    "deeper config": (lambda f: write_config(f, num_hidden_layers=3), r"the files lack the weights model.layers.2"),
    "wider config": (lambda f: write_config(f, hidden_size=32), r"does not open: "),
    "tokenizer with code": (
        lambda f: (f / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["own.Own", null]}}'),
        r"has a tokenizer, which comes with Python code of its own: .* --trust-remote-code, or in Python trust",
    ),
    "damaged tokenizer": (lambda f: (f / "tokenizer.json").write_text("{"), r"does not open: "),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_one_clear_line(copied: Path, what: str) -> None:
    breaks, message = BROKEN[what]
    breaks(copied)
    with pytest.raises(ValueError, match=message) as caught:
        open_model(copied)
    assert str(caught.value).startswith(str(copied))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.gguf", None, r"^there is no file .*a\.gguf$"),
        ("a.gguf", b"PK\x03\x04", r"a\.gguf is not a GGUF file, in spite of its name"),
        ("a.gguf", b"GGUF\x03\x00\x00", r"a\.gguf does not open: it is damaged, or of a kind"),
        ("a.safetensors", b"", r"a\.safetensors is a file: name a run of splitstep, a model's folder, a GGUF file"),
        ("no/such/folder", None, r"no/such/folder is not there: name a run of splitstep"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        open_model(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_code_that_comes_with_a_model_runs_only_if_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file

    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.py").write_text(CODE)
    save_file(
        {"layer.weight": torch.ones(2, 2), "layer.bias": torch.zeros(2)}, folder / "model.safetensors", {"format": "pt"}
    )
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    config = {"model_type": "own-type", "architectures": ["OwnModel"], "auto_map": auto_map}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"which comes with Python code of its own: .* trust_remote_code=True$"):
        open_model(folder)
    assert not list(tmp_path.rglob("it_ran"))
    found = open_model(folder, trust_remote_code=True)
    assert type(found.model).__name__ == "OwnModel"
    assert list(tmp_path.rglob("it_ran"))
    torch.testing.assert_close(found.model.layer.weight.detach(), torch.ones(2, 2))

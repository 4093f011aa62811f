"""Adapters of PEFT open as their base with merged weights; and folders of sentence-transformers as the model inside."""

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from commands import Capsys, Patch, refusal
from pretrained_folders import bert, in_cache, llama, modules, saved
from safetensors.torch import load_file, save_file
from tiny import inputs, tiny
from torch import Tensor

import splitstep as ss
from splitstep.opening import open_model

peft = pytest.importorskip("peft", reason="peft is not installed")

IDS = torch.arange(3, 15)[None]
ATTENTION = ["q_proj", "v_proj"]
CONFIGS: dict[str, Any] = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"),
    "dora": lambda: peft.LoraConfig(r=2, use_dora=True, target_modules=ATTENTION),
    "pissa": lambda: peft.LoraConfig(r=2, init_lora_weights="pissa", target_modules=ATTENTION),
    "head and lora": lambda: peft.LoraConfig(r=2, modules_to_save=["lm_head"], target_modules=ATTENTION),
    "embedding": lambda: peft.LoraConfig(r=2, target_modules=["embed_tokens"]),
    "some tokens": lambda: peft.LoraConfig(r=2, target_modules=ATTENTION, trainable_token_indices=[3, 4]),
    "adalora": lambda: peft.AdaLoraConfig(total_step=10, target_modules=ATTENTION),
    "ia3": lambda: peft.IA3Config(target_modules=["v_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "loha": lambda: peft.LoHaConfig(r=2, target_modules=ATTENTION),
    "lokr": lambda: peft.LoKrConfig(r=2, target_modules=ATTENTION),
    "oft": lambda: peft.OFTConfig(oft_block_size=4, target_modules=ATTENTION),
    "hra": lambda: peft.HRAConfig(r=2, target_modules=ATTENTION),
    "vera": lambda: peft.VeraConfig(r=2, target_modules=["q_proj"]),
}


@torch.no_grad()
def adapter(folder: Path, base: Path, config: Any) -> Tensor:
    """Save an adapter of this base, whose new weights are random; the logits of the adapted model."""
    model = peft.get_peft_model(open_model(base).model, config)
    torch.manual_seed(1)
    for weight in model.parameters():
        if weight.requires_grad:
            weight += 0.05 * torch.randn_like(weight)
    save_adapter(model, folder)
    return model(input_ids=IDS)[0]


def save_adapter(model: Any, folder: Path) -> None:
    """Save it as PEFT does by default, except that it would ask the Hub about the base."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.eval().save_pretrained(folder)


def assert_same(logits: Tensor, expected: Tensor) -> None:
    """Equal up to 1e-6 of the largest logit."""
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6 * float(expected.detach().abs().max()))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return saved(tmp_path / "base", llama(2))


@pytest.fixture
def tuned(base: Path, tmp_path: Path) -> Path:
    adapter(tmp_path / "tuned", base, CONFIGS["lora"]())
    return tmp_path / "tuned"


@pytest.mark.parametrize("name", CONFIGS)
def test_an_adapter_opens_as_what_peft_computes(name: str, base: Path, tmp_path: Path) -> None:
    logits = adapter(tmp_path / "tuned", base, CONFIGS[name]())
    before = torch.get_rng_state()
    found = open_model(tmp_path / "tuned")
    assert torch.equal(torch.get_rng_state(), before)
    assert (found.source, type(found.model).__name__) == ("folder", "LlamaForCausalLM")
    assert not found.model.training
    assert all(weight.requires_grad for weight in found.model.parameters())
    assert not [one for one in found.model.modules() if type(one).__module__.startswith("peft")]
    got = found.model(IDS).logits
    assert_same(got, logits)
    own = open_model(base).model(IDS).logits
    assert (got - own).abs().max() > 1e-3 * own.abs().max()
    assert found.needs_tokenizer()("the cat").input_ids == open_model(base).tokenizer("the cat").input_ids


def test_adapters_of_an_encoder_and_of_a_model_of_ours_open(tmp_path: Path) -> None:
    encoder = saved(tmp_path / "encoder", bert())
    logits = adapter(tmp_path / "one", encoder, peft.LoraConfig(r=2, target_modules=["query"]))
    assert_same(open_model(tmp_path / "one").model(IDS)[0], logits)
    own = saved(tmp_path / "own", tiny("causal", "macaron"))
    model = peft.get_peft_model(
        open_model(own).model, peft.LoraConfig(r=2, init_lora_weights=False, target_modules="all-linear")
    )
    save_adapter(model, tmp_path / "two")
    given = inputs("causal")
    found = open_model(tmp_path / "two").model
    assert isinstance(found, ss.SplitstepForCausalLM)
    assert_same(found(**given).logits, model(**given).logits)


def test_half_precision_keeps_the_adapter(tmp_path: Path) -> None:
    """A change of 1e-4 of a weight is below the steps of bfloat16, and is merged all the same."""
    base = saved(tmp_path / "base", llama(1).bfloat16())
    model = peft.get_peft_model(llama(1), peft.LoraConfig(r=1, target_modules=["q_proj"], lora_alpha=1))
    with torch.no_grad():
        layer = model.base_model.model.model.layers[0].self_attn.q_proj
        layer.lora_A["default"].weight.fill_(1.0)
        layer.lora_B["default"].weight.fill_(1e-4)
    model.peft_config["default"].base_model_name_or_path = "base"
    save_adapter(model, tmp_path / "tuned")
    weights = [open_model(one).model.model.layers[0].self_attn.q_proj.weight for one in (tmp_path / "tuned", base)]
    torch.testing.assert_close(weights[0] - weights[1].float(), torch.full_like(weights[0], 1e-4), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("name", ["base", "../base", "inside", "runs/base"])
def test_the_base_is_found_from_the_adapter_or_from_where_the_program_runs(
    tuned: Path, base: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(base, tuned / "inside")
    shutil.copytree(base, tmp_path / "here" / "runs" / "base")
    monkeypatch.chdir(tmp_path / "here")
    change(tuned, base_model_name_or_path=name)
    if name == "base":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert open_model(tuned).model(IDS).logits.shape == (1, 12, 300)


def test_the_base_and_the_adapter_open_from_the_cache_of_the_hub(
    tuned: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = open_model(tuned).model(IDS).logits
    change(tuned, base_model_name_or_path="someone/tiny")
    in_cache(base, tmp_path / "cache", "someone/tiny", monkeypatch)
    assert torch.equal(open_model(tuned).model(IDS).logits, expected)
    in_cache(tuned, tmp_path / "cache", "someone/tuned", monkeypatch)
    found = open_model("someone/tuned")
    assert found.source == "hub"
    assert torch.equal(found.model(IDS).logits, expected)


def test_a_local_adapter_never_asks_the_hub(
    tuned: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()
    monkeypatch.setattr("socket.getaddrinfo", lambda *where, **how: asked.append(where))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    open_model(tuned)
    change(tuned, base_model_name_or_path="someone/tiny")
    line = r"is an adapter of someone/tiny, which is missing: .* \(hf download someone/tiny\)$"
    with pytest.raises(ValueError, match=line):
        open_model(tuned)
    assert not asked


def change(folder: Path, **entries: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def pickled(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()
    torch.save({}, folder / "adapter_model.bin")


def without_one(folder: Path) -> None:
    weights = load_file(folder / "adapter_model.safetensors")
    weights.pop(min(weights))
    save_file(weights, folder / "adapter_model.safetensors")


def other_base(folder: Path) -> None:
    saved(folder.parent / "shallow", llama(1))
    change(folder, base_model_name_or_path="shallow")


def weights(content: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / "adapter_model.safetensors").write_bytes(content)


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pickle": (pickled, r"holds adapter_model.bin and no .* is a pickle"),
    "no weights": (lambda f: (f / "adapter_model.safetensors").unlink(), r"adapter_model.safetensors, is missing"),
    "no base": (lambda f: change(f, base_model_name_or_path=None), r"names no base model: write its folder"),
    "lost base": (lambda f: change(f, base_model_name_or_path="/no/such/folder"), r"is an adapter of /no/such/folder"),
    "endless name": (lambda f: change(f, base_model_name_or_path="a" * 5000), r"which is missing"),
    "nul": (lambda f: change(f, base_model_name_or_path="a\0b"), r"which is missing"),
    "itself": (
        lambda f: change(f, base_model_name_or_path="."),
        r"is an adapter .*, not the whole model of another one",
    ),
    "prompts": (lambda f: change(f, peft_type="PROMPT_TUNING"), r"of the kind PROMPT_TUNING, which has no weights"),
    "acts late": (lambda f: change(f, alora_invocation_tokens=[3]), r"has no weights to merge"),
    "code": (
        lambda f: change(f, megatron_config={"a": 1}, megatron_core="os"),
        r"a megatron_config, which imports code",
    ),
    "not JSON": (lambda f: (f / "adapter_config.json").write_text("{"), r"is not JSON .* damaged, so copy it again"),
    "rank": (lambda f: change(f, r=3), r"does not fit its base .*size mismatch.*merge it with peft"),
    "rank of text": (lambda f: change(f, r="x"), r"does not fit its base "),
    "half": (without_one, r"does not fit its base .* lacks base_model"),
    "another base": (other_base, r"does not fit its base shallow \(the base has no .*layers\.1\."),
    "cut off": (weights(b"\x08\0\0\0\0\0\0\0{"), r"has a damaged weight file, perhaps half of it"),
    "git lfs": (weights(b"version https://git-lfs.github.com/spec/v1\n"), r"is a pointer of Git LFS"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_adapter_is_one_clear_line(tuned: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    breaks, message = BROKEN[what]
    breaks(tuned)
    with pytest.raises(ValueError, match=message) as caught:
        open_model(tuned)
    assert str(caught.value).startswith(str(tuned))
    assert "\n" not in str(caught.value)


def test_without_peft_one_command_is_named(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"it is an adapter of PEFT, which is another package: pip install peft"):
        open_model(tuned)


@pytest.mark.parametrize("path", ["", "0_Transformer"])
def test_a_folder_of_sentence_transformers_opens_as_the_transformer_inside(path: str, tmp_path: Path) -> None:
    folder, model = tmp_path / "sentences", bert().eval()
    modules(folder, ("Transformer", path), ("Pooling", "1_Pooling"))
    saved(folder / path, model)
    found = open_model(folder)
    assert (type(found.model).__name__, found.name) == ("BertModel", str(folder))
    assert found.needs_tokenizer()("the cat").input_ids
    torch.testing.assert_close(found.model(IDS)[0], model(IDS)[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("WordEmbeddings", "0"), ("Pooling", "1")], r"names no Transformer .* but WordEmbeddings, Pooling: name the"),
        ([], r"but nothing: name the folder of one, with its config.json"),
        ([("Transformer", "../elsewhere")], r"names no Transformer inside the folder"),
        ([("Transformer", "0_Transformer")], r"0_Transformer is not a model: it has no config.json"),
    ],
)
def test_modules_without_a_transformer_are_refused(rows: list[tuple[str, str]], message: str, tmp_path: Path) -> None:
    modules(tmp_path / "sentences", *rows)
    with pytest.raises(ValueError, match=message):
        open_model(tmp_path / "sentences")


@pytest.mark.parametrize(("value", "what"), [(torch.nan, "is not a number"), (torch.inf, "is infinite")])
@pytest.mark.parametrize("words", ["inspect tuned --texts 1 --probes drift", "generate tuned --prompt def"])
def test_a_weight_that_is_no_number_is_refused_by_its_name(
    tuned: Path, words: str, value: float, what: str, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tuned.parent)
    weights = load_file(tuned / "adapter_model.safetensors")
    name = min(weights)
    weights[name][0, 0] = value
    save_file(weights, tuned / "adapter_model.safetensors")
    line = refusal(capsys, *words.split(), "--out", "new") if "inspect" in words else refusal(capsys, *words.split())
    assert f"adapter_model.safetensors: the weight {name} has a value that {what}" in line
    assert not Path("new").exists()

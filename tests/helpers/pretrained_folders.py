"""Folders of tiny models with tokenizers, as people download them."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers.utils import logging

WORDS = 300  # in the vocabulary
POSITIONS = 96


def tokenizer() -> Any:
    """Byte-level subwords of a few sentences: any text can be written with them."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=["<pad>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )  # fmt: skip
    made.train_from_iterator(["the cat sat on the mat and the dog ran over the bridge"] * 3, trainer)
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>")


def llama(layers: int = 4, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=POSITIONS, initializer_range=0.3,
    ))  # fmt: skip


def bert() -> Any:
    torch.manual_seed(0)
    return hf.BertModel(hf.BertConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=POSITIONS, initializer_range=0.3,
    ))  # fmt: skip


def gptj() -> Any:
    torch.manual_seed(0)
    return hf.GPTJForCausalLM(hf.GPTJConfig(
        vocab_size=WORDS, n_embd=16, n_inner=24, n_layer=3, n_head=4, rotary_dim=4, n_positions=POSITIONS,
        bos_token_id=1, eos_token_id=1,
    ))  # fmt: skip


def saved(folder: Path, model: Any, with_tokenizer: bool = True) -> Path:
    """The model in a folder."""
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    if with_tokenizer:
        tokenizer().save_pretrained(folder)
    return folder


def package_folder(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"the package {name} is not installed")
    return Path(found.submodule_search_locations[0])


def in_cache(folder: Path, cache: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model in a cache laid out as the Hub's client does, without a network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    repository = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)


def modules(folder: Path, *rows: tuple[str, str]) -> None:
    """Make a folder one of sentence-transformers, with modules of these kinds at these paths."""
    folder.mkdir(exist_ok=True)
    kinds = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(rows)
    ]
    (folder / "modules.json").write_text(json.dumps(kinds))

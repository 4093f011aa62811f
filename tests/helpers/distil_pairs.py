"""Tiny teachers and students of distillation with tokenizers made here, saved as folders, and text for them."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizer_kinds import LINES, byte_bpe, hugging_face, word_level, wordpiece
from tokenizers import pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TRAIN = dict(steps=6, batch=4, lr=3e-3, warmup=1, log_every=1, evaluate_every=3, checkpoint_seconds=0, mode="eager")


def bpe() -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=byte_bpe(False, None, False), eos_token="<|endoftext|>")


def pieces() -> Any:
    return hugging_face(wordpiece())


def llama(tokenizer: Any, layers: int, width: int, seed: int = 0, **more: Any) -> Any:
    torch.manual_seed(seed)
    sizes = {"intermediate_size": 2 * width, "num_attention_heads": 2, "initializer_range": 0.3} | more
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers, num_key_value_heads=2,
            max_position_embeddings=256, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=None,
            **sizes,
        )
    )  # fmt: skip


def gpt2(tokenizer: Any, layers: int, width: int, seed: int = 1, positions: int = 256, **more: Any) -> Any:
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer), n_embd=width, n_layer=layers, n_positions=positions,
            bos_token_id=None, eos_token_id=tokenizer.eos_token_id, **({"n_head": 2} | more),
        )
    )  # fmt: skip


def saved(model: Any, tokenizer: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def instructions(path: Path, rows: int = 24) -> str:
    lines = [
        {"instruction": f"Say number {n}: {LINES[n % 2][:30]}", "response": LINES[n % 2][n % 7 :]} for n in range(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def three_models(folder: Path) -> Path:
    """A teacher, a student with its tokens and one with others, and text, in this folder."""
    saved(llama(bpe(), 4, 16), bpe(), folder / "teacher")
    saved(gpt2(bpe(), 2, 8), bpe(), folder / "student")
    saved(llama(pieces(), 2, 8), pieces(), folder / "other")
    instructions(folder / "text.jsonl")
    return folder


def recipe(place: Path, method: str, student: str = "student", **more: Any) -> dict[str, Any]:
    """The document of a run with the teacher, a student and the text of a folder; `more` are entries of the
    objective."""
    return {
        "task": "instruct", "network": "pretrained", "start": str(place / student),
        "data": {"path": [str(place / "text.jsonl")], "template": "Q: {prompt}\nA: "},
        "objective": {"name": "distil", "teacher": str(place / "teacher"), "method": method, **more},
        "train": dict(TRAIN),
    }  # fmt: skip


def characters_of(known: str) -> Any:
    """A tokenizer that knows these characters only."""
    found = word_level(["<unk>", *known], pre_tokenizers.Split("", "isolated"))
    return PreTrainedTokenizerFast(tokenizer_object=found, unk_token="<unk>", eos_token="<unk>")

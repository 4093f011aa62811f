"""Tiny random causal models of Hugging Face with tokenizers learnt here, and rows to judge them on."""

from typing import Any

import distil_pairs
import tokenizer_kinds
import torch
from transformers import PreTrainedTokenizerFast

from splitstep.distillation.judging.reading import Causal
from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.text.instructions import Row

LINES = tokenizer_kinds.LINES
ROWS = [
    Row("Q: why is the fox quick?\nA: ", "The quick brown fox jumps over the lazy dog."),
    Row("Q: wie läuft der Fuchs?\nA: ", "Der schnelle braune Fuchs läuft über die Straße."),
    Row("Q: 3.14?\nA: ", "3.14 and 1,000!"),
    Row("Q: hello in Chinese, please, and in Japanese as well\nA: ", "你好世界。今日は"),
    Row("Q: dog or fox?\nA: ", "dog, doesn't it? lazy dog, brown fox, quick fox over the dog"),
]


def fast(kind: str) -> Any:
    """A tokenizer of Hugging Face of this kind, with a token that ends texts."""
    made = tokenizer_kinds.KINDS[kind]()
    if isinstance(made, PreTrainedTokenizerFast):
        return made
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>" if "BPE" in kind else "<s>")


def llama(kind: str = "byte BPE", layers: int = 4, width: int = 32, seed: int = 0, scale: float = 0.2) -> Causal:
    tokenizer = fast(kind)
    sizes = {"intermediate_size": 48, "num_attention_heads": 4, "initializer_range": scale}
    return Causal(distil_pairs.llama(tokenizer, layers, width, seed, **sizes).eval(), tokenizer)


def gpt2(kind: str = "Unigram", layers: int = 2, width: int = 32, seed: int = 0) -> Causal:
    tokenizer = fast(kind)
    return Causal(distil_pairs.gpt2(tokenizer, layers, width, seed, n_head=4, initializer_range=0.2).eval(), tokenizer)


def ours(kind: str = "byte BPE", scheme: str = "macaron", seed: int = 0) -> Causal:
    """A model of this package."""
    tokenizer = fast(kind)
    torch.manual_seed(seed)
    config = CausalConfig(
        scheme=scheme, layers=2, width=32, heads=4, ffn=48, vocab_size=len(tokenizer), max_positions=256, init_std=0.2
    )
    return Causal(SplitstepForCausalLM(config).eval(), tokenizer)

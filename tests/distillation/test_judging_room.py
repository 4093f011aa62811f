"""How many texts are read or answered at once: what they take is at most what is counted, and not much less."""

from functools import partial
from typing import Any

import pytest
from live_bytes import LiveBytes
from tiny_causal import fast, llama
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from splitstep.distillation.judging.answers import Prompt, Writing, write_batch
from splitstep.distillation.judging.exam import Pair, agreement
from splitstep.distillation.judging.reading import (
    Causal,
    ScoredTokens,
    bytes_of_answer,
    bytes_of_text,
    costs_of,
    reading,
    rows_to_read,
    rows_to_write,
    rows_within,
)
from splitstep.models import CausalConfig, SplitstepForCausalLM

ROWS = 4


# nine heads of queries and three of keys, as small models of today have them
LLAMA = partial(
    LlamaConfig, hidden_size=144, intermediate_size=384, num_hidden_layers=6, num_attention_heads=9,
    num_key_value_heads=3, max_position_embeddings=512,
)  # fmt: skip
GPT2 = partial(GPT2Config, n_embd=192, n_layer=2, n_head=3, n_positions=512, bos_token_id=0, eos_token_id=0)
OURS = partial(CausalConfig, max_positions=512, layers=3, width=96, heads=6, kv_heads=2, ffn=384)
MODELS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaForCausalLM, LLAMA),
    "gpt2": (GPT2LMHeadModel, GPT2),  # its activation is written out
    "macaron": (SplitstepForCausalLM, partial(OURS, scheme="macaron")),
    "midpoint": (SplitstepForCausalLM, partial(OURS, scheme="A F @midpoint")),
}
CASES = [(kind, size) for kind in MODELS for size in (300, 4000) if size == 300 or kind in ("llama", "midpoint")]


def made(kind: str, size: int) -> Any:
    model, config = MODELS[kind]
    return model(config(vocab_size=size)).eval()


def check(counted: int, most: int) -> None:
    """What is counted is enough, and not much more than that."""
    assert counted / 4 < most <= counted


@pytest.mark.parametrize(("kind", "size"), CASES)
def test_an_answer_takes_no_more_than_is_counted(kind: str, size: int) -> None:
    model = made(kind, size)
    for prompt, new, top_p in ((150, 3, 1.0), (4, 64, 1.0), (64, 3, 0.9)):
        asked = [Prompt([1] * (prompt - row), row) for row in range(ROWS)]
        with reading(model), LiveBytes() as live:
            write_batch(model, asked, range(new), [], Writing(top_p=top_p))
        check(bytes_of_answer(model)(prompt, new) * ROWS, live.most)


@pytest.mark.parametrize(("kind", "size"), CASES)
def test_texts_that_are_read_take_no_more_than_is_counted(kind: str, size: int) -> None:
    model, tokenizer = made(kind, size), fast("byte BPE")
    for tokens in (40, 150):
        texts = [ScoredTokens([1] * tokens, [False] + [True] * (tokens - 1), 0) for _ in range(ROWS)]
        with LiveBytes() as live:
            costs_of(model, texts * 2, ROWS)
        check(bytes_of_text((model,), tokens) * ROWS, live.most)
        read = ScoredTokens([1] * tokens, [True] * (tokens - 1) + [False], 0)
        both = Pair(Causal(model, tokenizer), Causal(model, tokenizer), [(read, read)] * ROWS * 2)
        with LiveBytes() as live:
            agreement(both, ROWS)
        check(bytes_of_text((model, model), tokens) * ROWS, live.most)


def test_rows_at_once_are_a_power_of_two_within_the_room() -> None:
    for room, each, expected in ((1000, 10, 64), (1280, 10, 128), (5, 10, 1), (10**9, 10, 1024), (0, 10, 0)):
        assert rows_within(room, each, 1024) == expected
    assert rows_to_write(llama().model)(100, 50) == 64  # on a CPU
    assert rows_to_read((llama().model,), 100) == 8

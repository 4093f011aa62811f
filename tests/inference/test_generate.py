"""Tokens are drawn as transformers draws them, and from the distribution that the options describe."""

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import PreTrainedTokenizerFast

import splitstep as ss
from splitstep.inference.generate import PART, Sampling, StopWords, sample, text_pieces, until_stopped
from splitstep.text.tokenizers import byte_tokenizer, word_tokenizer

VOCABULARY, PROMPT, NEW = 23, [3, 1, 4, 1, 5], 30
SETTINGS = [
    {}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 1}, {"top_k": 4}, {"top_k": 10**6}, {"top_p": 0.3},
    {"top_p": 0.9}, {"top_p": 1.0}, {"top_p": 1e-9}, {"temperature": 0.7, "top_k": 6, "top_p": 0.8},
    {"temperature": 3.0, "top_k": 12, "top_p": 0.6},
]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = ss.CausalConfig(scheme="A F", layers=2, width=16, heads=2, ffn=32, vocab_size=VOCABULARY, init_std=0.5)
    return ss.SplitstepForCausalLM(config).eval()


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, *SETTINGS], ids=str)
def test_the_tokens_are_those_of_transformers_with_the_same_seed(settings: dict[str, Any], model: Any) -> None:
    ours = list(sample(model, 10**6, PROMPT, NEW, Sampling(**settings, seed=7)))
    torch.manual_seed(7)
    drawn = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0} | settings
    given = drawn if drawn["temperature"] else {"do_sample": False}
    theirs = model.generate(torch.tensor([PROMPT]), max_new_tokens=NEW, min_new_tokens=NEW, **given)
    assert ours == theirs[0, len(PROMPT) :].tolist()


def probabilities(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """By brute force: the fewest likeliest tokens that have the probability `top_p` among the `top_k` likeliest."""
    weights = {token: math.exp(x / temperature) for token, x in enumerate(logits)}
    ordered = sorted(weights, key=lambda token: -weights[token])[:top_k]
    total = sum(weights[token] for token in ordered)
    chosen = next(
        ordered[:n] for n in range(1, top_k + 1) if sum(weights[t] for t in ordered[:n]) >= top_p * total or n == top_k
    )
    return [weights[t] / sum(weights[c] for c in chosen) if t in chosen else 0.0 for t in range(len(logits))]


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 9, 1.0), (0.8, 5, 1.0), (1.3, 9, 0.7), (0.9, 6, 0.8)]
)
def test_tokens_are_drawn_with_these_probabilities(temperature: float, top_k: int, top_p: float) -> None:
    logits, draws = [0.1, 2.0, -1.0, 1.2, 0.7, -0.4, 1.9, 0.0, -2.0], 4000
    sampling = Sampling(temperature, top_k, top_p)
    random, counts = torch.Generator().manual_seed(sampling.seed), [0] * len(logits)
    for _ in range(draws):
        counts[sampling.draw(torch.tensor(logits), random)] += 1
    expected = probabilities(logits, temperature, top_k, top_p)
    assert [n for n, p in zip(counts, expected, strict=True) if p == 0 and n > 0] == []
    kept = [(n, p * draws) for n, p in zip(counts, expected, strict=True) if p > 0]
    assert chisquare(*zip(*kept, strict=True)).pvalue > 0.01


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"temperature": -1.0}, "temperature of 0 or at least 1e-06; got -1.0"),
        ({"temperature": 1e-320}, "temperature of 0 or at least 1e-06; got 1e-320"),
        ({"temperature": math.nan}, "temperature of 0 or at least 1e-06; got nan"),
        ({"top_k": 0}, "top-k of at least 1 and at most 1,000,000,000; got 0"),
        ({"top_k": 10**20}, "top-k of at least 1 and at most 1,000,000,000; got 1"),
        ({"top_p": 0.0}, "top-p above 0 and at most 1; got 0.0"),
        ({"top_p": math.nan}, "top-p above 0 and at most 1; got nan"),
        ({"temperature": 0.0, "top_p": 0.5}, "leave out --top-k and --top-p"),
        ({"seed": 2**63}, "below 2^63"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Sampling(**settings)


BYTES = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), clean_up_tokenization_spaces=False)
WORDS = ("<unk>", "<eos>", "a", "bee", "c", ",", "[", "é")
WORD_LEVEL = PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(WORDS), clean_up_tokenization_spaces=False)
# The bytes of characters of one to four bytes, whole and in parts, and bytes that are never in one.
MIXED = st.lists(st.sampled_from([*"aé€😀\n\ufffd".encode(), 0x80, 0xC3, 0xE2, 0xF0, 0xFF]), min_size=1, max_size=30)


@given(MIXED)
@settings(max_examples=100)
def test_pieces_of_any_bytes_are_the_whole_text(tokens: list[int]) -> None:
    assert "".join(text_pieces(tokens, BYTES.decode)) == BYTES.decode(tokens)


@given(st.text(max_size=20))
@settings(max_examples=100)
def test_text_comes_a_character_at_a_time_as_soon_as_it_is_whole(text: str) -> None:
    tokens, seen = list(text.encode()), ""
    for count, piece in enumerate(text_pieces(tokens, BYTES.decode), 1):
        seen += piece
        certain = bytes(tokens[:count]).decode(errors="ignore").rstrip(PART)  # which a text may hold itself
        assert seen.startswith(certain)
        assert text.startswith(seen)
    assert seen == text


@given(st.lists(st.sampled_from(range(len(WORDS))), min_size=1, max_size=20))
@settings(max_examples=100)
def test_words_are_joined_as_in_the_whole_text(tokens: list[int]) -> None:
    pieces = list(text_pieces(tokens, WORD_LEVEL.decode))
    assert "".join(pieces) == WORD_LEVEL.decode(tokens)
    assert all(pieces[:-1])  # each word is shown at once


def cut(text: str, stops: list[str]) -> tuple[str, str | None]:
    """By brute force: reads a character more each time until a stop word is there; of several the longest."""
    for end in range(len(text) + 1):
        found = [word for word in stops if text[:end].endswith(word)]
        if found:
            word = max(found, key=len)
            return text[: end - len(word)], word
    return text, None


@given(st.lists(st.text("ab.", max_size=4), max_size=8), st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3))
@settings(max_examples=100)
def test_text_ends_before_the_first_stop_word_however_it_is_cut(pieces: list[str], stops: list[str]) -> None:
    words = StopWords(stops)
    shown = list(until_stopped(pieces, words))
    text, found = cut("".join(pieces), stops)
    assert ("".join(shown), words.found) == (text, found)


def test_only_what_may_begin_a_stop_word_is_held_back() -> None:
    words = StopWords(["END", "Enough"])
    assert [words.push(text) for text in ("on E", "N", "e E", "no", "w")] == ["on ", "", "ENe ", "", "Enow"]


def test_an_empty_stop_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r'a stop word is empty: give some text, such as --stop "\."'):
        StopWords(["a", ""])

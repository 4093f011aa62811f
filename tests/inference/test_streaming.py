"""Text comes in pieces that together are the whole text; a character is never cut, and a stop word never shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from splitstep.inference.generate import PART, StopWords, text_pieces, until_stopped
from splitstep.text.tokenizers import byte_tokenizer, word_tokenizer

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

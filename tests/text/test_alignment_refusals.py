"""What cannot be aligned or cut is refused in one line, which names the tokenizer, the token, and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tokenizer_kinds import tokenizer
from tokenizers import PreTokenizedString, Tokenizer, models, pre_tokenizers, processors
from transformers import ByT5Tokenizer

from splitstep.text.alignment import align, noun_chunks, phrases, text_spans, words
from splitstep.text.token_bytes import Characters, TokenBytes, token_bytes


class Shouting(ByT5Tokenizer):
    """A slow tokenizer that changes the text."""

    def _tokenize(self, text: str) -> list[str]:
        return super()._tokenize(text.upper())


class Halves:
    """A pre-tokenizer in Python."""

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        text.split(lambda _, part: [part[:1], part[1:]])


def short() -> Tokenizer:
    """A tokenizer that cuts texts short."""
    made = Tokenizer(models.WordLevel({"a": 0, "?": 1}, "?"))
    made.pre_tokenizer = tokenizer("characters").pre_tokenizer
    made.enable_truncation(3)
    return made


def in_python() -> Tokenizer:
    made = Tokenizer(models.WordLevel({"a": 0}, "a"))
    made.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Halves())
    return made


def special_inside() -> Tokenizer:
    made = Tokenizer(models.WordLevel({"a": 0, "[SEP]": 1}, "a"))
    made.post_processor = processors.TemplateProcessing(single="$A [SEP] $A", special_tokens=[("[SEP]", 1)])
    return made


def ends_at(end: int) -> TokenBytes:
    """One token of a text of so many bytes."""
    return TokenBytes(np.zeros(1, np.int64), np.array([end]), np.zeros(1, bool))


REFUSED: dict[str, Callable[[], Any]] = {
    r"^Shouting: token 1, 'B', cannot be placed in the text 'Ab': .*; use one with a tokenizer.json": (
        lambda: token_bytes(Shouting(), "Ab")
    ),
    r"makes no token of the text ' \\n': leave the text out": lambda: token_bytes(
        tokenizer("WordPiece, lower case"), " \n"
    ),
    "character 1 of the text is half a surrogate pair": lambda: token_bytes(tokenizer("byte BPE"), "a\ud83d"),
    r"cuts texts short.*call its no_truncation\(\)": lambda: token_bytes(short(), "aaaa"),
    r"a PreTokenizer of the tokenizer is written in Python.*as tokenizer\.json": lambda: token_bytes(in_python(), "ab"),
    "puts a special token inside a text: align each part separately": lambda: token_bytes(special_inside(), "a"),
    "^reversed: token 1, 'a', cannot be placed in the text 'ab': .* keeps the order of the text": (
        lambda: Characters("ab", "reversed").placed(np.array([[1, 2], [0, 1]]), [b"b", b"a"])
    ),
    "tokens of two texts, of 3 and 4 bytes: align the same text": lambda: align(ends_at(3), ends_at(4)),
    "no spans of the kind 'lines': choose from aligned, words, phrases": lambda: text_spans(
        "", ends_at(0), ends_at(0), ["lines"]
    ),
    "at most 0 words is none: give 1 or more": lambda: phrases("a b", 0),
    "no UTF-8 bytes": lambda: words("a\ud800"),
    "python -m spacy download no_such_model; or use splitstep's own phrases": lambda: noun_chunks("no_such_model"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_aligned_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_a_text_that_fits_is_not_cut_short() -> None:
    assert len(token_bytes(short(), "aaa").ids) == 3

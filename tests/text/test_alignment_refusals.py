"""What cannot be aligned is refused in one line, which names the tokenizer, the token, and what to do."""

import numpy as np
import pytest
from tokenizer_kinds import tokenizer
from tokenizers import PreTokenizedString, Tokenizer, models, pre_tokenizers, processors
from transformers import ByT5Tokenizer

from splitstep.text.alignment import align
from splitstep.text.token_bytes import Characters, TokenBytes, token_bytes


class Shouting(ByT5Tokenizer):
    """A slow tokenizer that changes the text."""

    def _tokenize(self, text: str) -> list[str]:
        return super()._tokenize(text.upper())


def test_a_slow_tokenizer_that_changes_the_text() -> None:
    expected = r"^Shouting: token 1, 'B', cannot be placed in the text 'Ab': .*; use one with a tokenizer.json"
    with pytest.raises(ValueError, match=expected):
        token_bytes(Shouting(), "Ab")


def test_a_text_of_which_nothing_is_left() -> None:
    with pytest.raises(ValueError, match=r"makes no token of the text ' \\n': leave the text out"):
        token_bytes(tokenizer("WordPiece, lower case"), " \n")


def test_half_a_character() -> None:
    with pytest.raises(ValueError, match="character 1 of the text is half a surrogate pair"):
        token_bytes(tokenizer("byte BPE"), "a\ud83d")


def test_a_tokenizer_that_cuts_texts_short() -> None:
    made = Tokenizer(models.WordLevel({"a": 0, "?": 1}, "?"))
    made.pre_tokenizer = tokenizer("characters").pre_tokenizer
    made.enable_truncation(3)
    with pytest.raises(ValueError, match=r"cuts texts short.*call its no_truncation\(\)"):
        token_bytes(made, "aaaa")
    assert len(token_bytes(made, "aaa").ids) == 3


class Halves:
    """A pre-tokenizer in Python."""

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        text.split(lambda _, part: [part[:1], part[1:]])


def test_a_tokenizer_with_a_part_in_python() -> None:
    made = Tokenizer(models.WordLevel({"a": 0}, "a"))
    made.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Halves())
    with pytest.raises(ValueError, match=r"a PreTokenizer of the tokenizer is written in Python.*as tokenizer\.json"):
        token_bytes(made, "ab")


def test_a_special_token_inside_of_a_text() -> None:
    made = Tokenizer(models.WordLevel({"a": 0, "[SEP]": 1}, "a"))
    made.post_processor = processors.TemplateProcessing(single="$A [SEP] $A", special_tokens=[("[SEP]", 1)])
    with pytest.raises(ValueError, match="puts a special token inside of a text: align each part by itself"):
        token_bytes(made, "a")


def test_tokens_in_another_order_than_the_text() -> None:
    expected = "^reversed: token 1, 'a', cannot be placed in the text 'ab': .* keeps the order of the text"
    with pytest.raises(ValueError, match=expected):
        Characters("ab", "reversed").placed(np.array([[1, 2], [0, 1]]), [b"b", b"a"])


def test_tokens_of_two_texts() -> None:
    sides = [TokenBytes(np.zeros(1, np.int64), np.array([end]), np.zeros(1, bool)) for end in (3, 4)]
    with pytest.raises(ValueError, match="tokens of two texts, of 3 and 4 bytes: align the same text"):
        align(*sides)

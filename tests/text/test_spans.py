"""Words are Unicode's, phrases are runs of words, and each token belongs to the unit with which it shares most."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import KINDS, texts, tokenizer

from splitstep.text.alignment import phrases, text_spans, tokens_of, unit_spans, words
from splitstep.text.token_bytes import TokenBytes, token_bytes


def cut(text: str, ranges: np.ndarray) -> list[str]:
    return [text.encode()[begin:end].decode() for begin, end in ranges]


@pytest.mark.parametrize(("text", "expected"), [
    # The example of UAX #29, section 4.
    (
        "The quick (“brown”) fox can’t jump 32.3 feet, right?",
        ["The", "quick", "brown", "fox", "can’t", "jump", "32.3", "feet", "right"],
    ),
    ("3,456.789 a_b a:b a.b. 3a", ["3,456.789", "a_b", "a:b", "a.b", "3a"]),  # WB6-WB13b
    ('ב"ה שלום', ['ב"ה', "שלום"]),  # WB7b: gershayim inside of a Hebrew word
    ("Съешь ещё", ["Съешь", "ещё"]),
    ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),  # marks and joiners stay inside
    ("أهلا وسهلا", ["أهلا", "وسهلا"]),
    ("世界カタカナ", ["世", "界", "カタカナ"]),  # no dictionary: ideographs one by one, Katakana together (WB13)
    ("안녕하세요 세계", ["안녕하세요", "세계"]),
    ("cafe\u0301s", ["cafe\u0301s"]),  # WB4
    ("👩‍👩‍👧‍👦🇩🇪🇫🇷 👍🏽", ["👩‍👩‍👧‍👦", "🇩🇪", "🇫🇷", "👍🏽"]),  # WB3c, WB15, WB4
    ("... — !\n", []),
    ("", []),
])  # fmt: skip
def test_words_are_those_of_unicode(text: str, expected: list[str]) -> None:
    assert cut(text, words(text)) == expected


@pytest.mark.parametrize(("text", "most", "expected"), [
    ("The old man, who sat there. Left", 4, ["The old man", "who sat there", "Left"]),
    ("one two three four five", 4, ["one two three", "four five"]),  # of equal length up to one word
    ("one two three four five six seven", 3, ["one two three", "four five", "six seven"]),
    ("one\ntwo three", 4, ["one", "two three"]),  # a line break ends a phrase
    ("你好世界。今天", 4, ["你好世界", "今天"]),
    ("a b c", 1, ["a", "b", "c"]),
    ("!?", 4, []),
])  # fmt: skip
def test_phrases_are_runs_of_words(text: str, most: int, expected: list[str]) -> None:
    assert cut(text, phrases(text, most)) == expected


@settings(max_examples=60)
@given(text=texts(), most=st.integers(1, 5))
def test_phrases_are_made_of_whole_words_and_hold_each_once(text: str, most: int) -> None:
    small, large = words(text), phrases(text, most)
    inside = [[w for w in range(len(small)) if b <= small[w, 0] and small[w, 1] <= e] for b, e in large]
    assert [w for group in inside for w in group] == list(range(len(small)))
    assert all(1 <= len(group) <= most for group in inside)
    assert all((small[group[0], 0], small[group[-1], 1]) == tuple(p) for group, p in zip(inside, large, strict=True))


def owner(begin: int, end: int, units: np.ndarray) -> int | None:
    """The unit with most bytes of a token, by counting them."""
    counts = [sum(low <= byte < high for byte in range(begin, end)) for low, high in units]
    return counts.index(max(counts)) if counts and max(counts) else None


@pytest.mark.parametrize("unit", [words, phrases])
@settings(max_examples=60)
@given(kind=st.sampled_from(list(KINDS)), text=texts(8))
def test_tokens_belong_to_the_unit_with_most_of_their_bytes(unit, kind: str, text: str) -> None:
    try:
        tokens = token_bytes(tokenizer(kind), text)
    except ValueError:
        return  # of this text the tokenizer keeps nothing
    units = unit(text)
    found = [owner(int(b), int(e), units) for b, e in zip(tokens.begins, tokens.ends, strict=True)]
    expected = [[i for i, own in enumerate(found) if own == number] for number in range(len(units))]
    ranges = [[own[0], own[-1] + 1] if own else [0, 0] for own in expected]
    assert tokens_of(units, tokens).tolist() == ranges


def test_ranges_of_tokens_by_example() -> None:
    """'a bc, d' in tokens `a b`, `c,`, ` d`: `a` has as many bytes of the first token as `b` has, and comes first."""
    tokens = TokenBytes(np.arange(3), np.array([3, 5, 7]), np.zeros(3, bool))
    assert words("a bc, d").tolist() == [[0, 1], [2, 4], [6, 7]]
    assert tokens_of(words("a bc, d"), tokens).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_words_without_tokens_on_a_side_are_left_out() -> None:
    text = "你好世 a"
    together = TokenBytes(np.arange(2), np.array([9, 11]), np.zeros(2, bool))  # three words in one token
    apart = TokenBytes(np.arange(4), np.array([3, 6, 9, 11]), np.zeros(4, bool))
    found = unit_spans(words(text), together, apart)
    assert found.teacher.tolist() == [[0, 1], [1, 2]]
    assert found.student.tolist() == [[0, 1], [3, 4]]


def test_spans_of_all_kinds() -> None:
    text = "the lazy dog, the fox"
    sides = token_bytes(tokenizer("bytes, ours"), text), token_bytes(tokenizer("words, ours"), text)
    found = text_spans(text, *sides, ["aligned", "words", "phrases"], lambda text: phrases(text, 2))
    covered = {kind: cut(text, spans.bytes) for kind, spans in found.items()}
    assert covered == {
        "aligned": ["the", " lazy", " dog,", " the", " fox"],
        "words": ["the", "lazy", "dog", "the", "fox"],
        "phrases": ["the lazy", "dog", "the fox"],
    }
    assert found["phrases"].student.tolist() == [[0, 2], [2, 3], [3, 5]]
    assert found["phrases"].teacher.tolist() == found["phrases"].bytes.tolist()  # its tokens are the bytes

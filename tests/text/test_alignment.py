"""Tokens cover the bytes that they came from, and spans are the finest that are whole tokens on both sides."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizer_kinds import EXACT, KINDS, texts, tokenizer
from tokenizers import PreTokenizedString, Tokenizer, models, pre_tokenizers, processors
from transformers import ByT5Tokenizer

from splitstep.distillation.texts import collate
from splitstep.text.alignment import Alignment, align, noun_chunks, phrases, text_spans, tokens_of, unit_spans, words
from splitstep.text.pieces import pieces_of
from splitstep.text.token_bytes import Characters, TokenBytes, encode, token_bytes

MANY = settings(max_examples=50)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def placed(kind: str, text: str) -> TokenBytes:
    """The tokens of a text; texts of which the tokenizer keeps nothing are left out."""
    try:
        return token_bytes(tokenizer(kind), text)
    except ValueError as error:
        assume("makes no token of the text" not in str(error))
        raise


def pieces(tokens: TokenBytes, raw: bytes) -> list[bytes]:
    return [raw[begin:end] for begin, end in zip(tokens.begins, tokens.ends, strict=True)]


@EVERY_KIND
@MANY
@given(text=texts())
def test_the_bytes_of_the_tokens_are_the_text(kind: str, text: str) -> None:
    tokens = placed(kind, text)
    assert (np.diff(tokens.ends) >= 0).all()
    assert b"".join(pieces(tokens, text.encode())) == text.encode()
    assert (tokens.begins == tokens.ends)[tokens.special].all()


@pytest.mark.parametrize("kind", EXACT)
@MANY
@given(text=texts())
def test_a_token_covers_the_bytes_that_it_spells(kind: str, text: str) -> None:
    """What covers something is what the tokenizer's own decoder makes of the tokens up to there."""
    known, tokens = tokenizer(kind), placed(kind, text)
    assume(not any(odd in text for odd in ("▁", "<0x", "<unk>")))  # read as what they spell, or without blanks around
    encoded = encode(known, text, True)
    spelt = pieces_of(known)
    for covered, piece, special in zip(pieces(tokens, text.encode()), encoded.tokens, encoded.special, strict=True):
        own = {b"" if special else spelt.read(reader, piece) for reader in spelt.readers}
        assert covered in own or b" " + covered in own


def connected(sources: list[set[int]]) -> list[set[int]]:
    """Each set united with all that share something with it, directly or through others."""
    while True:
        united = [set().union(own, *(other for other in sources if own & other)) for own in sources]
        if united == sources:
            return sources
        sources = united


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("slow")])
@MANY
@given(text=texts(6))
def test_a_token_covers_no_byte_that_came_from_characters_of_other_tokens_only(kind: str, text: str) -> None:
    tokens, characters = placed(kind, text), encode(tokenizer(kind), text, True).characters
    starts = [len(text[:number].encode()) for number in range(len(text) + 1)]
    sources = [set(range(starts[begin], starts[end])) for begin, end in characters or ()]
    claimed: set[int] = set().union(*sources)
    for begin, end, own in zip(tokens.begins, tokens.ends, connected(sources), strict=True):
        stray = [number for number in range(begin, end) if number in claimed - own]
        # Only blanks, which trimmed offsets leave out.
        assert text.encode()[stray[0] : stray[-1] + 1].decode().isspace() if stray else True


def brute_force(teacher: TokenBytes, student: TokenBytes, length: int) -> list[tuple[range, range, range]]:
    """Spans byte by byte: closed as soon as a token of either side ends."""
    found, begin = [], 0
    for byte in range(1, length + 1):
        if all(any(b < e == byte for b, e in zip(s.begins, s.ends, strict=True)) for s in (teacher, student)):
            sides = [
                [i for i in range(len(s.ends)) if not s.special[i] and begin <= s.begins[i] and s.ends[i] <= byte]
                for s in (teacher, student)
            ]
            # A token without bytes at the end of a span is in the next one, but for the end of the text.
            if byte < length:
                sides = [
                    [i for i in side if not s.begins[i] == s.ends[i] == byte]
                    for side, s in zip(sides, (teacher, student), strict=True)
                ]
            found.append((sides[0], sides[1], range(begin, byte)))
            begin = byte
    return found


def listed(alignment: Alignment) -> list[tuple[Any, ...]]:
    rows = zip(alignment.teacher, alignment.student, alignment.bytes, strict=True)
    return [(list(range(*teacher)), list(range(*student)), range(*covered)) for teacher, student, covered in rows]


@MANY
@given(kinds=st.sampled_from(list(product(KINDS, KINDS))), text=texts(8))
def test_spans_are_those_of_brute_force(kinds: tuple[str, str], text: str) -> None:
    teacher, student = (placed(kind, text) for kind in kinds)
    assert listed(align(teacher, student)) == brute_force(teacher, student, len(text.encode()))


@MANY
@given(rows=st.lists(texts(6), min_size=1, max_size=4))
def test_padding_changes_no_span(rows: list[str]) -> None:
    found = [align(*(token_bytes(tokenizer(kind), row) for kind in ("byte BPE", "Llama"))) for row in rows]
    plain = collate(found)
    assert plain.mask.sum(1).tolist() == [len(row) for row in found]
    for number, row in enumerate(found):
        assert plain.teacher[number, : len(row)].tolist() == row.teacher.tolist()
        assert plain.student[number, : len(row)].tolist() == row.student.tolist()
    assert not plain.teacher[~plain.mask].any()
    most = plain.mask.shape[1]
    for wide, narrow in zip(collate(found, size=most + 5), plain, strict=True):
        assert wide[:, :most].equal(narrow)
        assert wide.shape[1] == most + 5
        assert not wide[:, most:].any()


def test_special_tokens_are_outside_of_all_spans() -> None:
    known = tokenizer("WordPiece, lower case")
    batch = known(["the fox"], return_special_tokens_mask=True)
    tokens = token_bytes(known, "the fox")
    spans = collate([align(tokens, tokens)])
    inside = {number for begin, end in spans.teacher[0].tolist() for number in range(begin, end)}
    assert inside == {number for number, special in enumerate(batch["special_tokens_mask"][0]) if not special}


@pytest.mark.parametrize(("kind", "text", "covered"), [
    ("byte BPE", "é", [b"\xc3", b"\xa9"]),  # a character split over tokens
    ("WordPiece, lower case", "A  É", [b"", b"A", "  É".encode(), b""]),  # blanks belong to the word after them
    ("WordPiece, lower case", "A ", [b"", b"A ", b""]),  # at the end, to the last one
    ("WordPiece, lower case", "e\u0301 a", [b"", "e\u0301".encode(), b" a", b""]),  # a mark stays with its letter
    ("Unigram, NFKC", "ﬁ", [b"", b"", "ﬁ".encode()]),  # <s> ▁f i
    ("Llama", "Ω", [b"", b"\xce", b"\xa9"]),  # the blank before the text covers nothing
    ("words, ours", "the  fox\n", [b"the", b"  fox\n"]),
    ("slow, bytes", "é", [b"\xc3", b"\xa9", b""]),
])  # fmt: skip
def test_rules_by_example(kind: str, text: str, covered: list[bytes]) -> None:
    found = pieces(token_bytes(tokenizer(kind), text), text.encode())
    assert found == covered


def test_special_tokens_written_in_the_text_cover_what_is_written() -> None:
    text = "fox<|endoftext|>dog"
    tokens = token_bytes(tokenizer("byte BPE"), text)
    assert b"<|endoftext|>" in pieces(tokens, text.encode())
    assert not tokens.special.any()


def test_spans_can_be_cut_to_what_a_model_reads() -> None:
    found = align(*(token_bytes(tokenizer(kind), "The quick brown fox") for kind in ("byte BPE", "characters")))
    for teacher, student in product(range(8), range(20)):
        fitting = [n for n in range(len(found)) if found.teacher[n, 1] <= teacher and found.student[n, 1] <= student]
        assert found.within(teacher, student).bytes.tolist() == found.bytes[fitting].tolist()
    assert len(found.within(100, 100, most=2)) == 2


def test_spans_can_be_cut_to_a_part_of_the_text() -> None:
    found = align(*(token_bytes(tokenizer(kind), "the lazy dog, doesn't") for kind in ("bytes, ours", "words, ours")))
    assert found.inside(8, 13).bytes.tolist() == [[8, 13]]
    assert found.inside(7, 13).student.tolist() == [[2, 3]]
    assert len(found.inside(9, 13)) == 0  # a span that began before is not a part of it


def test_a_blank_that_was_added_covers_nothing_even_after_characters_that_were_dropped() -> None:
    """Both tokens say that they came from the letter; the blanks before it belong to the letter's token."""
    ends = Characters("a  b", "it").placed(np.array([[0, 1], [3, 4], [3, 4]]), [b"a", b" ", b"b"])
    assert ends.tolist() == [1, 1, 4]


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

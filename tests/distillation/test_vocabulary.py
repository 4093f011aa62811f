"""Two vocabularies share the tokens that stand for the same bytes inside of a text."""

import pytest
from tokenizer_kinds import KINDS, tokenizer, word_level
from tokenizers import Tokenizer, pre_tokenizers
from transformers import ByT5Tokenizer

from splitstep.distillation.vocabulary import shared_vocabulary, vocabulary_bytes


def known_words(*words: str) -> Tokenizer:
    return word_level(["<unk>", *words], pre_tokenizers.WhitespaceSplit())


def pairs(teacher: Tokenizer, student: Tokenizer) -> set[tuple[str, str]]:
    found = shared_vocabulary(teacher, student)
    names = [{number: piece for piece, number in side.get_vocab().items()} for side in (teacher, student)]
    return {(names[0][t], names[1][s]) for t, s in found.ids.tolist()}


def test_blanks_count() -> None:
    """Both spell a word after a blank, in their own way; a piece inside of a word is another token."""
    found = pairs(tokenizer("byte BPE"), tokenizer("Llama"))
    assert {("a", "a"), ("Ġ", "▁")} <= found
    assert not {(t, s) for t, s in found if t.startswith("Ġ") != s.startswith("▁")}
    spelt = [(t, s) for t, s in found if t.removeprefix("Ġ").isascii() and not s.startswith("<0x")]
    assert [t.replace("Ġ", "▁") for t, s in spelt] == [s for t, s in spelt]


def test_bytes_of_a_character_are_tokens_on_both_sides() -> None:
    found = pairs(tokenizer("byte BPE"), tokenizer("Llama"))
    assert {("Ã", "<0xC3>"), ("Ł", "<0x9F>")} <= found
    assert ("a", "<0x61>") not in found  # there is a piece that spells it as itself


def test_a_piece_that_begins_a_word_has_a_blank_where_blanks_are_dropped() -> None:
    known = vocabulary_bytes(tokenizer("WordPiece, lower case"))
    vocabulary = tokenizer("WordPiece, lower case").get_vocab()
    assert known[b" t"] == vocabulary["t"]
    assert known[b"t"] == vocabulary["##t"]
    assert known[b","] in {vocabulary[","], vocabulary["##,"]}
    assert known["你".encode()] in {vocabulary["你"], vocabulary["##你"]}
    assert not {b" ,", " 你".encode()} & known.keys()  # neither has a blank before it by itself
    assert vocabulary["[CLS]"] not in known.values()
    assert vocabulary["[UNK]"] not in known.values()


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_shares_all_of_its_bytes_with_itself(kind: str) -> None:
    found = shared_vocabulary(tokenizer(kind), tokenizer(kind))
    assert found.ids[:, 0].equal(found.ids[:, 1])
    assert found.ids[:, 0].unique().equal(found.ids[:, 0])
    assert found.teacher_share == 1


def test_the_share_is_told() -> None:
    found = shared_vocabulary(known_words("fox", "dog"), known_words("dog", "cat", "hen", "ox"))
    assert found.ids.tolist() == [[2, 1]]
    assert found.teacher_share == 0.5


def test_slow_tokenizers_are_read_by_the_spelling_that_gives_back_a_text() -> None:
    known = vocabulary_bytes(ByT5Tokenizer())
    assert [known[bytes([byte])] for byte in range(256)] == list(range(3, 259))


def test_no_overlap_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Tokenizer and Tokenizer share no token.*leave the term"):
        shared_vocabulary(known_words("fox"), known_words("dog"))

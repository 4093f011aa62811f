"""Subwords learnt from text: WordPiece of lower-cased words as BERT has it, or byte-level BPE. The same text gives the
same subwords."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np

from .tokenizers import sentence_template

Kind = Literal["wordpiece", "bpe"]
Texts = Callable[[], Iterator[str]]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SENTENCE_TOKENS = SPECIAL[:4]
"""What a tokenizer of sentences begins with: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]."""
PAD, UNK, CLS, SEP, MASK = range(5)
INSIDE = "##"  # before a piece that does not begin a word
LEAST = 300  # subwords of a model
ENOUGH = 1 << 27  # characters that subwords are learnt from; of longer texts every other part, or every third, ..
BLOCK = 1 << 20  # characters that are counted at a time
CODES = 0x110000  # characters that there are


def learn(kind: Kind, size: int, texts: Texts, characters: int) -> Any:
    """A tokenizer with at most `size` subwords learnt from texts of so many characters."""
    from tokenizers import normalizers

    step = -(-characters // ENOUGH)
    sample = lambda: islice(texts(), 0, None, step)  # noqa: E731
    if kind == "wordpiece":  # only frequent letters are kept, inside of words those that stand there
        normalizer = normalizers.BertNormalizer(lowercase=True)
        letters, inside = alphabet(map(normalizer.normalize_str, joined(sample())), size // 16)
        tokenizer = train_wordpiece(sample(), size, SPECIAL, inside, letters)
    else:
        tokenizer = learn_bpe(sample(), size, SPECIAL, prefix=False)
    check_size(tokenizer, size)
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == list(range(len(SPECIAL)))
    tokenizer.post_processor = sentence_template({"[CLS]": CLS, "[SEP]": SEP})
    return tokenizer


def check_size(tokenizer: Any, size: int) -> None:
    """Refuse a tokenizer that found fewer subwords than were asked for."""
    found = tokenizer.get_vocab_size()
    if found < size:
        fits = found - found % 8
        remedy = f"use at most vocab_size: {fits}, or give more text" if fits >= LEAST else "give more text"
        raise ValueError(
            f"option vocab_size is {size}, and the training text has only {found:,} subwords that occur twice; {remedy}"
        )


def read_kind(text: str, where: str) -> tuple[Kind, int]:
    """The kind of a saved tokenizer's subwords, and how many there are; refuses one with other special tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(text)
    kinds: dict[str, Kind] = {"WordPiece": "wordpiece", "BPE": "bpe"}
    kind = kinds.get(type(tokenizer.model).__name__)
    if kind is None or [tokenizer.token_to_id(token) for token in SPECIAL] != list(range(len(SPECIAL))):
        raise ValueError(
            f"option tokenizer is {where}, whose tokens do not begin with {', '.join(SPECIAL)}: name a masked language "
            "model that splitstep trained"
        )
    return kind, tokenizer.get_vocab_size()


def learn_bpe(
    texts: Iterable[str], size: int, special: Sequence[str] = SENTENCE_TOKENS, prefix: bool = True,
    min_frequency: int = 2, decoder: bool = True,
) -> Any:  # fmt: skip
    """A byte-level BPE of at most `size` tokens: every text can be written with it. Special tokens have the first
    numbers; `prefix`: a blank is put before a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if decoder:
        tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=min_frequency, show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def learn_wordpiece(texts: Iterable[str], size: int) -> Any:
    """BERT's lower-cased WordPiece of at most `size` tokens, for sentences: all letters are kept."""
    from tokenizers import normalizers

    lines, normalizer = list(texts), normalizers.BertNormalizer(lowercase=True)
    characters = {character for line in lines for character in normalizer.normalize_str(line)}
    inside = [character for character in sorted(characters) if not character.isspace()]
    return train_wordpiece(lines, size, SENTENCE_TOKENS, inside)


def train_wordpiece(
    texts: Iterable[str], size: int, special: Sequence[str], inside: Sequence[str], letters: list[str] | None = None
) -> Any:
    """A WordPiece with these letters inside of words.

    The trainer numbers letters inside of words in the order in which it meets them in a hash table, which differs from
    run to run, and breaks ties by these numbers. So all letters are numbered here, by passing them as special tokens.
    """
    from tokenizers import trainers

    learner = wordpiece({}, special)
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*special, *(INSIDE + letter for letter in inside)], min_frequency=2,
        initial_alphabet=letters or [], limit_alphabet=len(letters) if letters else CODES,
        continuing_subword_prefix=INSIDE, show_progress=False,
    )  # fmt: skip
    learner.train_from_iterator(texts, trainer)
    return wordpiece(learner.get_vocab(), special)


def wordpiece(vocabulary: dict[str, int], special: Sequence[str]) -> Any:
    """The lower-cased WordPiece of this vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL[UNK], continuing_subword_prefix=INSIDE))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE)
    if vocabulary:
        tokenizer.add_special_tokens(list(special))
    return tokenizer


LEARN: dict[str, Callable[[Iterable[str], int], Any]] = {"bpe": learn_bpe, "wordpiece": learn_wordpiece}
"""What learns the subwords of sentences."""


def alphabet(texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The `most` frequent characters but blanks, and those of them that also stand inside of words; both sorted."""
    counts = np.zeros(CODES, np.int64)
    known, word, inside = (np.zeros(CODES, bool) for _ in range(3))
    for text in texts:
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        n = np.bincount(codes, minlength=CODES)
        for code in np.flatnonzero((n > 0) & ~known):
            # BERT takes for a part of a word what is neither a blank nor punctuation.
            one, known[code] = chr(code), True
            letter = not one.isspace() and not unicodedata.category(one).startswith("P")
            word[code] = one.isalnum() if one.isascii() else letter
        counts += n
        inside[codes[1:][word[codes[1:]] & word[codes[:-1]]]] = True
    found = [int(code) for code in np.flatnonzero(counts) if not chr(code).isspace()]
    kept = sorted(sorted(found, key=lambda code: (-counts[code], code))[:most])
    return [chr(code) for code in kept], [chr(code) for code in kept if inside[code]]


def joined(texts: Iterable[str]) -> Iterator[str]:
    """The texts, as many as make a block in each, line by line."""
    block, size = [], 0
    for text in texts:
        block.append(text)
        size += len(text) + 1
        if size >= BLOCK:
            yield "\n".join(block)
            block, size = [], 0
    yield "\n".join(block)


def continues(tokenizer: Any) -> np.ndarray:
    """For each subword, whether it goes on with the word before it [V]. Words of a BPE end at blanks."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    pieces = INSIDE in (getattr(tokenizer.model, "continuing_subword_prefix", None) or "")
    blanks = ("\u0120", "\u010a")  # how ByteLevel writes a space and the end of a line
    found = np.zeros(len(vocabulary), bool)
    for word, number in vocabulary.items():
        found[number] = word.startswith(INSIDE) if pieces else not word.startswith(blanks)
    found[: len(SPECIAL)] = False
    return found

"""The tokens that two vocabularies share: those that stand for the same bytes inside of a text."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..text.pieces import BLANK_BEFORE, ONE_BYTE, Affixes, Pieces, Reader, backend, pieces_of, plain, tokenizer_name
from ..text.token_bytes import encode, placed, utf8

PROBE = "a é €"  # the euro sign has bytes that every kind of tokenizer spells differently


class SharedTokens(NamedTuple):
    """Pairs of ids that stand for the same bytes, each id in one pair at most, and their share of the teacher's."""

    ids: Tensor  # [P, 2], the teacher's and the student's; the teacher's rise
    teacher_share: float


def shared_vocabulary(teacher: Any, student: Any) -> SharedTokens:
    """The pairs (teacher, student) of ids whose tokens are the same bytes. If there is none, an error says so.

    Special tokens stand for no bytes. Pieces are read as they stand inside of a text: `▁world` and `Ġworld` have their
    blank. A tokenizer that drops blanks says where a word begins or goes on (`##s`); a piece that begins a word then
    gets a blank, unless it begins with punctuation or in a script without blanks between words.
    """
    known, others = vocabulary_bytes(teacher), vocabulary_bytes(student)
    pairs = sorted((number, others[spelt]) for spelt, number in known.items() if spelt in others)
    if not pairs:
        raise ValueError(
            f"{tokenizer_name(teacher)} and {tokenizer_name(student)} share no token, so there is no shared vocabulary "
            "to compare: leave the term sra.vocabulary out"
        )
    return SharedTokens(torch.tensor(pairs, dtype=torch.long), len(pairs) / len(known))


def vocabulary_bytes(tokenizer: Any) -> dict[bytes, int]:
    """The id of the token for each string of bytes. If several tokens spell the same, it is one that is not spelt as a
    byte (`<0x41>`), and the first of those."""
    pieces, left_out = pieces_of(tokenizer), special_tokens(tokenizer)
    read = inside_text(tokenizer, pieces)
    known = ((ONE_BYTE.fullmatch(piece) is not None, number, piece) for piece, number in tokenizer.get_vocab().items())
    found: dict[bytes, int] = {}
    for _, number, piece in sorted(known, key=lambda row: row[:2]):
        if piece not in left_out and (spelt := plain(piece) if piece in pieces.added else read(piece)):
            found.setdefault(spelt, number)
    return found


def special_tokens(tokenizer: Any) -> set[str]:
    """Tokens that stand for no text: those marked as special, and the one for what is unknown."""
    fast = backend(tokenizer)
    if fast is None:
        return set(tokenizer.all_special_tokens)
    special = {token.content for token in fast.get_added_tokens_decoder().values() if token.special}
    unknown: Any = getattr(fast.model, "unk_token", None)  # models for which nothing is unknown lack it
    return special | {unknown}


def inside_text(tokenizer: Any, pieces: Pieces) -> Reader:
    """How to read a piece with the blank that it has inside of a text."""
    if backend(tokenizer) is None:
        return spelling_of_slow(tokenizer, pieces)
    reader = pieces.readers[0]
    if not isinstance(reader, Affixes) or reader.suffix:
        return reader
    characters = encode(tokenizer, "a b", False).characters
    assert characters is not None
    if any(begin <= 1 < end for begin, end in characters):
        return reader  # a token comes from the blank between two words

    def with_blank(piece: str) -> bytes:
        inner = bool(reader.prefix) and piece.startswith(reader.prefix) and piece != reader.prefix
        return reader(piece) if inner or not BLANK_BEFORE.match(piece) else b" " + reader(piece)

    return with_blank


def spelling_of_slow(tokenizer: Any, pieces: Pieces) -> Reader:
    """The spelling under which the tokens of a slow tokenizer give back a text."""
    encoded, raw = encode(tokenizer, PROBE, False), utf8(PROBE)
    for reader in pieces.readers:
        try:
            placed(PROBE, raw, encoded, pieces._replace(readers=(reader,)))
        except ValueError:
            continue
        return reader
    raise ValueError(
        f"{pieces.name}: how its tokens spell bytes is unknown; use one with a tokenizer.json (a fast tokenizer)"
    )

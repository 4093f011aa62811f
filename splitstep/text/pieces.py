"""The bytes that tokens stand for, read from how their tokenizer spells them: `Ġworld`, `▁world`, `<0xE2>`, `##s`."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import regex
from tokenizers import Tokenizer, pre_tokenizers

from .tokenizers import ALPHABET

METASPACE = "▁"
ONE_BYTE = regex.compile(r"<0x([0-9A-Fa-f]{2})>")
# A word begins with a blank in most scripts; in these, words follow each other without one.
BLANK_BEFORE = regex.compile(
    r"(?V1)[\w--\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{M}]", regex.VERSION1
)

Reader = Callable[[str], bytes]
assert ALPHABET.keys() == set(pre_tokenizers.ByteLevel.alphabet())


def byte_level(piece: str) -> bytes:
    """The bytes of a piece in the byte-level alphabet: `ĠÃ©` is 20 C3 A9. Other pieces are read as they are."""
    numbers = [ALPHABET.get(character) for character in piece]
    return plain(piece) if None in numbers else bytes(number for number in numbers if number is not None)


def byte_pieces(piece: str) -> bytes:
    """The bytes of a piece that spells single bytes `<0xE2>`, and blanks as blanks."""
    found = ONE_BYTE.fullmatch(piece)
    return bytes.fromhex(found[1]) if found else plain(piece)


def sentence_piece(piece: str) -> bytes:
    """The bytes of a piece that marks blanks by `▁` and spells single bytes `<0xE2>`."""
    return byte_pieces(piece.replace(METASPACE, " "))


def one_byte_characters(piece: str) -> bytes:
    """The byte of a piece that is the character with the byte's number, as ByT5 has it."""
    return piece.encode("latin-1") if len(piece) == 1 and ord(piece) < 256 else plain(piece)


def plain(piece: str) -> bytes:
    return piece.encode("utf-8", "surrogatepass")


class Affixes(NamedTuple):
    """What a plain tokenizer puts around its pieces: before those inside of a word, after those that end one."""

    prefix: str
    suffix: str

    def __call__(self, piece: str) -> bytes:
        bare = piece.removeprefix(self.prefix)
        return plain(bare.removesuffix(self.suffix) if bare != self.suffix else bare)


class Pieces(NamedTuple):
    """How a tokenizer spells bytes."""

    name: str
    readers: tuple[Reader, ...]  # several if it is not known which: the first one that fits
    added: frozenset[str]  # tokens that are read as they are, such as <|endoftext|>

    def read(self, reader: Reader, piece: str) -> bytes:
        return plain(piece) if piece in self.added else reader(piece)


def tokenizer_name(tokenizer: Any) -> str:
    """What an error calls a tokenizer: its class, and where it came from, if it says so."""
    kind = type(tokenizer).__name__
    place = "" if isinstance(tokenizer, Tokenizer) else tokenizer.name_or_path
    return f"{kind} of {place}" if place else kind


def backend(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer of the `tokenizers` package inside; slow ones, written in Python, have none."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    return tokenizer.backend_tokenizer if tokenizer.is_fast else None


def pieces_of(tokenizer: Any) -> Pieces:
    """How a tokenizer spells bytes. A fast one says so itself; of a slow one, all spellings are tried on each text."""
    fast = backend(tokenizer)
    if fast is None:
        added = {str(token) for token in tokenizer.added_tokens_decoder.values()}
        readers = (byte_level, one_byte_characters, sentence_piece, Affixes("##", ""))
        return Pieces(tokenizer_name(tokenizer), readers, frozenset(added))
    added = {token.content for token in fast.get_added_tokens_decoder().values()}
    return Pieces(tokenizer_name(tokenizer), (fast_reader(fast),), frozenset(added))


def fast_reader(tokenizer: Tokenizer) -> Reader:
    """How the pieces of a fast tokenizer spell bytes, by the parts that it is made of."""
    parts = list(components(tokenizer))
    if any(part["type"] == "ByteLevel" for part in parts):
        return byte_level
    if any(METASPACE in json.dumps(part, ensure_ascii=False) for part in parts):
        return sentence_piece
    if any(part["type"] == "ByteFallback" for part in parts):
        return byte_pieces
    model: Any = tokenizer.model  # models that have no affixes lack the attributes, or have None
    found = (getattr(model, name, None) or "" for name in ("continuing_subword_prefix", "end_of_word_suffix"))
    return Affixes(*found)


def components(tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Normalisers, pre-tokenizers and decoders as written in tokenizer.json, those in sequences, too."""
    given: tuple[Any, ...] = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder)
    waiting = []
    for part in given:
        try:
            waiting += [] if part is None else [json.loads(part.__getstate__())]
        except Exception:  # of the exact kind that the package raises
            raise ValueError(
                f"a {type(part).__name__} of the tokenizer is written in Python, so how it spells bytes is unknown: "
                "use a tokenizer that can be saved as tokenizer.json"
            ) from None
    while waiting:
        part = waiting.pop()
        yield part
        for name in ("normalizers", "pretokenizers", "decoders"):
            waiting.extend(part.get(name, ()))

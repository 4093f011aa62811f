"""Which bytes of a text each of its tokens covers.

The ranges of a text's tokens follow each other without gaps or overlaps, so that a token's end says all. The rules:

1. A token covers the bytes that it spells (`Ġworld` has its blank, `<0xE2>` one byte of a character), if all of them
   together spell the text; a blank that the tokenizer adds before the text covers nothing.
2. Otherwise the tokenizer has changed the text (lower case, NFKC, dropped blanks). Then a token covers the characters
   that the tokenizer says it came from. Tokens that share characters divide them by rule 1 if they spell them;
   if they do not (`ﬁ` became `f`, `i`), the last of them covers all, and the others nothing.
3. Bytes that no token came from belong to the token after them, such as the blank before a word of WordPiece, except
   for marks and joiners, which belong to the character before them. At the end of the text, the last token has them.
4. Special tokens that the tokenizer adds around the text cover nothing. Those in the text itself cover their bytes.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .pieces import Pieces, Reader, pieces_of, tokenizer_name

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SPACES = [chr(number) for number in range(0x3001) if chr(number).isspace()]
BLANK_BYTES = regex.compile(b"(?:%b)*" % b"|".join(map(regex.escape, [space.encode() for space in SPACES])))
JOINED = regex.compile(r"[\p{M}\u200d]")  # what belongs to the character before it


class TokenBytes(NamedTuple):
    """The tokens of a text, and where each ends in its bytes. It begins where the one before it ends."""

    ids: Ints
    ends: Ints
    special: Bools  # added around the text; they cover nothing

    @property
    def begins(self) -> Ints:
        return np.concatenate([np.zeros(1, np.int64), self.ends])[: len(self.ends)]

    @property
    def content(self) -> tuple[int, int]:
        """The range of tokens that are not special."""
        found = np.flatnonzero(~self.special)
        return (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)


class Encoded(NamedTuple):
    """What a tokenizer made of a text; slow tokenizers do not say which characters a token came from."""

    ids: list[int]
    tokens: list[str]
    special: list[int]
    characters: list[tuple[int, int]] | None


def token_bytes(tokenizer: Any, text: str) -> TokenBytes:
    """The tokens of a text with the bytes that each covers.

    The tokenizer is one of Hugging Face, fast or slow, or of the `tokenizers` package. A token that cannot be placed is
    an error.
    """
    raw = utf8(text)
    encoded = encode(tokenizer, text, True)
    special = np.array(encoded.special, bool)
    inside = np.flatnonzero(~special)
    if len(inside) and special[inside[0] : inside[-1]].any():
        raise ValueError(f"{tokenizer_name(tokenizer)} puts a special token inside a text: align each part separately")
    ends = np.zeros(len(special), np.int64)
    cut = slice(inside[0], inside[-1] + 1) if len(inside) else slice(0)
    ids, tokens, marks, characters = encoded
    content = Encoded(ids[cut], tokens[cut], marks[cut], characters and characters[cut])
    ends[inside] = placed(text, raw, content, pieces_of(tokenizer))
    if len(inside):
        ends[inside[-1] + 1 :] = len(raw)
    return TokenBytes(np.array(encoded.ids, np.int64), ends, special)


def utf8(text: str) -> bytes:
    """The bytes of a text; half a character, as broken decoders leave behind, has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the text is half a surrogate pair, which has no UTF-8 bytes: clean the text "
            "with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        ) from None


def encode(tokenizer: Any, text: str, special: bool) -> Encoded:
    """A text's tokens, whole; `special`: with special ones around them."""
    if isinstance(tokenizer, Tokenizer):
        encoding = tokenizer.encode(text, add_special_tokens=special)
        if encoding.overflowing:
            raise ValueError("the tokenizer cuts texts short, so some bytes have no token: call its no_truncation()")
    else:
        given = {"truncation": False, "padding": False, "return_special_tokens_mask": True, "verbose": False}
        made = tokenizer(text, add_special_tokens=special, **given)
        if not tokenizer.is_fast:
            ids = made["input_ids"]
            return Encoded(ids, tokenizer.convert_ids_to_tokens(ids), made["special_tokens_mask"], None)
        encoding = made.encodings[0]
    return Encoded(encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets)


def placed(text: str, raw: bytes, encoded: Encoded, pieces: Pieces) -> Ints:
    """Where each token ends in the bytes of the text."""
    if not encoded.ids and raw:
        raise ValueError(f"{pieces.name} makes no token of the text {shown(text)}: leave the text out")
    spelt: list[bytes] = []
    for reader in pieces.readers:
        spelt = read_all(encoded.tokens, pieces, reader)
        if (added := blanks_added(b"".join(spelt), raw)) is not None:
            lengths = np.fromiter(map(len, spelt), np.int64, len(spelt))
            return np.maximum(np.cumsum(lengths) - added, 0)
    if encoded.characters is None:
        return found_in_order(text, raw, encoded, pieces)
    return Characters(text, pieces.name).placed(np.array(encoded.characters, np.int64), spelt)


def read_all(tokens: list[str], pieces: Pieces, reader: Reader) -> list[bytes]:
    """The bytes that each token spells; each piece is read once."""
    table = {piece: pieces.read(reader, piece) for piece in set(tokens)}
    return [table[piece] for piece in tokens]


def blanks_added(spelt: bytes, raw: bytes) -> int | None:
    """How many blanks stand before the text in what tokens spell; None if they do not spell the text."""
    added = len(spelt) - len(raw)
    return added if added >= 0 and spelt[:added].count(b" ") == added and spelt[added:] == raw else None


def found_in_order(text: str, raw: bytes, encoded: Encoded, pieces: Pieces) -> Ints:
    """Where the tokens of a slow tokenizer end, found one after the other under the spelling that gets furthest."""
    tried = [followed(read_all(encoded.tokens, pieces, reader), raw) for reader in pieces.readers]
    ends = max(tried, key=len)
    if len(ends) < len(encoded.tokens):
        raise ValueError(
            f"{pieces.name}: token {len(ends)}, {encoded.tokens[len(ends)]!r}, cannot be placed in the text "
            f"{shown(text)}: the tokens do not spell it, and this tokenizer does not say which characters they came "
            "from; use one with a tokenizer.json (a fast tokenizer)"
        )
    return np.array(ends, np.int64)


def followed(spelt: list[bytes], raw: bytes) -> list[int]:
    """The ends of what tokens spell in a text that has more blanks, up to the first token that is not found."""
    ends, position = list[int](), 0
    for piece in spelt:
        blanks = BLANK_BYTES.match(raw, position)
        assert blanks is not None  # no blank is enough
        begin = position if raw.startswith(piece, position) else blanks.end()
        piece = piece if raw.startswith(piece, begin) else piece.lstrip(b" ")
        if not raw.startswith(piece, begin):
            return ends
        position = begin + len(piece) if piece else position
        ends.append(position)
    return [*ends[:-1], len(raw)] if BLANK_BYTES.fullmatch(raw, position) else ends[:-1]


def shown(text: str) -> str:
    """The beginning of a text, for an error."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def byte_starts(points: NDArray[np.uint32]) -> Ints:
    """Where each character begins in the bytes of a text, and where the text ends."""
    sizes = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


class Characters:
    """The characters of a text: where each begins in its bytes, and which belong to the one before them."""

    def __init__(self, text: str, tokenizer: str) -> None:
        self.text, self.tokenizer = text, tokenizer
        points = code_points(text)
        self.starts = byte_starts(points)
        known, where = np.unique(points, return_inverse=True)
        joined = np.array([JOINED.match(chr(point)) is not None for point in known], bool)
        self.free = np.append(np.flatnonzero(~joined[where]), len(points))

    def placed(self, ranges: Ints, spelt: list[bytes]) -> Ints:
        """The ends in bytes of tokens that came from these ranges of characters, and spell these bytes."""
        wide = np.flatnonzero(ranges[:, 0] < ranges[:, 1])
        if not len(wide) and len(self.text):
            raise ValueError(
                f"{self.tokenizer} makes no token of the text {shown(self.text)} that covers any of its characters: "
                "leave the text out"
            )
        if not len(wide):
            return np.zeros(len(ranges), np.int64)
        begins, ends = ranges[wide, 0], ranges[wide, 1]
        self.check_order(begins, wide, spelt)
        first, last = clusters(begins, ends)
        ends = np.maximum.accumulate(ends)[last]
        found = np.zeros(len(ranges), np.int64)
        limits = np.append(begins[first[1:]], len(self.text))  # marks and joiners follow, up to the next token
        marked = np.minimum(self.free[np.searchsorted(self.free, ends)], np.maximum(limits, ends))
        found[wide[last]] = self.starts[marked]
        for number in np.flatnonzero(last > first):
            tokens = wide[first[number] : last[number] + 1]
            sharing = [spelt[token] for token in tokens.tolist()]
            found[tokens[:-1]] = self.divided(sharing, int(begins[first[number]]), int(ends[number]))
        found[wide[-1]] = self.starts[-1]
        return np.maximum.accumulate(found)

    def check_order(self, begins: Ints, tokens: Ints, spelt: list[bytes]) -> None:
        wrong = np.flatnonzero(np.diff(begins) < 0)
        if len(wrong):
            number = int(tokens[wrong[0] + 1])
            raise ValueError(
                f"{self.tokenizer}: token {number}, {spelt[number].decode(errors='replace')!r}, cannot be placed in "
                f"the text {shown(self.text)}: it came from characters before those of the token before it; use a "
                "tokenizer that keeps the order of the text"
            )

    def divided(self, spelt: list[bytes], begin: int, end: int) -> list[int]:
        """The ends of tokens that share characters [begin, end), but for the last: by what they spell, if they spell
        these characters. The end 0 says that a token covers nothing."""
        added = blanks_added(b"".join(spelt), self.text[begin:end].encode())
        if added is None:
            return [0] * (len(spelt) - 1)
        low = int(self.starts[begin]) - added
        lengths = accumulate(map(len, spelt[:-1]))
        return [low + length if length > added else 0 for length in lengths]


def clusters(begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The first and last of each run of ranges that overlap."""
    opens = np.append(True, begins[1:] >= np.maximum.accumulate(ends)[:-1])
    first = np.flatnonzero(opens)
    return first, np.append(first[1:], len(begins)) - 1

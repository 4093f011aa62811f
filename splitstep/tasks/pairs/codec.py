"""Text to token ids and back: the form of the text, the joint subwords that it is split into, and how to decode."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, final

import numpy as np

from ...support.documents import read_json
from ...support.typed import read_as
from ...text import moses
from ...text.tokenizers import TOKENIZER, save_tokenizer
from ..batching import TokenRows

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
FORM = "translation.json"
BLOCK = 20_000
T = TypeVar("T")
WORD_START, WORD_END = "▁", "</w>"
Progress = Callable[[int, int], None]
"""Called with the number of lines done and the number of all lines."""
MOST_BEAMS = 1000
STEEPEST = 10  # the greatest length penalty: no float holds the 200th power of a length of forty


@dataclass(frozen=True)
class Search:
    """How to decode: beams, the power of the length that scores are divided by, and source tokens in a batch, by
    default as many as suit the device.

    A translation has at most `stretch` times as many tokens as its source, plus `extra`, whatever else is in the batch.
    """

    beams: int = 5
    length_penalty: float = 1.0
    batch_tokens: int | None = None
    stretch: float = 1.5
    extra: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= MOST_BEAMS:
            raise ValueError(f"beams is {self.beams}, and needs at least 1 and at most {MOST_BEAMS:,}")
        if not abs(self.length_penalty) <= STEEPEST:
            raise ValueError(
                f"length_penalty is {self.length_penalty}, and must be from -{STEEPEST} to {STEEPEST}, such as 1.0"
            )
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise ValueError(f"batch_tokens is {self.batch_tokens}, and needs at least 1")
        if self.stretch < 0 or self.extra < 1:
            raise ValueError(f"stretch is {self.stretch} and extra {self.extra}; they must be at least 0 and 1")


SEARCH = Search()


@dataclass(frozen=True)
class TextForm:
    """The form of the text before it is split into subwords.

    `tokens`: "plain" is untokenised; "moses" has Moses tokens made here; "given" has Moses tokens from the files.
    """

    source: str
    target: str
    tokens: Literal["plain", "moses", "given"] = "plain"
    lower: bool = False
    hyphens: bool = False  # Moses splits a-b into a @-@ b
    normal: bool = False  # punctuation is normalised before Moses tokens are made

    def prepare(self, lines: Sequence[str], language: str) -> list[str]:
        """Lines of untokenised text in this form."""
        out = [" ".join(line.split()) for line in lines]
        if self.tokens != "plain":
            out = moses.normalise(out, language) if self.normal else out
            out = moses.tokenise(out, language, self.hyphens)
        return self._cased(out)

    def prepare_files(self, lines: Sequence[str], language: str) -> list[str]:
        """Lines of the task's files in this form."""
        if self.tokens == "given":
            return self._cased([" ".join(line.split()) for line in lines])
        return self.prepare(lines, language)

    def _cased(self, lines: list[str]) -> list[str]:
        return [line.lower() for line in lines] if self.lower else lines

    def plain(self, lines: Sequence[str], language: str) -> list[str]:
        """Prepared lines as untokenised text."""
        return list(lines) if self.tokens == "plain" else moses.detokenise(lines, language)


def blocks_of(lines: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(lines)
    while block := list(islice(rest, BLOCK)):
        yield block


def empty_tokenizer(form: TextForm) -> Any:
    """An untrained tokenizer: Moses tokens end in </w>, words of plain text begin with a mark."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    if form.tokens == "plain":
        tokenizer = Tokenizer(BPE(unk_token=SPECIAL[UNKNOWN]))
        words, digits = pre_tokenizers.Metaspace(WORD_START), pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation(), digits])
        tokenizer.decoder = decoders.Metaspace()
    else:
        tokenizer = Tokenizer(BPE(unk_token=SPECIAL[UNKNOWN], end_of_word_suffix=WORD_END))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.decoder = decoders.BPEDecoder(suffix=WORD_END)
    return tokenizer


def learn(source: Sequence[str], target: Sequence[str], form: TextForm, merges: int) -> "Codec":
    """Joint byte-pair encoding: at most `merges` merges learned from both sides of prepared training text.

    The same text gives the same subwords. The trainer numbers symbols such as `e</w>` in a random order, and breaks
    ties between merges by it; single characters it sorts. So each end of a word is trained as a character of its own.
    """
    from tokenizers.trainers import BpeTrainer

    tokenizer = empty_tokenizer(form)
    characters, ends = alphabet(chain(source, target))
    unused = (mark for mark in map(chr, range(0xF0000, 0x10FFFE)) if mark not in characters)  # of private use
    marks = {} if form.tokens == "plain" else dict(zip(sorted(ends), unused, strict=False))
    first = characters | ({WORD_START} if form.tokens == "plain" else set())
    trainer = BpeTrainer(
        vocab_size=len(SPECIAL) + len(first) + len(marks) + merges,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(first),  # a character that only ends words here may be inside one in other text
        min_frequency=2,
        show_progress=False,
    )
    both = chain(blocks_of(source), blocks_of(target))
    tokenizer.train_from_iterator(with_marked_ends(both, marks) if marks else both, trainer)
    if marks:
        tokenizer.model = unmarked(tokenizer, {mark: f"{end}{WORD_END}" for end, mark in marks.items()})
    return Codec(form, tokenizer)


def alphabet(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    """All characters, and those that end a word."""
    characters: set[str] = set()
    ends: set[str] = set()
    for block in blocks_of(lines):
        for word in set(chain.from_iterable(line.split() for line in block)):
            characters.update(word)
            ends.add(word[-1])
    return characters, ends


def with_marked_ends(blocks: Iterable[list[str]], marks: Mapping[str, str]) -> Iterator[list[str]]:
    """Lines with the last character of each word replaced by its mark."""
    known: dict[str, str] = {}
    for block in blocks:
        words = [line.split() for line in block]
        known |= {
            word: word[:-1] + marks[word[-1]] for word in {word for line in words for word in line} - known.keys()
        }
        yield [" ".join(map(known.__getitem__, line)) for line in words]


def unmarked(tokenizer: Any, ends: Mapping[str, str]) -> Any:
    """The tokenizer's model with ends of words instead of their marks."""
    from tokenizers.models import BPE

    found = json.loads(tokenizer.to_str())["model"]
    table = str.maketrans(dict(ends))
    vocabulary = {token.translate(table): number for token, number in found["vocab"].items()}
    merges = [(one.translate(table), two.translate(table)) for one, two in found["merges"]]
    return BPE(vocabulary, merges, unk_token=SPECIAL[UNKNOWN], end_of_word_suffix=WORD_END)


@final
class Codec:
    """TextForm and subwords of one translation task, saved with its model."""

    def __init__(self, form: TextForm, tokenizer: Any) -> None:
        from tokenizers.processors import TemplateProcessing

        self.form, self.tokenizer = form, tokenizer
        tokenizer.encode_special_tokens = True  # "</s>" in a user's text is text
        end = SPECIAL[END]  # for AutoTokenizer; `encode` appends the end itself, which is faster
        tokenizer.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, END)])

    @property
    def size(self) -> int:
        """The size of the vocabulary."""
        return self.tokenizer.get_vocab_size()

    def encode(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """The ids of prepared lines, each with an end."""
        table: dict[str, list[int]] = {}  # subwords never cross a blank: encoding each word once is five times faster
        for block in blocks_of(lines):
            words = [line.split() for line in block]
            new = sorted({word for line in words for word in line} - table.keys())
            encodings = self.tokenizer.encode_batch_fast(new, add_special_tokens=False)
            table |= zip(new, (encoding.ids for encoding in encodings), strict=True)
            yield from ([*chain.from_iterable(map(table.__getitem__, line)), END] for line in words)

    def encode_flat(self, lines: Iterable[str]) -> TokenRows:
        """The ids of all lines one after another."""
        kind = np.uint16 if self.size <= 1 << 16 else np.int32
        parts, lengths = [np.zeros(0, kind)], []
        for block in blocks_of(self.encode(lines)):
            lengths += map(len, block)
            parts.append(np.fromiter(chain.from_iterable(block), kind))
        return TokenRows(np.concatenate(parts), np.cumsum([0, *lengths], dtype=np.int64))

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Prepared lines from ids: up to the first end, without padding and start; an unknown token stays visible."""
        whole = (takewhile(lambda token: token != END, line) for line in ids)
        inner = [[token for token in line if token not in (PAD, START)] for line in whole]
        return self.tokenizer.decode_batch(inner, skip_special_tokens=False)

    def save(self, folder: Path) -> None:
        """Write the files that `load` and AutoTokenizer read."""
        names = zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL, strict=True)
        save_tokenizer(folder, self.tokenizer, dict(names))
        (folder / FORM).write_text(json.dumps(dataclasses.asdict(self.form)), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Codec":
        """The codec saved in a folder."""
        from tokenizers import Tokenizer

        for name in (TOKENIZER, FORM):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} holds no {name}; a translation model is saved with its tokenizer")
        try:
            form = read_as(TextForm, read_json(folder / FORM), FORM)
            return cls(form, Tokenizer.from_file(str(folder / TOKENIZER)))
        except Exception as error:  # tokenizers raises bare Exception
            raise ValueError(f"{folder / TOKENIZER} or {FORM} is damaged: {error}") from None


def check_fit(codec: Codec, vocab_size: int) -> None:
    """Refuse a tokenizer that does not fit a model."""
    if codec.size != vocab_size:
        raise ValueError(
            f"the tokenizer has {codec.size:,} tokens and the model {vocab_size:,}; use the {TOKENIZER} that was saved "
            "with the model"
        )

"""What the tokens of a language model stand for: bytes, words or subwords."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .tokenizers import BYTE_PADDING, WORD_PADDING, byte_tokenizer, padded_on_the_left, word_tokenizer

Entries = dict[str, str | bool]
END = "<|endoftext|>"  # the token of subwords that stands after a text; it is the padding, too


class Vocabulary(ABC):
    """Text as tokens and back, and the tokenizer that does the same for other programs.

    `byte_counts` [V] says how many bytes each token stands for, where a text's bytes depend on its tokens.
    """

    byte_counts: np.ndarray | None = None

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def tokenizer(self) -> tuple[Any, Entries]:
        """The tokenizer that is saved with a model, and the entries of its config."""


@final
class Bytes(Vocabulary):
    """The bytes of UTF-8 text."""

    @property
    def size(self) -> int:
        return 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode(errors="replace")

    def tokenizer(self) -> tuple[Any, Entries]:
        return byte_tokenizer(), padded_on_the_left(BYTE_PADDING)


@final
class Words(Vocabulary):
    """Words between blanks; one that is not in the vocabulary is <unk>."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.numbers = tuple(words), {word: number for number, word in enumerate(words)}

    @property
    def size(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        return [self.numbers.get(word, self.numbers["<unk>"]) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.words[number] for number in ids).replace("<eos>", "\n")

    def tokenizer(self) -> tuple[Any, Entries]:
        return word_tokenizer(self.words), padded_on_the_left(WORD_PADDING)


@final
class Subwords(Vocabulary):
    """The subwords of a byte-level BPE, and the token END, which has no bytes."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # END that is written in a text is text
        tokens = [tokenizer.id_to_token(number) for number in range(self.size)]
        # ByteLevel writes each byte as one character
        self.byte_counts = np.array([0 if token == END else len(token) for token in tokens])

    @property
    def size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def tokenizer(self) -> tuple[Any, Entries]:
        return self._tokenizer, {**padded_on_the_left(END), "eos_token": END}

"""Tokenizers that are saved with a model, for programs that never import this package, and what the tokens of a
language model stand for: bytes, words or subwords."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ..support.documents import AGAIN, read_json, readable

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
# The padding of a language model is a token that it has anyway, and that no text needs: byte 0xFF is in no UTF-8 text
# (ByteLevel writes it as this character), and an unknown word says nothing.
BYTE_PADDING, WORD_PADDING = "\u00ff", "<unk>"
END = "<|endoftext|>"  # the token of subwords that stands after a text; it is the padding, too
BLANKS = r"[\s\x1c-\x1f]+"  # what `str.split` splits at


def byte_alphabet() -> dict[str, int]:
    """The byte behind each character of byte-level tokenizers: printable ones are themselves, the others 256 and on."""
    printed = {*range(0x21, 0x7F), *range(0xA1, 0x100)} - {0xAD}
    others = iter(range(256, 512))
    return {chr(byte if byte in printed else next(others)): byte for byte in range(256)}


ALPHABET = byte_alphabet()


def save_tokenizer(folder: Path, tokenizer: Any, entries: Mapping[str, str | int | bool | list[str]]) -> None:
    """Write what AutoTokenizer reads; `entries` go into its config, such as `pad_token` and `model_max_length`."""
    write_tokenizer(folder, tokenizer)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **entries, "clean_up_tokenization_spaces": False}
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def write_tokenizer(folder: Path, tokenizer: Any) -> None:
    """Write tokenizer.json. The tokenizer's own `save` has the same bytes, but a full disk is not an OSError there."""
    (folder / TOKENIZER).write_text(tokenizer.to_str(pretty=False), encoding="utf-8")


def byte_tokenizer() -> Any:
    """A tokenizer whose ids are the bytes of the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(ALPHABET, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def word_tokenizer(words: Sequence[str]) -> Any:
    """A tokenizer of words between blanks, whose ids are indices into `words`; other words are <unk>, if that is one of
    them, else an error."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(BLANKS), "removed")
    # The prefix marks words that continue the last one; no word begins with a blank, so all get one before them.
    joined = decoders.WordPiece(prefix=" ", cleanup=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("<eos>", "\n"), joined])
    return tokenizer


class SavedTokenizer(NamedTuple):
    """The tokenizer of a model's folder, and what the model's config says of its inputs."""

    text: str  # tokenizer.json
    entries: dict[str, Any]  # of config.json


def saved_tokenizer(path: str) -> SavedTokenizer:
    """The tokenizer of a run or of a model's folder."""
    from tokenizers import Tokenizer

    for folder in (Path(path) / "model", Path(path)):
        if (folder / TOKENIZER).is_file():
            config = folder / "config.json"
            with readable(folder / TOKENIZER, AGAIN):
                entries = read_json(config) if config.is_file() else {}
                text = (folder / TOKENIZER).read_text(encoding="utf-8")
                Tokenizer.from_str(text)
            return SavedTokenizer(text, entries)
    raise ValueError(f"{path} holds no {TOKENIZER}: name a finished run or a model's folder that was saved with one")


def same_vocabulary(saved: str, tokenizer: Any) -> bool:
    """Whether a saved tokenizer has the tokens of this one, with the same numbers."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(saved).get_vocab() == tokenizer.get_vocab()


def sentence_ids(tokenizer: Any, where: str) -> dict[str, int]:
    """The numbers of [PAD], [CLS] and [SEP]; a tokenizer without them is refused."""
    found = {name: tokenizer.token_to_id(name) for name in ("[PAD]", "[CLS]", "[SEP]")}
    if missing := [name for name, number in found.items() if number is None]:
        raise ValueError(
            f"{where} has a tokenizer without {' and '.join(missing)}, which mark where sentences begin and end: use "
            "one of a masked language model, or leave it out to learn one from the training text"
        )
    return found


def sentence_template(ids: Mapping[str, int]) -> Any:
    """[CLS] a [SEP], and [CLS] a [SEP] b [SEP] with types 0 and 1."""
    from tokenizers.processors import TemplateProcessing

    special = [(name, ids[name]) for name in ("[CLS]", "[SEP]")]
    return TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special)


def mark_sentences(tokenizer: Any, ids: Mapping[str, int], most: int) -> None:
    """Let a tokenizer write the marks of sentences, and cut the longer text until all fits."""
    tokenizer.post_processor = sentence_template(ids)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most, strategy="longest_first")


@final
class Vocabulary:
    """Text as tokens and back, by the tokenizer that is saved with a model, and the entries of its config.

    Batches are padded before the text, since words are added after it; the same characters in a text are text.
    `byte_counts` [V] says how many bytes each token stands for, where a text's bytes depend on its tokens.
    """

    def __init__(self, tokenizer: Any, padding: str, byte_counts: np.ndarray | None = None) -> None:
        self.tokenizer, self.byte_counts = tokenizer, byte_counts
        self.entries: dict[str, str | bool] = {
            "pad_token": padding, "padding_side": "left", "split_special_tokens": True,
            **({"eos_token": END} if padding == END else {}),
        }  # fmt: skip

    @property
    def size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)


def subwords(tokenizer: Any) -> Vocabulary:
    """The subwords of a byte-level BPE, and the token END, which has no bytes."""
    tokenizer.encode_special_tokens = True  # END that is written in a text is text
    tokens = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    # ByteLevel writes each byte as one character
    return Vocabulary(tokenizer, END, np.array([0 if token == END else len(token) for token in tokens]))

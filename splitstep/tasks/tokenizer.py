"""Tokenizers that are saved with a model, for programs that never import this package."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
# The padding of a language model is a token that it has anyway, and that no text needs: byte 0xFF is in no UTF-8 text
# (ByteLevel writes it as this character), and an unknown word says nothing.
BYTE_PADDING, WORD_PADDING = "\u00ff", "<unk>"
BLANKS = r"[\s\x1c-\x1f]+"  # what `str.split` splits at


def save_tokenizer(folder: Path, tokenizer: Any, entries: Mapping[str, str | int | bool]) -> None:
    """Write what AutoTokenizer reads; `entries` go into its config, such as `pad_token` and `model_max_length`."""
    tokenizer.save(str(folder / TOKENIZER), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **entries, "clean_up_tokenization_spaces": False}
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def padded_on_the_left(padding: str) -> dict[str, str | bool]:
    """Entries for a language model's tokenizer: batches are padded before the text, since words are added after it.
    The same characters in a text are text."""
    return {"pad_token": padding, "padding_side": "left", "split_special_tokens": True}


def byte_tokenizer() -> Any:
    """A tokenizer whose ids are the bytes of the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    # ByteLevel writes each byte as one printable character: most as themselves, the others from 256 on.
    printed = {*range(0x21, 0x7F), *range(0xA1, 0x100)} - {0xAD}
    others = iter(range(256, 512))
    characters = {chr(byte if byte in printed else next(others)): byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(characters, []))
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

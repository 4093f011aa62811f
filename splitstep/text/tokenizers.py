"""Tokenizers that are saved with a model, for programs that never import this package; what the tokens of a language
model stand for; and the tokenizer of any model, wherever it is: a run, a folder, a GGUF file, a name on the Hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ..support.auto_classes import silent
from ..support.documents import AGAIN, read_json, readable
from ..support.gguf_file import gguf_source, gguf_tokenizer, is_gguf
from ..support.words import first_line

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
WANTED = ["*.json", "*.txt", "*.model", "*.jinja"]  # of a model on the Hub: what a tokenizer may consist of
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


def open_tokenizer(name: str) -> Any:
    """The tokenizer of a model by the name under which the model is opened; no code that comes with it runs."""
    from transformers import AutoTokenizer

    place = Path(name).expanduser()
    folder = None if place.is_file() else checked_folder(place if place.is_dir() else download(name), name)
    try:
        with silent():
            if folder is None:
                if not is_gguf(place):
                    raise ValueError("it is a file, and not a GGUF file")
                with gguf_source(place) as where:
                    return gguf_tokenizer(place, where)
            found = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # what is there can break its reader in any way
        raise ValueError(
            f"{name} has no tokenizer that opens ({first_line(error)}): save one beside the model"
        ) from None
    found.name_or_path = name
    return found


def checked_folder(place: Path, name: str) -> Path:
    """The folder of a model or of a run's model. Without a file of a tokenizer transformers would make up an empty
    one."""
    is_run = (place / "recipe.yaml").is_file()
    folder = place / "model" if is_run else place
    if any((folder / file).is_file() for file in TOKENIZERS):
        return folder
    if (folder / "config.json").is_file():
        raise ValueError(f"{name} has no tokenizer: save one beside the model (tokenizer.save_pretrained)")
    if is_run:
        raise ValueError(f"{name} has not finished: continue it with `splitstep train {place / 'recipe.yaml'}`")
    raise ValueError(f"{name} is not a model: it has no config.json; save_pretrained writes a whole model")


def download(name: str) -> Path:
    """The folder into which the files of the tokenizer of this name come from the Hub, unless they are there."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, ignore_patterns="*/*"))
    except Exception as error:  # names are wrong and connections fail in many ways
        raise ValueError(
            f"there is no folder or file {name}, and no model of that name comes from the Hub: check the spelling and "
            f"the connection ({type(error).__name__})"
        ) from None


def named_ends(settings: Any) -> list[int]:
    """The tokens at which a model stops, by its generation settings: one, several or none."""
    named = settings.eos_token_id
    return list(named) if isinstance(named, list) else [] if named is None else [named]

"""The tokenizer of a model, wherever the model is: a run, a folder, a GGUF file, a name on the Hub."""

from pathlib import Path
from typing import Any

from ..support.auto_classes import silent
from ..support.gguf_file import gguf_source, gguf_tokenizer, is_gguf
from ..support.words import first_line

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
WANTED = ["*.json", "*.txt", "*.model", "*.jinja"]  # of a model on the Hub: what a tokenizer may consist of


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

"""The tokenizer of a model, wherever the model is: a run, a folder, a GGUF file, a name on the Hub."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..support.words import first_line


def open_tokenizer(name: str) -> Any:
    """The tokenizer of a model by the name under which the model is opened; no code that comes with it runs."""
    from transformers import AutoTokenizer

    place = Path(name).expanduser()
    try:
        if place.suffix == ".gguf":
            return from_gguf(place)
        folder = place / "model" if (place / "recipe.yaml").is_file() else place
        return AutoTokenizer.from_pretrained(str(folder) if place.is_dir() else name)
    except Exception as error:  # what is there can break its reader in any way
        raise ValueError(
            f"{name} has no tokenizer that opens ({first_line(error)}): save one beside the model"
        ) from None


def from_gguf(file: Path) -> Any:
    """The tokenizer in a GGUF file; beside it in a folder, transformers would read other files as well."""
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        (Path(folder) / file.name).symlink_to(file.resolve())
        found = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    found.name_or_path = str(file)
    return found

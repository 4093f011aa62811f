"""Whether a folder holds a whole model that may be opened: each thing that is missing or wrong is one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from ..models.base import refuse_pickles
from ..support.documents import read_json

CONFIG, ADAPTER = "config.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
POINTER = b"version https://git-lfs"  # how the small files begin that stand for large ones after a clone without LFS
CODE = (
    "{what}, which comes with Python code of its own: read that code, and if you trust it, add --trust-remote-code, "
    "or in Python trust_remote_code=True"
)
DAMAGED = "it is damaged, so copy it again"
SAVE = "save_pretrained writes a whole model"


def check_folder(folder: Path, trust_remote_code: bool) -> None:
    """Refuse a folder that holds no model, half of one, a pickle, or code that nobody said may run."""
    document = read_config(folder)
    check_code(folder, document, trust_remote_code)
    check_weights(folder, document)


def read_config(folder: Path) -> dict[str, Any]:
    """The model's config.json."""
    if (folder / ADAPTER).is_file():
        raise ValueError(
            f"{folder} holds an adapter ({ADAPTER}): load it with peft, merge it (merge_and_unload) and save the result"
        )
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} is not a model: it has no {CONFIG}{remedy(folder)}")
    document = read_json(folder / CONFIG, hint=DAMAGED)
    if not isinstance(document.get("model_type"), str):
        raise ValueError(f"{folder / CONFIG} is not the config of a model: it has no model_type")
    return document


def remedy(folder: Path) -> str:
    """What to do about a folder without config.json, judged by what it does hold."""
    if found := sorted(folder.glob("*.gguf")):
        return f"; to open its GGUF file, name that: {found[0]}"
    if any(folder.glob("*.safetensors")):
        return "; copy the whole folder, not the weights alone"
    return f"; {SAVE}"


def check_code(folder: Path, document: dict[str, Any], trusted: bool) -> None:
    """Refuse a type of model for which there is no installed class, unless its own code may run."""
    model_type = document["model_type"]
    if model_type in CONFIG_MAPPING or (trusted and document.get("auto_map")):
        return
    if document.get("auto_map"):
        raise ValueError(CODE.format(what=f"{folder} is a {model_type} model"))
    raise ValueError(
        f"{folder} is a {model_type} model, a type that neither splitstep nor the installed transformers knows: try a "
        "newer one (pip install -U transformers)"
    )


def check_weights(folder: Path, document: dict[str, Any]) -> None:
    """Refuse weights that are pickled, missing, or only partly there."""
    refuse_pickles(folder, "")
    if (named := document.get("transformers_weights")) is not None:
        raise ValueError(f"{folder / CONFIG} names weights of its own, {named!r}: {SAVE} as {WEIGHTS}")
    if (folder / WEIGHTS).is_file():
        parts = [folder / WEIGHTS]
    elif (folder / INDEX).is_file():
        parts = listed(folder)
    else:
        raise ValueError(f"{folder} has no weights: {WEIGHTS} is missing; {SAVE}")
    for part in parts:
        check_part(part, len(parts))


def listed(folder: Path) -> list[Path]:
    """The files that the index of a model in several parts names."""
    names = read_json(folder / INDEX, hint=DAMAGED).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ValueError(f"{folder / INDEX} is damaged: it has no weight_map; copy it again")
    if outside := [name for name in names.values() if Path(name).name != name or not name.endswith(".safetensors")]:
        raise ValueError(f"{folder / INDEX} names {outside[0]!r}, which is not a safetensors file of this folder")
    return sorted({folder / name for name in names.values()})


def check_part(part: Path, count: int) -> None:
    if not part.is_file():
        whole = f"one of {count} parts, is missing" if count > 1 else "is missing"
        raise ValueError(f"{part.parent} is only half here: {part.name}, {whole}; copy or download it again")
    with part.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ValueError(f"{part} is a pointer of Git LFS, not the weights: run `git lfs pull` in {part.parent}")

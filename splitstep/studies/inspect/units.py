"""What was measured, kept unit by unit as it is found: one probe or one cut on one batch of texts.

In a folder each unit is a file that appears whole, so a command that was killed continues where it was.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final
from urllib.parse import quote, unquote

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ...probes import Figures
from ...support.documents import read_json
from ...support.files import naming, whole_file, write_atomically
from ...support.typed import json_text

UNITS, KEY, SUFFIX = "units", "key.json", ".safetensors"
NAMES = {
    "model": "of another model",
    "other": "beside another model",
    "texts": "on other texts",
    "probes": "with other --probes",
    "layers": "with other --layers",
    "version": "by another version of splitstep",
}  # of a key's entries, and what is said if they differ


class Found(NamedTuple):
    """What a unit found: figures by the number of the text, or why there are none; or what is said of a model."""

    rows: Mapping[int, Figures] = {}
    why: str = ""
    about: Mapping[str, Any] = {}


@final
class Store(dict[str, Found]):
    """Units by name, such as "model/drift/0", in memory and, if there is a folder, on disk."""

    folder: Path | None = None

    def open(self, folder: Path, key: Mapping[str, Any]) -> None:
        """Take the units that are in a folder, and keep all in it from now on."""
        claim(folder / UNITS, key)
        here, self.folder = dict(self), folder / UNITS
        for file in self.folder.rglob(f"*{SUFFIX}"):
            if (one := read_unit(file)) is not None:
                self[unquote(str(file.relative_to(self.folder)).removesuffix(SUFFIX))] = one
        for name, one in here.items():
            self.keep(name, one)

    def keep(self, name: str, one: Found) -> None:
        self[name] = one
        if self.folder is not None:
            file = self.folder / f"{quote(name, safe='/ ')}{SUFFIX}"
            file.parent.mkdir(parents=True, exist_ok=True)
            with naming(file), whole_file(file) as opened:
                opened.write(bytes_of(one))

    def of(self, start: str) -> dict[str, Found]:
        """The units whose names begin so, by the rest of their names, in an order of their own."""
        names = sorted((name for name in self if name.startswith(start)), key=lambda one: (len(one), one))
        return {name[len(start) :]: self[name] for name in names}


def claim(folder: Path, key: Mapping[str, Any]) -> None:
    """Make the folder of units of this key; refuse one of another key."""
    if not (folder / KEY).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / KEY, json_text(key))
        return
    stored = read_json(folder / KEY, hint="delete its folder and inspect again")
    if differ := [name for name in NAMES if stored.get(name) != key.get(name)]:
        raise ValueError(
            f"{folder.parent} holds what was measured {NAMES[differ[0]]}: name a new directory with --out, or delete it"
        )


def bytes_of(one: Found) -> bytes:
    """A unit as a file of safetensors: its tensors, and the rest as text beside them."""
    tensors, rows = dict[str, Tensor](), dict[str, dict[str, Any]]()
    for text, figures in one.rows.items():
        rows[str(text)] = {key: value for key, value in figures.items() if not isinstance(value, Tensor)}
        tensors |= {f"{text} {key}": x.cpu().contiguous() for key, x in figures.items() if isinstance(x, Tensor)}
    return save(tensors, {"unit": json.dumps({"rows": rows, "why": one.why, "about": dict(one.about)})})


def read_unit(file: Path) -> Found | None:
    """A unit from its file; None if that is damaged, so that it is measured again."""
    try:
        with safe_open(file, "pt") as opened:
            document = json.loads(opened.metadata()["unit"])
            rows = {int(text): {key: tuple(row[key]) for key in row} for text, row in document["rows"].items()}
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                text, _, key = name.partition(" ")
                rows[int(text)][key] = opened.get_tensor(name)
            return Found(rows, document["why"], document["about"])
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def digest(named: Iterable[tuple[str, Any]]) -> str:
    """One short text for tensors and other values by name; any change of a weight changes it. Weights that are tied are
    read once."""
    sha, known = hashlib.sha256(), dict[Any, str]()
    for name, value in named:
        if isinstance(value, Tensor):
            place = (value.data_ptr(), value.shape, value.stride(), value.dtype) if value.numel() else name
            first = known.setdefault(place, name)
            sha.update(f"{name} {first} {list(value.shape)} {value.dtype}\n".encode())
            if first == name:
                x = value.detach().cpu().contiguous().reshape(-1)
                sha.update(memoryview(x.view(torch.uint8).numpy()))  # pyright: ignore[reportArgumentType]
        else:
            sha.update(f"{name} {value}\n".encode())
    return sha.hexdigest()[:32]

"""Multi30k: 29,000 captions of pictures in English and German, the standard small translation set."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, final

from ...text.files import data_root
from ...text.lines import Lines, read_pairs
from ..fetch import Source, locate
from ..task import DataNote
from .prepared import Part
from .translation import Direction, PlainOptions, Translation

ORIGIN = "https://github.com/multi30k/dataset/raw/master/data/task1/raw/"
FILES = {
    "train": "train",
    "valid": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "coco": "test_2017_mscoco",
}
COUNTS = {"train": 29_000, "val": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000, "test_2017_mscoco": 461}
HASHES = {
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_mscoco.de": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}
MOST = 1_000_000  # bytes of a packed file


@dataclass(frozen=True, kw_only=True)
class Multi30kOptions(PlainOptions):
    """As in the papers: lower-cased Moses tokens."""

    direction: Direction = "en-de"
    tokens: Literal["plain", "moses"] = "moses"
    lower: bool = True


@final
class Multi30k(Translation):
    """Captions, English-German in either direction; `test` is another name of `test2016`."""

    name: ClassVar[str] = "multi30k"
    Options: ClassVar[type] = Multi30kOptions
    note = DataNote("32,475 pairs, 1.4 MB", "fetched", tuple(f"multi30k/{name}.gz" for name in sorted(HASHES)), ORIGIN)
    aliases: ClassVar[Mapping[str, str]] = {"test": "test2016"}  # what `evaluate` takes by default

    def __init__(self, options: Multi30kOptions, data: Path | None = None) -> None:
        parts = {}
        for split, stem in FILES.items():
            files = tuple(caption_file(data_root(data), f"{stem}.{side}") for side in options.languages)
            parts[split] = Part(files, partial(read_captions, *files, stem))
        self._load(parts, options.form, options, {"name": "Multi30k task 1, raw", "url": ORIGIN})


def caption_file(root: Path, name: str) -> Path:
    """The file, fetched if it is missing."""
    source = Source(f"multi30k/{name}.gz", f"{ORIGIN}{name}.gz", HASHES[name], MOST)
    return locate(root, source, f"multi30k/{name}")


def read_captions(source: Path, target: Path, stem: str) -> Lines:
    """A split of the published size."""
    lines = read_pairs(source, target)
    if len(lines.source) != COUNTS[stem]:
        raise ValueError(
            f"{source} has {len(lines.source):,} lines and Multi30k's {COUNTS[stem]:,}: put the published file there"
        )
    return lines

"""TED talks German-English in the form of the IWSLT14 files, tested on the IWSLT14 test set."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from ...text.files import data_root, require
from ..task import DataNote
from .codec import Form
from .prepared import pair_part
from .translation import Direction, PairOptions, Translation

HELD = "iwslt14-de-en-valid-test"
FILES = {"train": "ted-de-en/train", "valid": f"{HELD}/valid", "test": f"{HELD}/test"}
ORIGIN = (
    "your own copy of TED talks, one sentence per line, Moses-tokenised, escaped and lower-cased as IWSLT14's "
    "prepare-iwslt14.sh writes them"
)


@dataclass(frozen=True, kw_only=True)
class TedOptions(PairOptions):
    """The limits of IWSLT14: 1 to 175 words, and a length ratio of 1.5."""

    direction: Direction = "de-en"
    words: int | None = 175
    ratio: float | None = 1.5


@final
class Ted(Translation):
    """TED talks; valid and test are those of IWSLT14."""

    name: ClassVar[str] = "ted"
    Options: ClassVar[type] = TedOptions
    note = DataNote(
        "48,262 pairs, 3 MB",
        "by hand",
        tuple(f"{stem}.{side}" for stem in FILES.values() for side in ("de", "en")),
        ORIGIN,
    )

    def __init__(self, options: TedOptions, data: Path | None = None) -> None:
        root = data_root(data)
        parts = {
            split: pair_part(*(require(root, self.name, ORIGIN, f"{stem}.{side}") for side in options.languages))
            for split, stem in FILES.items()
        }
        source = {"name": "TED talks; IWSLT14 valid and test", "references": "tokenised, in small letters"}
        self._load(parts, Form(*options.languages, "given", True), options, source)

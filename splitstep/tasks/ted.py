"""TED talks German-English in the form of the IWSLT14 files, tested on the IWSLT14 test set."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.tasks.fetch import data_root
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import read_pairs, require_text
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.translation import Direction, PairOptions, Translation, languages

FILES = {
    "train": "ted-de-en/train",
    "valid": "iwslt14-de-en-valid-test/valid",
    "test": "iwslt14-de-en-valid-test/test",
}
ORIGIN = (
    "your own copy of TED talks, one sentence a line, Moses-tokenised, escaped and in small letters as IWSLT14's "
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

    def __init__(self, options: TedOptions, data: Path | None = None) -> None:
        root = data_root(data)
        source, target = languages(options.direction)
        parts = {}
        for split, stem in FILES.items():
            files = tuple(require_text(root, self.name, ORIGIN, f"{stem}.{side}") for side in (source, target))
            parts[split] = Part(files, partial(read_pairs, *files))
        self._load(parts, Form(source, target, "given", True), options)

    def _source(self) -> dict[str, Any]:
        return {"name": "TED talks; IWSLT14 valid and test", "references": "tokenised, in small letters"}

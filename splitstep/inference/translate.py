"""Translations by a run's model: of lines, or of a held-out split with its scores."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..models import SplitstepForTranslation
from ..tasks.pairs.codec import Codec, Progress, Search
from ..tasks.pairs.prepared import PairOptions
from ..tasks.pairs.scores import Score
from ..tasks.pairs.search import decode_lines, longer_than_trained
from ..tasks.pairs.translation import Translation
from .runs import find_run


class SearchOverrides(NamedTuple):
    """Search options that a user asks for; None: as in the run's recipe."""

    beams: int | None = None
    length_penalty: float | None = None

    def of(self, search: Search) -> Search:
        found = replace(search, **{name: value for name, value in self._asdict().items() if value is not None})
        if self.length_penalty is not None and found.beams == 1:
            raise ValueError(
                f"--length-penalty {self.length_penalty:g} chooses between beams, and there is only one: add --beams "
                "5, or leave it out"
            )
        return found

    def refuse_for(self, task: str) -> None:
        """Refuse search options for a task in which nothing is searched for."""
        if self != SearchOverrides():
            raise ValueError(f'task "{task}" has no translations to search for: leave out --beams and --length-penalty')


AS_TRAINED = SearchOverrides()


@dataclass(frozen=True)
class Translated:
    """A split translated and scored."""

    task: str
    scheme: str
    split: str
    lines: int
    search: Search
    scores: tuple[Score, ...]
    hypotheses: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The result as JSON values, without the text."""
        entries = {name: value for name, value in asdict(self).items() if name != "hypotheses"}
        return {**entries, "scores": [one._asdict() for one in self.scores]}


def translate_split(
    model: SplitstepForTranslation,
    task: Translation,
    split: str,
    search: Search | None = None,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> Translated:
    """Translate a held-out split and score it, with the search of the task's options unless `search` is given."""
    search = search or task.search
    found, scores = task.translate(model, split, search, precision, progress)
    return Translated(task.name, str(model.config.scheme), split, len(found), search, tuple(scores), tuple(found))


@dataclass(frozen=True)
class Translations:
    """Translated lines, how they were searched for, and the numbers of those that are longer than any in training."""

    run: str
    beams: int
    length_penalty: float
    lines: list[str]
    longer: list[int]

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def translate_run(
    path: Path, lines: Sequence[str], wanted: SearchOverrides = AS_TRAINED, progress: Progress | None = None
) -> Translations:
    """Lines translated by a run's model, without the run's data."""
    run = find_run(path)
    codec, options = Codec.load(run.model), run.recipe.options
    assert isinstance(options, PairOptions), run.recipe.task  # its model has a codec
    search = wanted.of(options.search)
    model, precision = run.load_model()
    prepared = codec.form.prepare(lines, codec.form.source)
    found = codec.form.plain(decode_lines(model, codec, prepared, search, precision, progress), codec.form.target)
    longer = longer_than_trained(model, codec, prepared)
    return Translations(str(path), search.beams, search.length_penalty, found, longer)

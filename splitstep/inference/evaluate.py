"""The figures of a run on a split."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..models import SplitstepForTranslation
from ..tasks.task import check_split
from ..tasks.text_pairs.search import Progress, Search
from ..tasks.translation import Translation
from ..training import evaluate
from .runs import open_run
from .translate import AS_TRAINED, Translated, Wanted, translate_split


@dataclass(frozen=True)
class Figures:
    """The figures of a run on one split; for a translator also the scores of its translations."""

    run: str
    task: str
    scheme: str
    split: str
    metric: dict[str, Any]
    figures: dict[str, float]
    translated: Translated | None = None

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        plain = {name: value for name, value in asdict(self).items() if name != "translated"}
        return plain if self.translated is None else {**plain, "translation": self.translated.document()}


def evaluate_run(
    path: Path,
    split: str = "test",
    data: Path | None = None,
    wanted: Wanted = AS_TRAINED,
    evaluated: Progress | None = None,
    translated_lines: Progress | None = None,
) -> Figures:
    """The figures of the run's model over every example of a split; batches and translated lines are counted."""
    run = open_run(path, data)
    check_split(run.task, split)
    search: Search | None = None
    if isinstance(run.task, Translation):
        run.task.text(split)  # like the next line, it refuses a wrong request before the loss is computed
        search = wanted.of(run.task.search)
    elif wanted != AS_TRAINED:
        raise ValueError(
            f'task "{run.task.name}" has no translations to search for: leave out --beams and --length-penalty'
        )
    size = run.recipe.train.evaluate_batch or run.recipe.train.batch
    found = evaluate(run.model, run.task, split, size, run.precision, progress=evaluated)
    translated = None
    if isinstance(run.task, Translation) and isinstance(run.model, SplitstepForTranslation):
        translated = translate_split(run.model, run.task, split, search, run.precision, translated_lines)
        found |= {one.key: one.value for one in translated.scores}
    metric, notation = run.task.metric._asdict(), run.model.config.scheme
    return Figures(str(path), run.task.name, notation, split, metric, found, translated)

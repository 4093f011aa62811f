"""The figures of a model on a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..models import SplitstepConfig, SplitstepForTranslation
from ..opening import open_model
from ..recipe import NETWORKS
from ..tasks import TASKS
from ..tasks.pairs.search import Progress, Search
from ..tasks.pairs.translation import Translation
from ..tasks.task import check_split
from ..training import evaluate
from ..training.directory import RunDirectory
from .fit import fitting_task
from .runs import open_run
from .translate import AS_TRAINED, Translated, Wanted, translate_split


@dataclass(frozen=True)
class Figures:
    """The figures of a model on one split; for a translator also the scores of its translations. Models of other
    packages have no scheme."""

    model: str
    task: str
    scheme: str | None
    split: str
    metric: dict[str, Any]
    figures: dict[str, float]
    translated: Translated | None = None

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        plain = {name: value for name, value in asdict(self).items() if name != "translated"}
        return plain if self.translated is None else {**plain, "translation": self.translated.document()}


BATCH = 16  # of models that have no recipe to say it


def evaluate_model(
    name: str | Path,
    task: str,
    options: Sequence[str] = (),
    split: str = "test",
    data: Path | None = None,
    evaluated: Progress | None = None,
) -> Figures:
    """The figures of a model that is not a run: a folder, a GGUF file, or a name on the Hub. It must fit the task, of
    which `options` such as data.length=64 may be given."""
    if RunDirectory(Path(name).expanduser()).is_run():
        raise ValueError(f"{name} is a run, which has its own task: leave out --task {task}")
    TASKS.find(task)
    opened = open_model(name)
    made = fitting_task(task, options, opened, data)
    check_split(made, split)
    model = opened.model.to("cuda" if torch.cuda.is_available() else "cpu")
    found = evaluate(model, made, split, BATCH, torch.float32, progress=evaluated)
    notation = model.config.scheme if isinstance(model.config, SplitstepConfig) else None
    return Figures(str(name), task, notation, split, made.metric._asdict(), found)


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
    else:
        wanted.refuse_for(run.task.name)
    size = run.recipe.train.evaluate_batch or run.recipe.train.batch
    found = evaluate(run.model, run.task, split, size, run.precision, progress=evaluated)
    translated = None
    if isinstance(run.task, Translation) and isinstance(run.model, SplitstepForTranslation):
        translated = translate_split(run.model, run.task, split, search, run.precision, translated_lines)
        found |= {one.key: one.value for one in translated.scores}
    notation = NETWORKS[run.recipe.network].about(run.model, run.task).scheme.notation
    metric = run.task.metric._asdict()
    return Figures(str(path), run.task.name, notation, split, metric, found, translated)

"""The figures of a model on a split. One that is not a run must fit the task: its kind, its tokens and its classes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoTokenizer

from ..models import KINDS, SplitstepConfig, SplitstepForTranslation
from ..opening import Opened, open_model
from ..recipe import NETWORKS, dictated, override, read_recipe
from ..tasks import TASKS, Task
from ..tasks.corpora import WindowOptions
from ..tasks.pairs.codec import Progress, Search
from ..tasks.pairs.translation import Translation
from ..tasks.task import check_split
from ..text.tokenizers import TOKENIZER
from ..training import evaluate
from ..training.directory import RunDirectory
from .runs import is_language_model, most_positions, open_run
from .translate import AS_TRAINED, SearchOverrides, Translated, translate_split


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

    def json(self) -> dict[str, Any]:
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
    notation = str(model.config.scheme) if isinstance(model.config, SplitstepConfig) else None
    return Figures(str(name), task, notation, split, made.metric._asdict(), found)


def evaluate_run(
    path: Path,
    split: str = "test",
    data: Path | None = None,
    wanted: SearchOverrides = AS_TRAINED,
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
    notation = NETWORKS[run.recipe.network_name].about(run.model, run.task).scheme.notation or None
    metric = run.task.metric._asdict()
    return Figures(str(path), run.task.name, notation, split, metric, found, translated)


INSTEAD = "name a task on which it was trained"


def fitting_task(name: str, options: Sequence[str], opened: Opened, data: Path | None) -> Task:
    """The task of this name, with options such as data.length=64, if the model fits it. Windows of text are as long as
    they are by default, or as the model can read."""
    kind = TASKS.find(name)
    if kind.model == "translation":
        raise ValueError(f'a translator is evaluated with its recipe, so "{name}" needs a run: splitstep evaluate RUN')
    for option in options:
        if not option.startswith("data."):
            raise ValueError(f"{option} does not belong to the task: type options of its data, such as data.length=64")
    check_kind(opened, name, kind.model)
    given: dict[str, int] = {}
    if issubclass(kind.Options, WindowOptions):
        given["length"] = min(kind.Options.length, most_positions(opened.model, kind.Options.length))
    recipe = read_recipe(override({"task": name, "data": given}, options), f'task "{name}"')
    folder = Path(opened.name).expanduser()
    task = recipe.load_task(data, folder if (folder / TOKENIZER).is_file() else None)
    check_entries(opened, task)
    check_tokens(opened, task)
    return task


def check_kind(opened: Opened, name: str, kind: str) -> None:
    """Refuse a model that answers other questions than the task's."""
    model = opened.model
    if type(model) is KINDS[kind].model or (kind == "causal" and is_language_model(model)):
        return
    holds, needs = type(model).__name__, KINDS[kind].model.__name__
    raise ValueError(f'{opened.name} holds a {holds}, and task "{name}" needs a {needs}: {INSTEAD}')


def check_entries(opened: Opened, task: Task) -> None:
    """Refuse a model whose vocabulary, classes or images are not those of the task."""
    config = opened.model.config
    wanted = dictated(task)
    if not isinstance(config, SplitstepConfig):
        wanted = {"vocab_size": wanted["vocab_size"]}
    for entry, value in wanted.items():
        found = getattr(config, entry)
        if found != value and not (entry == "max_positions" and found >= value):
            raise ValueError(f'{opened.name} has {entry} {found}, and task "{task.name}" has {value}: {INSTEAD}')


def check_tokens(opened: Opened, task: Task) -> None:
    """Refuse a model whose tokenizer has other tokens than the task's, even if they are as many."""
    with TemporaryDirectory() as folder:
        task.save_with(Path(folder))
        if not (Path(folder) / TOKENIZER).is_file():
            return
        wanted = AutoTokenizer.from_pretrained(folder).get_vocab()
    if opened.needs_tokenizer().get_vocab() != wanted:
        raise ValueError(f'{opened.name} has a tokenizer with other tokens than task "{task.name}": {INSTEAD}')

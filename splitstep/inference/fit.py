"""Whether a model that is not a run fits a task: its kind, its tokens and its classes must be those of the task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import AutoTokenizer

from ..models import KINDS, SplitstepConfig
from ..opening import Opened
from ..recipe import dictated, override, read_recipe
from ..tasks import TASKS, Task
from ..tasks.language import WindowOptions
from ..text.tokenizers import TOKENIZER
from .language_model import is_language_model, most_positions

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

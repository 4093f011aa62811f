"""Opening a finished run: its recipe, its model, its data if they are needed; and opening what writes text."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from ..models import KINDS, SplitstepModel
from ..opening import Opened, open_model
from ..support.auto_classes import silent
from ..support.documents import AGAIN, readable
from ..tasks import TASKS, Task
from ..tasks.corpora import Language
from ..text.tokenizers import TOKENIZER, named_ends
from ..training import Recipe
from ..training.directory import RunDirectory


class Finished(NamedTuple):
    """A finished run; its model is not loaded yet."""

    recipe: Recipe
    model: Path
    precision: torch.dtype  # in which it was trained

    def load_model(self) -> tuple[Any, torch.dtype]:
        """The model, on the GPU if there is one, and the precision to run it in."""
        with silent(), readable(self.model, AGAIN):
            if self.recipe.network == "scheme":
                model = KINDS[TASKS[self.recipe.task].model].model.from_pretrained(self.model)
            else:
                model = open_model(self.model).model
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return model.to(device).eval(), self.precision if device.type == "cuda" else torch.float32


class Trained(NamedTuple):
    """A finished run with its data and its model loaded."""

    recipe: Recipe
    task: Task
    model: SplitstepModel
    precision: torch.dtype


def find_run(path: Path) -> Finished:
    """The finished run in a directory."""
    directory = RunDirectory(path)
    recipe, model, result = directory.recipe(), directory.finished_model(), directory.result()
    assert result is not None  # it has finished
    return Finished(recipe, model, getattr(torch, result.precision))


def load(path: str | Path) -> Opened:
    """The model of a run directory, or in a folder that `save_pretrained` wrote, with its tokenizer or image processor.

    It is in evaluation mode. `splitstep.opening.open_model` opens GGUF files and names on the Hub as well.
    """
    if not Path(path).expanduser().is_dir():
        raise ValueError(f"there is no directory {path}: name a run or a model's folder")
    return open_model(path)


def open_run(path: Path, data: Path | None = None) -> Trained:
    """The finished run in a directory, with its data and its model loaded."""
    run = find_run(path)
    task = run.recipe.load_task(data, run.model)
    if not task.same_tokens(run.model):
        raise ValueError(
            f"{path} was trained with other subwords than its data have now: restore the files and the version of "
            f"tokenizers that its environment.json names; `splitstep translate {path}` needs neither"
        )
    return Trained(run.recipe, task, *run.load_model())


class LanguageModel(NamedTuple):
    """What writes text: `load` gives the model, `length` is the number of tokens in a window that it was trained with,
    and `ends` are tokens that end a text."""

    load: Callable[[], Any]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    length: int
    ends: frozenset[int] = frozenset()


def open_language_model(name: str | Path, data: Path | None = None) -> LanguageModel:
    """The language model of a run, a model's folder, a GGUF file or a name on the Hub. Only runs of older versions need
    `data`: they lack a tokenizer in the model's folder."""
    path = Path(name).expanduser()
    if not RunDirectory(path).is_run():
        return of_opened(open_model(name))
    run = find_run(path)
    task = run.recipe.task
    if TASKS[task].model != "causal":
        raise ValueError(f'task "{task}" has no text to continue: generate needs a run of a language model')
    if (run.model / TOKENIZER).is_file():
        with silent(), readable(run.model / TOKENIZER, AGAIN):
            tokenizer = AutoTokenizer.from_pretrained(run.model)
        return with_tokenizer(lambda: run.load_model()[0], tokenizer, tokenizer.model_max_length)
    made = run.recipe.load_task(data)
    assert isinstance(made, Language), made
    return LanguageModel(lambda: run.load_model()[0], made.encode, made.decode, made.length)


def with_tokenizer(
    load: Callable[[], Any], tokenizer: Any, length: int, ends: frozenset[int] = frozenset()
) -> LanguageModel:
    """A language model that reads and writes with a tokenizer of transformers."""
    decode = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    return LanguageModel(load, partial(tokenizer.encode, verbose=False), decode, length, ends)


def of_opened(opened: Opened) -> LanguageModel:
    """The language model that the loader opened; other models are refused."""
    model = opened.model
    if not is_language_model(model):
        raise ValueError(
            f"{opened.name} holds a {type(model).__name__}, which does not continue text: name a language model"
        )
    tokenizer, device = opened.needs_tokenizer(), "cuda" if torch.cuda.is_available() else "cpu"
    length = min(tokenizer.model_max_length, most_positions(model, tokenizer.model_max_length))
    return with_tokenizer(lambda: model.to(device), tokenizer, length, frozenset(named_ends(model.generation_config)))


def is_language_model(model: Any) -> bool:
    """Whether a model continues text and remembers it in the usual cache, or not at all."""
    remembers = "past_key_values" in signature(type(model).forward).parameters
    return (
        model.can_generate()
        and not model.config.is_encoder_decoder
        and (remembers or not getattr(model.config, "use_cache", True))
    )


def most_positions(model: Any, otherwise: int) -> int:
    """The tokens that a model can look at; models whose positions have no end say nothing."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or otherwise

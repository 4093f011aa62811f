"""Opening a language model that writes text: a run's, or any that the one loader opens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from ..opening import Opened, open_model
from ..support.ends import named_ends
from ..tasks import TASKS
from ..tasks.language import Language
from ..text.tokenizers import TOKENIZER
from ..training.directory import RunDirectory
from .runs import Finished, find_run


class TextCodec(NamedTuple):
    """Text to tokens and back, and the number of tokens in a window that the model was trained with."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    length: int


class LanguageModel(NamedTuple):
    """What writes text: `load` gives the model, `ends` are tokens that end a text."""

    load: Callable[[], Any]
    codec: TextCodec
    ends: frozenset[int] = frozenset()


def open_language_model(name: str | Path, data: Path | None = None) -> LanguageModel:
    """The language model of a run, a model's folder, a GGUF file or a name on the Hub. Only old runs need `data`."""
    path = Path(name).expanduser()
    if not RunDirectory(path).is_run():
        return of_opened(open_model(name))
    run = find_run(path)
    task = run.recipe.task
    if TASKS[task].model != "causal":
        raise ValueError(f'task "{task}" has no text to continue: generate needs a run of a language model')
    return LanguageModel(lambda: run.load_model()[0], run_codec(run, data))


def run_codec(run: Finished, data: Path | None) -> TextCodec:
    """The run's codec: the tokenizer in the model's folder. Runs of older versions lack it and need their data."""
    if (run.model / TOKENIZER).is_file():
        tokenizer = AutoTokenizer.from_pretrained(run.model)
        return tokenizer_codec(tokenizer, tokenizer.model_max_length)
    task = run.recipe.load_task(data)
    assert isinstance(task, Language), task
    return TextCodec(task.encode, task.decode, task.length)


def tokenizer_codec(tokenizer: Any, length: int) -> TextCodec:
    decode = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    return TextCodec(partial(tokenizer.encode, verbose=False), decode, length)


def of_opened(opened: Opened) -> LanguageModel:
    """The language model that the loader opened; other models are refused."""
    model = opened.model
    if not is_language_model(model):
        raise ValueError(
            f"{opened.name} holds a {type(model).__name__}, which does not continue text: name a language model"
        )
    tokenizer = opened.needs_tokenizer()
    found = frozenset(named_ends(model.generation_config))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    length = min(tokenizer.model_max_length, most_positions(model, tokenizer.model_max_length))
    return LanguageModel(lambda: model.to(device), tokenizer_codec(tokenizer, length), found)


def is_language_model(model: Any) -> bool:
    """Whether a model continues text and remembers it in the usual cache."""
    parameters = signature(type(model).forward).parameters
    return model.can_generate() and not model.config.is_encoder_decoder and "past_key_values" in parameters


def most_positions(model: Any, otherwise: int) -> int:
    """The tokens that a model can look at; models whose positions have no end say nothing."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or otherwise

"""Text from a run's language model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoTokenizer, DynamicCache

from ..fields.attention import unplanned_attention
from ..tasks import TASKS
from ..tasks.language import Language
from ..tasks.options import check_int64
from ..tasks.tokenizer import TOKENIZER
from .runs import Finished, find_run

MOST_TOKENS = 1_000_000  # they are made one by one, and nothing is shown before the last


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it."""

    run: str
    prompt: str
    text: str
    tokens: int
    temperature: float
    seed: int

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def generate(
    path: Path, prompt: str, tokens: int = 200, temperature: float = 1.0, seed: int = 0, data: Path | None = None
) -> Sample:
    """Continue the prompt with a run's language model; a temperature of 0 takes the likeliest token each time."""
    if not 1 <= tokens <= MOST_TOKENS or not 0 <= temperature < math.inf:
        raise ValueError(
            f"generate needs at least one token and at most {MOST_TOKENS:,}, and a temperature of at least 0; got "
            f"{tokens} and {temperature}"
        )
    check_int64("the seed", seed)
    run = find_run(path)
    task = run.recipe.task
    if TASKS[task].model != "causal":
        raise ValueError(f'task "{task}" has no text to continue: generate needs a run of a language model')
    codec = text_codec(run, data)
    given = codec.encode(prompt)
    if not given:
        raise ValueError('the prompt is empty: give some text to continue, such as --prompt "The "')
    written = sample(run.load_model()[0], codec.length, given, tokens, temperature, seed)
    return Sample(str(path), prompt, codec.decode(written), tokens, temperature, seed)


class TextCodec(NamedTuple):
    """Text to tokens and back, and the number of tokens in a window that the model was trained with."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    length: int


def text_codec(run: Finished, data: Path | None) -> TextCodec:
    """The run's codec: the tokenizer in the model's folder. Runs of older versions lack it and need their data."""
    if (run.model / TOKENIZER).is_file():
        tokenizer = AutoTokenizer.from_pretrained(run.model)
        tokens = partial(tokenizer.encode, add_special_tokens=False, verbose=False)
        return TextCodec(tokens, tokenizer.decode, tokenizer.model_max_length)
    task = run.recipe.load_task(data)
    assert isinstance(task, Language), task
    return TextCodec(task.encode, task.decode, task.length)


@torch.no_grad()
def sample(model: Any, length: int, given: list[int], tokens: int, temperature: float, seed: int) -> list[int]:
    """The tokens that follow. The model sees a window of this length; when it is full, its second half begins anew."""
    device = next(model.parameters()).device
    random = torch.Generator().manual_seed(seed)
    ids, new, cache = list(given), list(given)[-length:], DynamicCache()
    with unplanned_attention():
        for _ in range(tokens):
            if cache.get_seq_length() + len(new) > length:
                new, cache = ids[-(length // 2) :], DynamicCache()
            found = model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            new = [int(draw(found.logits[0, -1].float().cpu(), temperature, random))]
            ids += new
    return ids[len(given) :]


def draw(logits: Tensor, temperature: float, random: torch.Generator) -> Tensor:
    if not logits.isfinite().all():
        raise ValueError("the model's output is not a number: its weights are damaged, or too large for its precision")
    if temperature == 0:
        return logits.argmax()
    return torch.multinomial(((logits - logits.max()) / temperature).softmax(-1), 1, generator=random)

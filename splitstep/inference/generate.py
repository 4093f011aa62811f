"""Text from a run's language model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer, DynamicCache

from ..fields.attention import unplanned_attention
from ..tasks import TASKS
from ..tasks.language import Language
from ..tasks.tokenizer import TOKENIZER
from .runs import Finished, find_run
from .sampling import Sampling
from .streaming import StopWords, text_pieces, until_stopped

MOST_TOKENS = 1_000_000  # they are made one by one
AS_IT_IS = Sampling()


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it: `tokens` tokens, or fewer if a stop word ended it."""

    run: str
    prompt: str
    text: str
    tokens: int
    temperature: float
    seed: int
    top_k: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stopped_by: str | None = None

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def generate(
    path: Path,
    prompt: str,
    tokens: int = 200,
    sampling: Sampling = AS_IT_IS,
    stop: Sequence[str] = (),
    data: Path | None = None,
    show: Callable[[str], object] = lambda piece: None,
) -> Sample:
    """Continue the prompt with a run's language model; `show` is called with each piece of text as it comes, the
    prompt before the first."""
    if not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"generate needs at least one token and at most {MOST_TOKENS:,}; got {tokens}")
    words = StopWords(stop)
    run = find_run(path)
    task = run.recipe.task
    if TASKS[task].model != "causal":
        raise ValueError(f'task "{task}" has no text to continue: generate needs a run of a language model')
    codec = text_codec(run, data)
    given = codec.encode(prompt)
    if not given:
        raise ValueError('the prompt is empty: give some text to continue, such as --prompt "The "')
    pieces = [prompt]
    with closing(sample(run.load_model()[0], codec.length, given, tokens, sampling)) as written:
        for piece in until_stopped(text_pieces(written, codec.decode), words):
            show(piece if len(pieces) > 1 else prompt + piece)
            pieces.append(piece)
    how = (sampling.temperature, sampling.seed, sampling.top_k, sampling.top_p)
    return Sample(str(path), prompt, "".join(pieces[1:]), tokens, *how, tuple(stop), words.found)


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
def sample(model: Any, length: int, given: list[int], tokens: int, sampling: Sampling) -> Generator[int, None, None]:
    """The tokens that follow. The model sees a window of this length; when it is full, its second half begins anew."""
    device = next(model.parameters()).device
    random = sampling.generator()
    ids, new, cache = list(given), list(given)[-length:], DynamicCache()
    with unplanned_attention():
        for _ in range(tokens):
            if cache.get_seq_length() + len(new) > length:
                new, cache = ids[-(length // 2) :], DynamicCache()
            found = model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            new = [sampling.draw(found.logits[0, -1].float().cpu(), random)]
            ids += new
            yield new[0]

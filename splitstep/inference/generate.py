"""Text from a language model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..fields.attention import unplanned_attention
from .runs import TextCodec, open_language_model
from .sampling import EndTokens, Sampling, StopWords, text_pieces, until_stopped

MOST_TOKENS = 1_000_000  # they are made one by one
AS_IT_IS = Sampling()


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it: `tokens` tokens, or fewer if a stop word ended it, or the token with
    which the model ends a text."""

    model: str
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
    name: str | Path,
    prompt: str,
    tokens: int = 200,
    sampling: Sampling = AS_IT_IS,
    stop: Sequence[str] = (),
    data: Path | None = None,
    show: Callable[[str], object] = lambda piece: None,
) -> Sample:
    """Continue the prompt with the language model of a run, a folder, a GGUF file or a name on the Hub.

    `show` is called with each piece of text as it comes, the prompt before the first.
    """
    if not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"generate needs at least one token and at most {MOST_TOKENS:,}; got {tokens}")
    words = StopWords(stop)
    found = open_language_model(name, data)
    codec, end = found.codec, EndTokens(found.ends)
    given = codec.encode(prompt)
    if not given:
        raise ValueError('the prompt is empty: give some text to continue, such as --prompt "The "')
    pieces = [prompt]
    with closing(sample(found.load(), codec.length, given, tokens, sampling)) as drawn:
        for piece in until_stopped(continuation(prompt, given, end.before(drawn), codec), words):
            show(piece if len(pieces) > 1 else prompt + piece)
            pieces.append(piece)
    how = (sampling.temperature, sampling.seed, sampling.top_k, sampling.top_p)
    stopped_by = codec.decode([end.found]) if end.found is not None else words.found
    return Sample(str(name), prompt, "".join(pieces[1:]), tokens, *how, tuple(stop), stopped_by)


def continuation(prompt: str, given: list[int], tokens: Iterator[int], codec: TextCodec) -> Iterator[str]:
    """The text of the tokens as it follows the prompt's tokens. A decoder may write blanks between words; if the prompt
    ends in one that its tokens do not have, the first is left out."""
    pieces = text_pieces(tokens, codec.decode, given)
    first = next(pieces)
    ended = prompt[-1:].isspace() and not codec.decode(given)[-1:].isspace()
    yield first.removeprefix(" ") if ended else first
    yield from pieces


@torch.no_grad()
def sample(model: Any, length: int, given: list[int], tokens: int, sampling: Sampling) -> Generator[int, None, None]:
    """The tokens that follow. The model sees a window of this length; when it is full, its second half begins anew."""
    device = next(model.parameters()).device
    random = sampling.generator()
    ids, new, cache, seen = list(given), list(given)[-length:], None, 0
    with unplanned_attention():
        for _ in range(tokens):
            if seen + len(new) > length:
                new, cache, seen = ids[-(length // 2) :], None, 0
            found = model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            cache, seen = found.past_key_values, seen + len(new)
            new = [sampling.draw(found.logits[0, -1].float().cpu(), random)]
            ids += new
            yield new[0]

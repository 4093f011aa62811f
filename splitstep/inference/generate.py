"""Text from a language model: tokens drawn from its logits, and their text as it comes, whole characters only."""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from ..fields.attention import unplanned_attention
from ..options import check_int64
from .runs import open_language_model

MOST_KEPT = 10**9  # of top_k: more than any vocabulary
LEAST = 1e-6  # of a temperature that is not 0: smaller ones are 0 in single precision


@dataclass(frozen=True)
class Sampling:
    """A temperature, at 0 of which the likeliest token is taken each time; then only the `top_k` likeliest tokens, and
    of those the likeliest that together have a probability of `top_p`. The order is that of transformers."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or LEAST <= self.temperature < math.inf):
            raise ValueError(f"generate needs a temperature of 0 or at least {LEAST}; got {self.temperature}")
        if self.top_k is not None and not 1 <= self.top_k <= MOST_KEPT:
            raise ValueError(f"generate needs a top-k of at least 1 and at most {MOST_KEPT:,}; got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"generate needs a top-p above 0 and at most 1; got {self.top_p}")
        if self.temperature == 0 and (self.top_k or self.top_p) is not None:
            raise ValueError("a temperature of 0 takes the likeliest token: leave out --top-k and --top-p")
        check_int64("the seed", self.seed)

    def draw(self, logits: Tensor, random: torch.Generator) -> int:
        """A token; logits [V] on the CPU."""
        if not logits.isfinite().all():
            raise ValueError(
                "the model's output is not a number: its weights are damaged, or too large for its precision"
            )
        if self.temperature == 0:
            return int(logits.argmax())
        return int(torch.multinomial(self.kept(logits).softmax(-1), 1, generator=random))

    def kept(self, logits: Tensor) -> Tensor:
        """The logits over the temperature, with -inf for tokens that are not to be drawn."""
        scaled = (logits - logits.max()) / self.temperature
        if self.top_k is not None:
            least = scaled.topk(min(self.top_k, len(scaled))).values[-1]
            scaled = scaled.masked_fill(scaled < least, -math.inf)
        if self.top_p is not None:
            ordered, places = scaled.sort(descending=True)
            shares = ordered.softmax(-1)
            likelier = shares.cumsum(-1) - shares  # the probability of all likelier tokens; 0 for the likeliest
            scaled = scaled.index_fill(0, places[likelier >= self.top_p], -math.inf)
        return scaled


PART = "\ufffd"  # what a decoder writes for bytes that are not a character, such as the beginning of one


def text_pieces(tokens: Iterable[int], decode: Callable[[list[int]], str], before: Sequence[int] = ()) -> Iterator[str]:
    """The text of the tokens after those `before`, as soon as it is certain; the pieces together are what `decode`
    makes of all tokens.

    A token is decoded after those of the piece before it, since a decoder may join words by blanks. A character whose
    bytes are in several tokens is held back until it is whole.
    """
    window, context = list(before), len(before)  # tokens whose text is there already; `context` of them as a whole
    shown = len(decode(window)) if window else 0  # characters of the window's text
    for token in tokens:
        window.append(token)
        text = decode(window)
        whole = not text.endswith(PART)
        piece = text[shown : len(text) if whole else len(text) - 1]
        shown += len(piece)
        if whole:
            window = window[context:]
            context, shown = len(window), len(decode(window))
        yield piece
    yield decode(window)[shown:] if window else ""


@final
class StopWords:
    """Lets text through up to the first stop word, which is left out. Text that may be the beginning of one is held
    back. The first is the one that ends first, and of several that end together the longest."""

    def __init__(self, words: Sequence[str]) -> None:
        if "" in words:
            raise ValueError('a stop word is empty: give some text, such as --stop "."')
        self.words, self.held = tuple(words), ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """What can be shown of the text so far."""
        self.held += text
        ends = [(start + len(word), start, word) for word in self.words if (start := self.held.find(word)) >= 0]
        if ends:
            _, start, self.found = min(ends)
            return self.held[:start]
        begun = ((word, n) for word in self.words for n in range(1, min(len(word), len(self.held) + 1)))
        free = len(self.held) - max((n for word, n in begun if self.held.endswith(word[:n])), default=0)
        piece, self.held = self.held[:free], self.held[free:]
        return piece


def until_stopped(pieces: Iterable[str], stop: StopWords) -> Iterator[str]:
    """The pieces up to a stop word."""
    for piece in pieces:
        yield stop.push(piece)
        if stop.found is not None:
            return
    yield stop.held


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

    def json(self) -> dict[str, Any]:
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
    writer = open_language_model(name, data)
    if not prompt:
        raise ValueError('the prompt is empty: give some text to continue, such as --prompt "The "')
    given = writer.encode(prompt)
    if not given:
        raise ValueError(f"the tokenizer of {name} makes no tokens of the prompt {prompt[:40]!r}: name another model")
    ends, pieces = list[int](), [prompt]
    with closing(sample(writer.load(), writer.length, given, tokens, sampling)) as drawn:
        text = continuation(prompt, given, before_end(drawn, writer.ends, ends), writer.decode)
        for piece in until_stopped(text, words):
            show(piece if len(pieces) > 1 else prompt + piece)
            pieces.append(piece)
    stopped_by = writer.decode(ends) if ends else words.found
    text = "".join(pieces[1:])
    return Sample(str(name), prompt, text, tokens, **asdict(sampling), stop=tuple(stop), stopped_by=stopped_by)


def before_end(tokens: Iterable[int], ends: frozenset[int], found: list[int]) -> Iterator[int]:
    """The tokens up to the first that ends a text, which is added to `found`."""
    for token in tokens:
        if token in ends:
            found.append(token)
            return
        yield token


def continuation(
    prompt: str, given: list[int], tokens: Iterator[int], decode: Callable[[list[int]], str]
) -> Iterator[str]:
    """The text of the tokens as it follows the prompt's tokens. A decoder may write blanks between words; if the prompt
    ends in one that its tokens do not have, the first is left out."""
    pieces = text_pieces(tokens, decode, given)
    first = next(pieces)
    ended = prompt[-1:].isspace() and not decode(given)[-1:].isspace()
    yield first.removeprefix(" ") if ended else first
    yield from pieces


@torch.no_grad()
def sample(model: Any, length: int, given: list[int], tokens: int, sampling: Sampling) -> Generator[int, None, None]:
    """The tokens that follow. The model sees a window of this length; when it is full, its second half begins anew.
    A model without a cache reads the whole window for each token."""
    device = next(model.parameters()).device
    random = torch.Generator().manual_seed(sampling.seed)
    ids, new, cache, seen = list(given), list(given)[-length:], None, 0
    with unplanned_attention():
        for _ in range(tokens):
            if seen + len(new) > length:
                new, cache, seen = ids[-(length // 2) :], None, 0
            found = model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            cache = found.get("past_key_values")
            ids.append(sampling.draw(found.logits[0, -1].float().cpu(), random))
            seen, new = (0, ids[-length:]) if cache is None else (seen + len(new), ids[-1:])
            yield ids[-1]

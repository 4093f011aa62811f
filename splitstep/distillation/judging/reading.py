"""How models read texts: the tokens of rows, which of them are scored, batches, and how many texts are read at once.

On a CPU these are few, on a GPU as many as a part of its memory holds. The number depends on the model, the texts and
the kind of GPU, and not on what else runs there: figures would be rounded otherwise each time. What is counted is an
upper bound, which a test compares with what PyTorch allocates.

Bits per byte are what a text costs under a model, over its length in bytes, so that tokenizers can be compared.
"""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ...flows.examples import positions
from ...text.instructions import Row
from ...text.token_bytes import TokenBytes, token_bytes, utf8
from ..records import wide

Item = TypeVar("Item")
SHARE = 12  # a twelfth of the GPU's memory is taken, so eight workers with their models fit on it
READ_MOST, READ_ON_CPU = 256, 8
WRITE_MOST, WRITE_ON_CPU = 1024, 64
LOGITS = 3 * 4  # bytes for each token and entry of a model's vocabulary: the logits, those chosen, and their logarithms
NOISE = 8 * 8  # bytes for each entry of the vocabulary: the noise of the next token, and what it is computed from
VECTORS = 6  # of a layer's largest width, for each token that is read: five at once in GPT-2's activation, others three
GROWN = 3  # such vectors, for each token before the next one: a layer's keys and values as they grow, and for all heads
MASK = 10  # bytes for each pair of tokens: a mask of truth values, one of numbers, and what they are computed from


class Causal(NamedTuple):
    """A causal model of Hugging Face and its tokenizer."""

    model: Any
    tokenizer: Any


class ScoredTokens(NamedTuple):
    """Tokens, which of them are scored, and how many bytes those cover. The first token is never scored."""

    ids: list[int]
    scored: list[bool]
    size: int


class Batch(NamedTuple):
    """Texts padded on the right, [B, T] each."""

    ids: Tensor
    real: Tensor
    scored: Tensor


def answer_tokens(tokenizer: Any, row: Row) -> ScoredTokens:
    """A row's tokens; those that end inside of the answer are scored. A token over the border is, too: its bits are
    counted whole, and of its bytes those of the answer."""
    found = token_bytes(tokenizer, row.prompt + row.answer)
    border = len(utf8(row.prompt))
    scored = ~found.special & (found.ends > border)
    return with_start(tokenizer, found, scored, int(found.ends[-1]) - border)


def with_start(tokenizer: Any, found: TokenBytes, scored: np.ndarray, size: int) -> ScoredTokens:
    """The first token has to follow something: if it is scored, the tokenizer's first token is put before it, or its
    last one. If there is neither, the first token is not scored, and its bytes are not counted."""
    ids, marks = found.ids.tolist(), scored.tolist()
    if not marks[0]:
        return ScoredTokens(ids, marks, size)
    start = start_token(tokenizer)
    if start is not None:
        return ScoredTokens([start, *ids], [False, *marks], size)
    return ScoredTokens(ids, [False, *marks[1:]], size - int(found.ends[0]))


def start_token(tokenizer: Any) -> int | None:
    """The token that begins a text, else the one that ends it."""
    return tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id


def prompt_tokens(tokenizer: Any, prompt: str) -> list[int]:
    """A prompt's tokens, without any that the tokenizer adds at the end."""
    found = token_bytes(tokenizer, prompt)
    ids = found.ids[: found.content[1]].tolist() if found.content[1] else found.ids.tolist()
    if ids:
        return ids
    start = start_token(tokenizer)
    if start is None:
        raise ValueError("the prompt is empty, and the tokenizer has no first token: write a prompt")
    return [start]


def groups(rows: Sequence[Item], size: Callable[[Sequence[Item]], int]) -> Iterator[Sequence[Item]]:
    """The rows, so many of them at once; `size` is how many, as a function of those that are left."""
    while rows:
        count = size(rows)
        yield rows[:count]
        rows = rows[count:]


def padded(texts: Sequence[ScoredTokens], device: torch.device) -> Batch:
    columns = zip(*((text.ids, [1] * len(text.ids), text.scored) for text in texts), strict=True)
    return Batch(*(pad_sequence([torch.tensor(x) for x in rows], batch_first=True).to(device) for rows in columns))


def device_of(model: Any) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def reading(*models: Any) -> Iterator[None]:
    """Models without dropout and gradients; afterwards each is in its mode again."""
    modes = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for model, mode in zip(models, modes, strict=True):
            model.train(mode)


def check_length(model: Any, texts: Sequence[ScoredTokens]) -> None:
    """Refuse texts that are longer than the model can read."""
    most = positions(model)
    for number, text in enumerate(texts):
        if most is not None and len(text.ids) > most:
            raise ValueError(
                f"row {number} has {len(text.ids)} tokens, and the model reads at most {most}: leave it out, or "
                "shorten its answer"
            )


def rows_to_read(models: Sequence[Any], tokens: int) -> int:
    """How many texts of so many tokens one or two models read at once."""
    return rows_within(room_on(models[0]), bytes_of_text(models, tokens), READ_MOST) or READ_ON_CPU


def rows_to_write(model: Any) -> Callable[[int, int], int]:
    """How many answers are written at once, as a function of the tokens of the longest prompt and of the new ones."""
    room, needed = room_on(model), bytes_of_answer(model)
    return lambda prompt, new: rows_within(room, needed(prompt, new), WRITE_MOST) or WRITE_ON_CPU


def room_on(model: Any) -> int:
    """The bytes that judging may take on the model's GPU; 0 if it is on none."""
    device = device_of(model)
    return torch.cuda.get_device_properties(device).total_memory // SHARE if device.type == "cuda" else 0


def rows_within(room: int, each: int, most: int) -> int:
    """The largest power of two whose rows fit into the room, at least 1 and at most `most`; 0 without room."""
    return room and min(most, 1 << max(1, room // each).bit_length() - 1)


def bytes_of_text(models: Sequence[Any], tokens: int) -> int:
    """What a text takes while one or two models read it: the logits of both, and what a layer of one computes."""
    logits = sum(vocabulary(model) * LOGITS for model in models)
    return tokens * (logits + VECTORS * max(map(widest, models)) + tokens * MASK)


def bytes_of_answer(model: Any) -> Callable[[int, int], int]:
    """What an answer takes while it is written, as a function of the tokens of its prompt and of the new ones: the keys
    and values of all layers, and the larger of what a layer computes for the prompt and what the next token needs."""
    with reading(model):
        out = model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device_of(model)), use_cache=True)
    cache = out.get("past_key_values")  # models without attention have none
    held = [x for layer in cache.layers for x in vars(layer).values()] if cache is not None else []
    kept = sum(x.numel() * x.element_size() for x in held if isinstance(x, Tensor))  # keys and values of one token
    vector, noise = widest(model), vocabulary(model) * NOISE

    def needed(prompt: int, new: int) -> int:
        first, last = prompt * (VECTORS * vector + prompt * MASK), (prompt + new) * GROWN * vector + noise
        return (prompt + new) * kept + max(first, last)

    return needed


def widest(model: Any) -> int:
    """The bytes of a layer's largest vector for one token. Attention is taken to be fused, so it has no larger ones."""
    head = model.get_output_embeddings()
    inner = [module for module in model.modules() if module is not head and not isinstance(module, nn.Embedding)]
    weights = [weight for module in inner for weight in module.parameters(recurse=False) if weight.ndim > 1]
    return max(max(weight.shape[-2:]) * weight.element_size() for weight in weights)


def vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])


def release_memory() -> None:
    """Give back what PyTorch keeps of a GPU for later: other workers may be there."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


class Bits(NamedTuple):
    """The bits that bytes cost: -log2 of the probability of their tokens."""

    bits: float
    bytes: int

    @property
    def per_byte(self) -> float:
        return self.bits / self.bytes if self.bytes else math.nan


def total(parts: Iterable[Bits]) -> Bits:
    """The bits and bytes of all parts."""
    found = list(parts)
    return Bits(math.fsum(one.bits for one in found), sum(one.bytes for one in found))


def answer_bits(model: Any, tokenizer: Any, rows: Sequence[Row], batch: int | None = None) -> list[Bits]:
    """What each row's answer costs after its prompt; the end of the answer is not scored."""
    texts = [answer_tokens(tokenizer, row) for row in rows]
    check_length(model, texts)
    costs = costs_of(model, texts, batch)
    return [Bits(cost, text.size) for cost, text in zip(costs, texts, strict=True)]


def text_bits(
    model: Any, tokenizer: Any, text: str, length: int, stride: int | None = None, batch: int | None = None
) -> Bits:
    """What a text costs, read in windows of `length` tokens.

    Each window but the first scores its last `stride` tokens, half of it unless told, so that each of them follows at
    least length - stride others.
    """
    step = length // 2 if stride is None else stride
    most = positions(model)
    if not 0 < step < length or (most is not None and length > most):
        raise ValueError(
            f"windows of {length} tokens that move by {step}: use at least 2 and at most {most or 'any number'}, moved "
            "by at least 1 and fewer than they have"
        )
    found = token_bytes(tokenizer, text)
    whole = with_start(tokenizer, found, ~found.special, int(found.ends[-1]))
    return Bits(math.fsum(costs_of(model, windows(whole, length, step), batch)), whole.size)


def windows(text: ScoredTokens, length: int, step: int) -> list[ScoredTokens]:
    """Windows that score each token once."""
    found, scored = list[ScoredTokens](), 0
    begin = 0
    while scored < len(text.ids):
        end = min(begin + length, len(text.ids))
        marks = [mark and place >= scored for place, mark in enumerate(text.scored[begin:end], begin)]
        found.append(ScoredTokens(text.ids[begin:end], marks, 0))
        scored, begin = end, begin + step
    return found


def costs_of(model: Any, texts: Sequence[ScoredTokens], batch: int | None) -> list[float]:
    """The bits of the scored tokens of each text, so many of which are read at once; None leaves it to the device."""
    costs, longest_first = [0.0] * len(texts), sorted(range(len(texts)), key=lambda k: -len(texts[k].ids))
    with reading(model):
        for numbers in groups(longest_first, lambda left: batch or rows_to_read((model,), len(texts[left[0]].ids))):
            one = padded([texts[k] for k in numbers], device_of(model))
            for number, cost in zip(numbers, batch_costs(model, one).tolist(), strict=True):
                costs[number] = cost
    return costs


def batch_costs(model: Any, batch: Batch) -> Tensor:
    """The bits of the scored tokens of each text [B], in float64."""
    logits = model(input_ids=batch.ids, attention_mask=batch.real, use_cache=False).logits
    rows, places = batch.scored[:, 1:].nonzero(as_tuple=True)
    chosen = wide(logits[rows, places])
    logs = chosen.log_softmax(-1).gather(-1, batch.ids[rows, places + 1, None])[:, 0].double()
    costs = torch.zeros(len(batch.ids), dtype=torch.float64, device=logits.device)
    return costs.index_add(0, rows, -logs / math.log(2))

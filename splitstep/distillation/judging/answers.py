"""Answers that a model writes: sampled in batches, each a function of the model, its prompt and a seed alone."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, TopPLogitsWarper

from ...flows.examples import positions
from ...inference.generate import Sampling
from ...kernels.gumbel import add_gumbel
from ...text.tokenizers import named_ends
from .reading import device_of, groups, prompt_tokens, reading, rows_to_write

BUCKET = 32  # prompts of a batch are padded to a multiple of this, so that there are few shapes
ROUND = 64  # tokens of the first round


@dataclass(frozen=True)
class Writing:
    """How answers are written. The papers take temperature 1, top-p 1 and five seeds, and the mean over them."""

    seeds: tuple[int, ...] = (10, 20, 30, 40, 50)  # MiniLLM's and DistiLLM's
    max_tokens: int = 256
    temperature: float = 1.0  # at 0 the likeliest token is taken
    top_p: float = 1.0
    batch: int | None = None  # answers that are written at once; None leaves it to the device

    def __post_init__(self) -> None:
        Sampling(self.temperature, top_p=None if self.temperature == 0 else self.top_p)  # refuses bad ones
        few = self.max_tokens < 1 or (self.batch is not None and self.batch < 1)
        if few or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            at_once = "" if self.batch is None else f" in batches of {self.batch}"
            raise ValueError(
                f"answers of {self.max_tokens} tokens{at_once} with the seeds {self.seeds}: give at least 1 each, and "
                "different seeds"
            )


class Prompt(NamedTuple):
    """A prompt's tokens and the key of its noise."""

    ids: list[int]
    key: int


class Answer(NamedTuple):
    """What a model wrote, and whether it ended that itself; if not, it is cut off at the most tokens."""

    text: str
    ended: bool | None = None  # not known of answers that an older version kept


Answers = dict[int, list[Answer]]  # by seed


def key_of(seed: int, text: str) -> int:
    """A signed 64-bit key for a seed and a text."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "little", signed=True)


def write_answers(model: Any, tokenizer: Any, prompts: Sequence[str], writing: Writing) -> Answers:
    """The answers to all prompts.

    An answer does not depend on the batch, but for the rounding of the logits: a batch of another size may round them
    otherwise, and two tokens that are as good as equal may then change places.
    """
    encoded = [prompt_tokens(tokenizer, prompt) for prompt in prompts]
    check_room(model, encoded, writing)
    pairs = list(product(writing.seeds, range(len(prompts))))
    asked = [Prompt(encoded[k], key_of(seed, prompts[k])) for seed, k in pairs]
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    ends = sorted({*named_ends(model.generation_config), *own})
    with reading(model), plain_generation(model):
        written = write_all(model, asked, ends, writing)
    by_seed: Answers = {seed: [] for seed in writing.seeds}
    for (seed, _), ids in zip(pairs, written, strict=True):
        text = tokenizer.decode(ids, skip_special_tokens=True).strip()
        by_seed[seed].append(Answer(text, len(ids) < writing.max_tokens))
    return by_seed


def write_all(model: Any, asked: Sequence[Prompt], ends: Sequence[int], writing: Writing) -> list[list[int]]:
    """The tokens of each answer, without the one that ended it.

    They are written in rounds, so that answers that have ended wait for no others: the rest begin the next round in new
    batches, their prompts longer by what is written. The longest are together, so there is little padding. The first
    round is ROUND tokens long, each further one as long as all before it: a prompt is read a few times only, and an
    answer is computed for ROUND tokens, or at most twice as many as it has.
    """
    written, rows = [list[int]() for _ in asked], rows_to_write(model)
    going, done = sorted(range(len(asked)), key=lambda k: -len(asked[k].ids)), 0
    while going and done < writing.max_tokens:
        steps = range(done, min(max(ROUND, 2 * done), writing.max_tokens))

        def size(left: Sequence[int], steps: range = steps) -> int:
            return writing.batch or rows(len(asked[left[0]].ids) + steps.start + BUCKET, len(steps))

        for chosen in groups(going, size):
            grown = [asked[k]._replace(ids=asked[k].ids + written[k]) for k in chosen]
            for k, ids in zip(chosen, write_batch(model, grown, steps, ends, writing), strict=True):
                written[k] += ids
        going, done = [k for k in going if len(written[k]) == steps.stop], steps.stop
    return written


def check_room(model: Any, encoded: Sequence[Sequence[int]], writing: Writing) -> None:
    most, longest = positions(model), max(map(len, encoded), default=0)
    if most is not None and longest + writing.max_tokens > most:
        raise ValueError(
            f"a prompt of {longest} tokens and an answer of {writing.max_tokens} do not fit into the {most} that the "
            "model reads: leave out long prompts, or give fewer tokens to the answers"
        )


@contextmanager
def plain_generation(model: Any) -> Iterator[None]:
    """The model without the settings that came with it, such as a penalty for repetition: `generate` would add them."""
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def write_batch(
    model: Any, asked: Sequence[Prompt], steps: range, ends: Sequence[int], writing: Writing
) -> list[list[int]]:
    """The tokens of each answer at these steps, up to the one that ends it."""
    device, longest, most = device_of(model), max(len(one.ids) for one in asked), positions(model)
    bucket = -(-longest // BUCKET) * BUCKET
    width = bucket if most is None or bucket + len(steps) <= most else longest
    pad = ends[0] if ends else 0
    ids = torch.tensor([[pad] * (width - len(one.ids)) + one.ids for one in asked], device=device)
    real = torch.tensor([[0] * (width - len(one.ids)) + [1] * len(one.ids) for one in asked], device=device)
    keys = torch.tensor([one.key for one in asked], device=device)
    settings = GenerationConfig(
        max_new_tokens=len(steps), do_sample=False, eos_token_id=list(ends) or None, pad_token_id=pad
    )
    noise = LogitsProcessorList([Noise(keys, width - steps.start, writing)] if writing.temperature else [])
    out = model.generate(ids, attention_mask=real, generation_config=settings, logits_processor=noise)
    return [list(takewhile(lambda one: one not in ends, row)) for row in out[:, width:].tolist()]


@final
class Noise(LogitsProcessor):
    """Logits over the temperature, without the tail that top-p leaves out, plus Gumbel noise: the likeliest is a
    sample."""

    def __init__(self, keys: Tensor, begin: int, writing: Writing) -> None:
        self.keys, self.begin, self.temperature = keys, begin, writing.temperature
        self.kept = TopPLogitsWarper(writing.top_p) if writing.top_p < 1 else None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        step = input_ids.shape[1] - self.begin
        if self.kept is None:
            return add_gumbel(scores, self.keys, step, self.temperature)
        return add_gumbel(self.kept(input_ids, scores.double() / self.temperature), self.keys, step)

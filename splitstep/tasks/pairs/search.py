"""Translating lines with a trained model: beam search over batches of lines of similar length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ...models import SplitstepForTranslation
from ...support.memory import no_memory
from ...support.words import counted
from .codec import END, PAD, SEARCH, Codec, Progress, Search, check_fit

FEW, MANY = 512, 16384
"""Source tokens in a batch on a CPU and on a GPU. A batch runs until its last line ends: on one core 4,096 tokens took
1.7 times as long as 512, for 300 lines of Multi30k with five beams. More rows hardly slow a GPU down."""


NARROW = 256  # the greatest width of a model that is decoded by one CPU thread


def translate(
    model: SplitstepForTranslation,
    codec: Codec,
    lines: Sequence[str],
    search: Search = SEARCH,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> list[str]:
    """Untokenised lines translated into untokenised lines; an empty line stays empty."""
    prepared = codec.form.prepare(lines, codec.form.source)
    decoded = decode_lines(model, codec, prepared, search, precision, progress)
    return codec.form.plain(decoded, codec.form.target)


def decode_lines(
    model: SplitstepForTranslation,
    codec: Codec,
    prepared: Sequence[str],
    search: Search,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> list[str]:
    """Prepared source lines translated into prepared target lines (in Moses tokens if the model has them), in order."""
    check_fit(codec, model.config.vocab_size)
    sources = list(codec.encode(prepared))
    refuse_long(model, sources)
    out = [""] * len(sources)
    filled = [row for row, ids in enumerate(sources) if len(ids) > 1]
    done = len(sources) - len(filled)
    tokens = search.batch_tokens or (FEW if model.device.type == "cpu" else MANY)
    progress = progress or (lambda done, total: None)
    progress(done, len(sources))
    for rows in groups([len(ids) for ids in sources], filled, tokens):
        try:
            with threads_for(model):
                ids = generate_ids(model, [sources[row] for row in rows], search, precision)
        except RuntimeError as error:
            if not no_memory(error):
                raise
            raise ValueError(
                f"the device has too little memory for {counted(search.beams, 'beam')} on a line of "
                f"{len(sources[rows[0]])} tokens: use fewer beams, such as --beams 1, or shorter lines"
            ) from None
        for row, text in zip(rows, codec.decode(ids), strict=True):
            out[row] = text
        done += len(rows)
        progress(done, len(sources))
    return out


@contextmanager
def threads_for(model: SplitstepForTranslation) -> Iterator[None]:
    """A block in which a narrow model on a CPU has one thread.

    In many small products a second thread costs about what it saves, and on busy cores the first waits for it: 100
    lines of Multi30k took 6, 44 and 60 s with two threads on two busy cores, and 5 s with one.
    """
    before = torch.get_num_threads()
    alone = model.device.type == "cpu" and model.config.width <= NARROW
    torch.set_num_threads(1 if alone else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def groups(lengths: Sequence[int], rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows of similar length, the longest first, so too little memory shows at once."""
    ordered = sorted(rows, key=lambda row: -lengths[row])
    first = 0
    while first < len(ordered):
        many = max(1, tokens // lengths[ordered[first]])
        yield ordered[first : first + many]
        first += many


def refuse_long(model: SplitstepForTranslation, sources: Sequence[Sequence[int]]) -> None:
    """Refuse lines with more tokens than the model has learned positions; other positions have no end."""
    config = model.config
    long = [row for row, ids in enumerate(sources) if len(ids) > config.max_positions]
    if config.positions == "learned" and long:
        raise ValueError(
            f"{len(long)} of {len(sources)} lines have more tokens than this model's {config.max_positions} learned "
            f"positions, the first being line {long[0] + 1} with {len(sources[long[0]])}; nothing is cut: shorten them"
        )


def longer_than_trained(model: SplitstepForTranslation, codec: Codec, prepared: Sequence[str]) -> list[int]:
    """The numbers, from 1, of lines more than twice as long as any pair of the model's data: worth a warning."""
    return [row for row, ids in enumerate(codec.encode(prepared), 1) if len(ids) > model.config.max_positions]


class Ends:
    """Ends each line at its own limit; generate() has only one for the whole batch."""

    def __init__(self, most: Sequence[int], beams: int, vocabulary: int, device: torch.device) -> None:
        self.first = min(most)
        self.most = torch.tensor(most, device=device).repeat_interleave(beams)[:, None]
        self.others = torch.arange(vocabulary, device=device) != END

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores of the next token [B * beams, V]; lines at their limit can only end."""
        written = input_ids.shape[1] - 1  # after <s>
        if written < self.first:
            return scores
        return scores.masked_fill((self.most <= written) & self.others, -torch.inf)


@torch.no_grad()
def generate_ids(
    model: SplitstepForTranslation, sources: Sequence[Sequence[int]], search: Search, precision: torch.dtype
) -> list[list[int]]:
    """The best translation of each source, as token ids, of which <s> is the first."""
    device = next(model.parameters()).device
    width = max(map(len, sources))
    ids = torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources])
    mask = torch.arange(width) < torch.tensor([[len(source)] for source in sources])
    most = [int(search.stretch * len(source)) + search.extra for source in sources]
    if model.config.positions == "learned":
        most = [min(one, model.config.max_positions - 1) for one in most]
    ends = Ends(most, search.beams, model.config.vocab_size, device)
    beams: dict[str, Any] = {} if search.beams == 1 else {"length_penalty": search.length_penalty}
    with torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32):
        found: Any = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
            ids.to(device), attention_mask=mask.long().to(device), num_beams=search.beams, do_sample=False,
            max_new_tokens=max(most) + 1, eos_token_id=END, logits_processor=[ends], **beams,
        )  # fmt: skip
    return found.tolist()

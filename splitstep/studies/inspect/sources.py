"""What runs through a model: texts by its tokenizer or, of a run of ours, validation examples of its task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...flows.examples import positions
from ...kernels.loss import IGNORED
from ...models import CausalConfig
from ...models.vectors import VectorsConfig
from ...opening import Opened
from ...opening.texts import batches_of, default_texts, read_texts
from ...tasks import Batch, Task
from ...training.directory import RunDirectory
from .measuring import Text

TOKENS = 64  # of a text, unless it is said otherwise
POINTS = 8  # tokens of a sequence of vectors, if the model has no positions


class Source(NamedTuple):
    """Texts that can be read again and again, how many there are, and where they come from."""

    read: Callable[[], Iterator[Text]]
    number: int
    name: str


class Wanted(NamedTuple):
    """Which texts: a file or the package's own, how many, and how long."""

    file: Path | None = None
    texts: int = 8
    tokens: int | None = None  # None: 64, or as many as the models have positions
    data: Path | None = None  # where a run's task has its data

    def check(self) -> None:
        for name, value, least in (("texts", self.texts, 1), ("tokens", self.tokens, 2)):
            if value is not None and value < least:
                raise ValueError(f"--{name} {value}: give at least {least}")

    def length(self, models: Sequence[Opened]) -> int:
        """The most tokens of a text."""
        if self.tokens is not None:
            return self.tokens
        return min([TOKENS, *(most for one in models if (most := positions(one.model) or 0) > 1)])


def source_of(opened: Opened, wanted: Wanted, tokens: int) -> Source:
    """The texts for this model, each cut after so many tokens."""
    if opened.source == "run" and wanted.file is None:
        return examples_of(opened, wanted, tokens)
    if isinstance(opened.model.config, VectorsConfig):
        return points_for(opened.model.config, wanted)
    main = opened.model.main_input_name
    if main != "input_ids":
        raise ValueError(
            f"{opened.name} takes {main}, and inspect reads texts: use ss.observe(ss.opening.load(...), inputs, "
            "probes) in Python"
        )
    texts = (default_texts() if wanted.file is None else read_texts(wanted.file))[: wanted.texts]
    tokenizer = opened.needs_tokenizer()
    check_lengths(opened, tokenizer, texts, tokens)

    def read() -> Iterator[Text]:
        for i, batch in enumerate(batches_of(texts, tokenizer, tokens, 1)):
            ids = batch["input_ids"]
            more = {"decoder_input_ids": ids} if opened.model.config.is_encoder_decoder else {}
            yield Text({**batch, **more}, f"text {i + 1}", spelled(tokenizer, ids[0].tolist()))

    return Source(read, len(texts), "the package's own texts" if wanted.file is None else str(wanted.file))


def points_for(config: VectorsConfig, wanted: Wanted) -> Source:
    """Sequences of random numbers from 0 to 1, for a map of sequences of vectors."""
    shape = (wanted.texts, config.max_positions or POINTS, config.inputs)
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def read() -> Iterator[Text]:
        for i, one in enumerate(values):
            spelt = tuple(" ".join(f"{x:.2f}" for x in vector) for vector in one.tolist())
            yield Text({"values": one[None]}, f"sequence {i + 1}", spelt)

    return Source(read, wanted.texts, "random numbers from 0 to 1")


def check_lengths(opened: Opened, tokenizer: Any, texts: Sequence[str], tokens: int) -> None:
    """Refuse a text that is longer than the model's positions, and tokens that the model does not have."""
    most, words = positions(opened.model), opened.model.config.get_text_config().vocab_size
    for i, text in enumerate(texts):
        ids = tokenizer(text, truncation=True, max_length=tokens)["input_ids"]
        if most is not None and 0 < most < len(ids):
            raise ValueError(
                f"{opened.name} has {most} positions, and text {i + 1} has {len(ids)} tokens: cut it with "
                f"--tokens {most}"
            )
        if ids and max(ids) >= words:
            raise ValueError(
                f"the tokenizer of {opened.name} does not match: it makes token {max(ids)} of text {i + 1}, and the "
                f"model has {words:,}; save the right tokenizer beside the model"
            )


def spelled(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Each token as the text that it adds, with its blanks, or its number. Half a letter is shown by itself."""
    if tokenizer is None:
        return tuple(map(str, ids))
    whole = [tokenizer.decode(ids[:i], clean_up_tokenization_spaces=False) for i in range(len(ids) + 1)]
    return tuple(
        after[len(before) :] if after.startswith(before) else tokenizer.decode([one])
        for one, before, after in zip(ids, whole[:-1], whole[1:], strict=True)
    )


def examples_of(opened: Opened, wanted: Wanted, tokens: int) -> Source:
    """Validation examples of a run's task."""
    recipe = RunDirectory(Path(opened.name).expanduser()).recipe()
    task = recipe.load_task(wanted.data)
    causal = isinstance(opened.model.config, CausalConfig)
    found = list(islice(rows_of(task, wanted.texts), wanted.texts))

    def read() -> Iterator[Text]:
        for i, row in enumerate(found):
            inputs = {name: x[:, :tokens] for name, x in row.items()} if causal else row
            yield Text(dict(inputs), f"example {i + 1}", tokens_of(opened, inputs))

    return Source(read, len(found), f"validation examples of {recipe.task}")


def rows_of(task: Task, count: int) -> Iterator[Batch]:
    """The first examples of the validation split, one at a time, without columns that are all padding."""
    for batch in task.batches("valid", count):
        for i in range(len(next(iter(batch.values())))):
            yield {name: x[i : i + 1] for name, x in batch.items()}


def tokens_of(opened: Opened, inputs: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The tokens that are not padding, in the stack that leads to the output; empty: they are not text."""
    decodes = "decoder_input_ids" in inputs
    ids = inputs.get("decoder_input_ids" if decodes else "input_ids")
    if ids is None:
        return ()
    mask = inputs["labels"] != IGNORED if decodes else inputs.get("attention_mask", torch.ones_like(ids))
    return spelled(opened.tokenizer, ids[0][mask[0].bool()].tolist())

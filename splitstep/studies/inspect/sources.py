"""What runs through a model: texts by its tokenizer or, of a run of ours, validation examples of its task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from ...opening.texts import batches_of, default_texts, held_out_texts, read_texts, with_chat
from ...support.words import counted
from ...training.directory import RunDirectory
from .measures import predicted_bytes
from .plan import OTHERS

TOKENS = 64  # of a text, unless it is said otherwise
POINTS = 8  # tokens of a sequence of vectors, if the model has no positions


class Text(NamedTuple):
    """One text or example: its inputs (and labels), its name, its tokens, and the bytes of all but the first."""

    inputs: dict[str, Any]
    name: str
    tokens: tuple[str, ...]
    spelt: int | None = None


class Source(NamedTuple):
    """Texts for a model, where they come from, and others of the same kind, which judge what these have chosen."""

    texts: Sequence[Text]
    name: str
    others: Sequence[Text] = ()

    @property
    def every(self) -> Sequence[Text]:
        return [*self.texts, *self.others]


@dataclass(frozen=True)
class TextChoice:
    """Which texts: a file, some that are given, or the package's own; how many, and how long."""

    file: Path | None = None
    texts: int = 8
    tokens: int | None = None  # None: 64, or as many as the models have positions
    data: Path | None = None  # where a run's task has its data
    chat: bool = False  # each is one turn of a user
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value, least in (("texts", self.texts, 1), ("tokens", self.tokens, 2)):
            if value is not None and value < least:
                raise ValueError(f"--{name} {value}: give at least {least}")

    @cached_property
    def all(self) -> list[str]:
        """All texts that there are."""
        if self.file is not None:
            return read_texts(self.file)
        return list(self.given) or [*default_texts(), *(one.text for one in held_out_texts())]

    def unused(self) -> str:
        """How many texts of the file are left out; empty if none are."""
        every = 0 if self.file is None else len(self.all)
        more = counted(every - self.texts, "more text")
        return f" ({more} there, not used: --texts {every})" if every > self.texts else ""

    @property
    def name(self) -> str:
        """Where the texts come from."""
        own, chats = "the package's own texts", ", as chats" if self.chat else ""
        if self.file is not None:
            return f"{self.file}{self.unused()}{chats}"
        return f"{'Python' if self.given else own}{chats}"

    def length(self, models: Sequence[Opened]) -> int:
        """The most tokens of a text."""
        if self.tokens is not None:
            return self.tokens
        return min([TOKENS, *(most for one in models if (most := positions(one.model) or 0) > 1)])


def text_choice(
    texts: int | Sequence[str], file: Path | None, tokens: int | None, data: Path | None, chat: bool
) -> TextChoice:
    """What a person asked for: so many texts, or texts themselves."""
    if isinstance(texts, int):
        return TextChoice(file, texts, tokens, data, chat)
    given = (texts,) if isinstance(texts, str) else tuple(texts)
    return TextChoice(file, len(given), tokens, data, chat, given)


def source_of(opened: Opened, choice: TextChoice, tokens: int) -> Source:
    """The texts for this model, each cut after so many tokens."""
    own = opened.source == "run" and choice.file is None and not choice.given
    if choice.chat and (own or isinstance(opened.model.config, VectorsConfig)):
        raise ValueError(f"--chat is for texts, and {opened.name} is given none: leave it out, or give --text")
    if own:
        return examples_of(opened, choice, tokens)
    if isinstance(opened.model.config, VectorsConfig):
        return points_for(opened.model.config, choice.texts)
    main = opened.model.main_input_name
    if main != "input_ids":
        raise ValueError(
            f"{opened.name} takes {main}, and inspect reads texts: use ss.observe(ss.opening.load(...), inputs, "
            "probes) in Python"
        )
    found = list(tokenized(opened, choice.all[: choice.texts + OTHERS], tokens, choice.chat))
    return Source(found[: choice.texts], choice.name, found[choice.texts :])


def tokenized(opened: Opened, texts: Sequence[str], tokens: int, chat: bool) -> Iterator[Text]:
    """Texts as a model's inputs."""
    tokenizer = with_chat(opened.needs_tokenizer(), opened.name) if chat else opened.needs_tokenizer()
    for i, batch in enumerate(batches_of(texts, tokenizer, tokens, 1)):
        ids = batch["input_ids"]
        check_tokens(opened, ids[0].tolist(), i)
        more = {"decoder_input_ids": ids} if opened.model.config.is_encoder_decoder else {}
        row = ids[0].tolist()
        yield Text({**batch, **more}, f"text {i + 1}", spelled(tokenizer, row), predicted_bytes(tokenizer, row))


def points_for(config: VectorsConfig, many: int) -> Source:
    """Sequences of random numbers from 0 to 1, for a map of sequences of vectors."""
    shape = (many, config.max_positions or POINTS, config.inputs)
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spelt = [tuple(" ".join(f"{x:.2f}" for x in vector) for vector in one) for one in values.tolist()]
    texts = [Text({"values": values[i : i + 1]}, f"sequence {i + 1}", spelt[i]) for i in range(many)]
    return Source(texts, "random numbers from 0 to 1")


def check_tokens(opened: Opened, ids: Sequence[int], i: int) -> None:
    """Refuse a text that is longer than the model's positions, and tokens that the model does not have."""
    most, words = positions(opened.model), opened.model.config.get_text_config().vocab_size
    if most is not None and most < len(ids):
        raise ValueError(
            f"{opened.name} has {most} positions, and text {i + 1} has {len(ids)} tokens: cut it with --tokens {most}"
        )
    if max(ids) >= words:
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


def examples_of(opened: Opened, choice: TextChoice, tokens: int) -> Source:
    """The first validation examples of a run's task, without columns that are all padding, and some more."""
    recipe = RunDirectory(Path(opened.name).expanduser()).recipe()
    batches = recipe.load_task(choice.data).batches("valid", choice.texts)
    cut = tokens if isinstance(opened.model.config, CausalConfig) else None
    rows = (example(batch, i, cut) for batch in batches for i in range(len(next(iter(batch.values())))))
    found = [
        Text(inputs, f"example {i + 1}", tokens_of(opened, inputs), bytes_of(opened, inputs))
        for i, inputs in enumerate(islice(rows, choice.texts + OTHERS))
    ]
    return Source(found[: choice.texts], f"validation examples of {recipe.task}", found[choice.texts :])


def example(batch: Mapping[str, Tensor], i: int, cut: int | None) -> dict[str, Tensor]:
    """One of a batch, or so many of its columns, up to the last label: windows that overlap have none at their
    beginning."""
    if cut is None:
        return {name: x[i : i + 1] for name, x in batch.items()}
    labelled = (batch["labels"][i] != IGNORED).nonzero()
    end = max(cut, int(labelled.max()) + 1 if len(labelled) else 0)
    return {name: x[i : i + 1, end - cut : end] for name, x in batch.items()}


def tokens_of(opened: Opened, inputs: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The tokens that are not padding, in the stack that leads to the output; empty: they are not text."""
    decodes = "decoder_input_ids" in inputs
    ids = inputs.get("decoder_input_ids" if decodes else "input_ids")
    if ids is None:
        return ()
    mask = inputs["labels"] != IGNORED if decodes else inputs.get("attention_mask", torch.ones_like(ids))
    return spelled(opened.tokenizer, ids[0][mask[0].bool()].tolist())


def bytes_of(opened: Opened, inputs: Mapping[str, Tensor]) -> int | None:
    """How many bytes the tokens of an example spell, if it is text that a model goes on with."""
    if not isinstance(opened.model.config, CausalConfig):
        return None
    ids, labels = (inputs[name][0].tolist() for name in ("input_ids", "labels"))
    return predicted_bytes(opened.tokenizer, ids, labels)

"""A small model of any kind with weights at random, on which promises are tried, and what it reads.

It runs on the CPU, in float64, or in float32 if one of its fields has nothing wider.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from math import inf
from typing import Any, final

import torch
from torch import Tensor

from ..shape import SHAPES
from ..support.auto_classes import silent
from .config import SplitstepConfig, kind_of

ROWS, LENGTH, VOCAB = 3, 20, 29
SIZES: dict[str, Any] = dict(
    layers=2, decoder_layers=2, width=32, heads=2, kv_heads=None, head_size=None, ffn=24, activation="gelu", substeps=1,
    vocab_size=VOCAB, max_positions=2 * LENGTH, image_size=16, patch=4, channels=1, inputs=2, outputs=3, token_types=0,
    next_sentence_labels=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    tie_word_embeddings=False, init_modes=0, matched=None,
)  # fmt: skip  # of a small model; all else is as in the model that a letter meets
FITTED = ("width", "heads", "kv_heads", "head_size", "image_size", "patch")  # what options of a letter may have to fit
RATES = ("dropout", "attention_dropout", "activation_dropout")
SPREAD = 0.3  # of what is added to the weights: a field that starts at zero would keep any promise
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}

Given = dict[str, Tensor]


def tokens(seed: int) -> Tensor:
    """Tokens that are not special, [ROWS, LENGTH]."""
    return torch.randint(3, VOCAB, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def real_tokens(left: tuple[int, ...], right: tuple[int, ...]) -> Tensor:
    """A mask with so much padding on both sides of each row, [ROWS, LENGTH]."""
    places = torch.arange(LENGTH)
    return (places >= torch.tensor(left)[:, None]) & (places < LENGTH - torch.tensor(right)[:, None])


@contextmanager
def apart() -> Iterator[None]:
    """On the CPU, with types and random numbers of its own, whatever a model is being made for."""
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"), torch.random.fork_rng(devices=[]), torch.no_grad(), silent():
            torch.manual_seed(0)
            yield
    finally:
        torch.set_default_dtype(kind)


def kind_name(config: SplitstepConfig) -> str:
    """The kind of models that this config describes; "" if it is one of somebody else's, which no trial knows."""
    return next((name for name, shape in SHAPES.items() if isinstance(config, shape)), "")


@final
class Trial:
    """A small model like that of a config, with another scheme, and what it reads."""

    def __init__(self, config: SplitstepConfig, scheme: str) -> None:
        self.kind = kind_name(config)
        self.like, self.scheme = config, scheme
        self.model = self.made(0.0)
        try:
            self()
        except Exception:  # of a field that has nothing wider, or of one that always fails
            self.model.float()

    def made(self, rate: float) -> Any:
        """The model in evaluation mode, with this rate of all dropouts."""
        try:
            model = self.build(rate, SIZES)
        except ValueError:
            model = self.build(rate, {name: value for name, value in SIZES.items() if name not in FITTED})
        random = torch.Generator().manual_seed(1)
        for p in model.parameters():
            p.add_(SPREAD * torch.randn(p.shape, generator=random))
        return model.double().eval()

    def build(self, rate: float, sizes: Mapping[str, Any]) -> Any:
        """The model in these sizes; all else is as in the config."""
        entries = {name: deepcopy(getattr(self.like, name)) for name in self.like.entries()}
        small = {name: value for name, value in sizes.items() if name in entries}
        given = {**entries, **small, **dict.fromkeys(RATES, rate), "scheme": self.scheme}
        return kind_of(self.like).model(type(self.like)(**given))

    @cached_property
    def inputs(self) -> Given:
        """A batch without padding."""
        if self.kind == "image":
            side = self.model.config.image_size
            return {"pixel_values": numbers(ROWS, 1, side, side)}
        if self.kind == "vectors":
            return {"values": numbers(ROWS, LENGTH, 2)}
        return {"input_ids": tokens(0)} | ({"decoder_input_ids": tokens(1)} if self.kind == "translation" else {})

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.model.dtype]

    def __call__(self, given: Mapping[str, Any] | None = None, cache: Any = None, **more: Any) -> Tensor:
        """The logits of a batch."""
        known = {} if cache is None else {"past_key_values": cache}
        return self.model(**(self.inputs if given is None else given), **known, use_cache=False, **more).logits


def gap(found: Tensor, expected: Tensor) -> float:
    """The largest difference; infinite if one of the numbers is none."""
    return float((found - expected).abs().nan_to_num(inf).max()) if found.numel() else 0.0


def other(x: Tensor) -> Tensor:
    """Other tokens, or other numbers, of which a norm does not make the same again."""
    return x.flip(-1) + 1 if x.is_floating_point() else (x + 5) % (VOCAB - 3) + 3

"""Tiny models of every kind for the tests of clients, and inputs for them."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from splitstep.models import KINDS
from splitstep.text.tokenizers import byte_tokenizer

VOCAB, LENGTH, LABELS = 29, 7, 3
SCHEMES = ("lie", "macaron", "strang-midpoint", "parallel", "lie-postnorm", "reversible")
TEXT: dict[str, Any] = dict(layers=2, width=16, heads=4, ffn=24, vocab_size=VOCAB, max_positions=40, init_std=0.3)
SHAPES: dict[str, dict[str, Any]] = {
    "causal": TEXT | dict(pad_token_id=0, bos_token_id=1, tie_word_embeddings=False),
    "masked": TEXT | dict(pad_token_id=0),
    "sequence": TEXT | dict(pad_token_id=0, num_labels=LABELS),
    "image": dict(layers=2, width=16, heads=4, ffn=24, image_size=8, patch=4, num_labels=LABELS, init_std=0.3),
    "vectors": dict(layers=2, width=16, heads=4, ffn=24, max_positions=40, inputs=2, outputs=LABELS, init_std=0.3),
    "translation": TEXT | dict(decoder_layers=2, init="normal", tie_word_embeddings=False),
}
EACH = [*((kind, "macaron") for kind in SHAPES), *(("causal", scheme) for scheme in SCHEMES if scheme != "macaron")]


def tiny(kind: str, scheme: str = "lie", sharp: bool = True, **more: Any) -> Any:
    """A model of this kind in evaluation mode, the same for the same arguments. A sharp one has tokens that differ by
    far and attention that prefers some keys by far, so it does not repeat itself; others have small weights."""
    return drawn(kind, KINDS[kind].config(**(SHAPES[kind] | {"scheme": scheme} | more)), sharp)


def drawn(kind: str, config: Any, sharp: bool = True) -> Any:
    """The model of this config, always with the same weights."""
    torch.manual_seed(0)
    model: Any = KINDS[kind].model(config)
    if sharp:
        sharpen(model)
    return model.eval()


@torch.no_grad()
def sharpen(model: Any) -> None:
    for name, weight in model.named_parameters():
        if "embedding" in name:
            weight.mul_(10.0)
        if "qkv" in name or ".C." in name:
            weight.mul_(2.0)


def tokens(seed: int = 0, rows: int = 3, length: int = LENGTH) -> Tensor:
    return torch.randint(3, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def left_mask(length: int = LENGTH) -> Tensor:
    """Three rows; two begin with padding."""
    return (torch.arange(length) >= torch.tensor([[0], [3], [1]])).long()


def right_mask(length: int = LENGTH) -> Tensor:
    """Three rows; two end with padding."""
    return (torch.arange(length) < torch.tensor([[length], [3], [5]])).long()


def inputs(kind: str) -> dict[str, Tensor]:
    """A batch of three."""
    if kind == "image":
        return {"pixel_values": torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))}
    if kind == "vectors":
        return {"values": torch.randn(3, LENGTH, 2, generator=torch.Generator().manual_seed(0))}
    if kind == "causal":
        return {"input_ids": tokens(), "attention_mask": left_mask()}
    given = {"input_ids": tokens(), "attention_mask": right_mask()}
    return given | ({"decoder_input_ids": tokens(1)} if kind == "translation" else {})


def labels(kind: str) -> Tensor:
    """Labels for the batch of `inputs`."""
    if kind == "vectors":
        return torch.randn(3, LENGTH, LABELS, generator=torch.Generator().manual_seed(1))
    return torch.tensor([0, 2, 1]) if kind in ("sequence", "image") else tokens(1)


def byte_tokenizer_with_padding() -> PreTrainedTokenizerFast:
    newline, zero = "\u010a", "\u0100"  # how ByteLevel writes these bytes
    return PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), eos_token=newline, pad_token=zero)

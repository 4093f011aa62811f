"""Samples, stand-ins for kernels, and models for tests of the fused loss."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import splitstep as ss
from splitstep.kernels.loss import FUSED, IGNORED, Kernels, check, slope_formula
from splitstep.kernels.output_product import COLUMNS

LOSS = importlib.import_module("splitstep.kernels.loss")
PROJECT = importlib.import_module("splitstep.kernels.output_product")
KINDS = ("causal", "masked", "translation")


def padded(classes: int) -> int:
    return -(-classes // COLUMNS) * COLUMNS


def sample(rows: int, width: int, classes: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Logits with numbers that must not be used after the last class, and labels, the second of which is ignored."""
    random = torch.Generator().manual_seed(width)
    logits = 3 * torch.randn(rows, width, generator=random)
    logits[:, classes:] = 100.0
    labels = torch.randint(classes, (rows,), generator=random)
    labels[1] = IGNORED
    return logits.to(device), labels.to(device)


def compare(kernels: Kernels, logits: Tensor, labels: Tensor, classes: int, smoothing: float, rtol: float) -> None:
    """Losses and gradients against the formulas in float64."""
    scale = 1000.0
    exact = logits[:, :classes].double()
    losses, lse = kernels.losses(logits, labels, classes, smoothing)
    slopes = kernels.slopes(logits, labels, lse, torch.tensor(scale, device=logits.device), classes, smoothing)
    expected = functional.cross_entropy(exact, labels, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    assert (losses.dtype, slopes.dtype, slopes.shape) == (torch.float32, logits.dtype, logits.shape)
    assert not slopes[:, classes:].any()
    assert not slopes[labels == IGNORED].any()
    truth = functional.one_hot(labels.clamp(min=0), classes)
    slope = scale * slope_formula(exact, labels, smoothing)
    bound = rtol * (slope.abs() + scale * (truth + smoothing / classes)) + 2e-7  # terms cancel; float16 ends there
    assert ((slopes[:, :classes].double() - slope).abs() <= bound).all()


def agree(kernels: Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: a block and several, full and not; rows with something behind them and between them."""
    check(kernels, device)
    for dtype, smoothing, (classes, rows) in product(FUSED, (0.0, 0.1), ((1, 3), (7, 6), (1000, 4), (33_278, 3))):
        rtol = max(1e-5, (2 if dtype in truncates else 1) * torch.finfo(dtype).eps)
        for width in {classes, padded(classes), classes + 5}:
            logits, labels = sample(rows, width, classes, device)
            compare(kernels, logits.to(dtype), labels, classes, smoothing, rtol)
        between = logits.to(dtype)[:, :classes]
        compare(kernels, between, labels, classes, smoothing, rtol)
        compare(kernels, between.t().contiguous().t(), labels, classes, smoothing, rtol)
        nothing = torch.full_like(labels, IGNORED)
        losses, lse = kernels.losses(between, nothing, classes, smoothing)
        slopes = kernels.slopes(between, nothing, lse, torch.tensor(torch.inf, device=device), classes, smoothing)
        assert not losses.any()
        assert not slopes.any()
    strange(kernels, device)


def strange(kernels: Kernels, device: str) -> None:
    """Classes that are ruled out; rows that are not numbers; labels that are not classes."""
    logits, labels = sample(6, 5000, 5000, device)
    logits[0, :4000] = -torch.inf  # more than a block
    labels[0] = 4500
    compare(kernels, logits, labels, 5000, 0.0, 1e-5)
    logits[0, 0] = -3.4028234663852886e38
    compare(kernels, logits, labels, 5000, 0.0, 1e-5)
    logits[2], logits[3, 7], logits[4, 7], labels[5] = -torch.inf, torch.inf, torch.nan, 5000
    losses, lse = kernels.losses(logits, labels, 5000, 0.1)
    slopes = kernels.slopes(logits, labels, lse, torch.tensor(1.0, device=device), 5000, 0.1)
    assert losses.isnan().tolist() == [False, False, True, True, True, True]
    assert slopes.isnan().any(1).tolist() == [False, False, True, True, True, True]
    assert losses[0] == torch.inf


def by_hand(calls: list[str]) -> Kernels:
    """The kernels, as operations of PyTorch that, like real ones, read memory and no more."""

    def losses(logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> tuple[Tensor, Tensor]:
        logits.data_ptr(), labels.data_ptr()  # an error where there is none
        calls.append("losses")
        rows = logits[:, :classes].float()
        return functional.cross_entropy(rows, labels, reduction="none", label_smoothing=smoothing), rows.logsumexp(1)

    def slopes(logits: Tensor, labels: Tensor, lse: Tensor, g: Tensor, classes: int, smoothing: float) -> Tensor:
        logits.data_ptr(), labels.data_ptr(), lse.data_ptr(), g.data_ptr()
        calls.append("slopes")
        slope = slope_formula(logits[:, :classes].float(), labels, smoothing) * g
        slope = slope.masked_fill((labels == IGNORED)[:, None], 0.0)  # g may be infinite
        return functional.pad(slope, (0, logits.shape[1] - classes)).to(logits.dtype)

    return Kernels(losses, slopes)


def slow(patch: pytest.MonkeyPatch) -> None:
    """Neither padding nor kernels."""
    patch.setattr(LOSS, "fusible", lambda logits, labels: False)
    patch.setattr(PROJECT, "unaligned", lambda head, x: False)


def build(kind: str, vocabulary: int, **more: Any) -> Any:
    torch.manual_seed(0)
    special: dict[str, dict[str, Any]] = {"translation": {"label_smoothing": 0.1, "init": "normal"}}
    shape = {"layers": 1, "width": 32, "heads": 2, "ffn": 64, "vocab_size": vocabulary, "max_positions": 64}
    config = ss.models.KINDS[kind].config(scheme="lie", **(shape | special.get(kind, {}) | more))
    return ss.models.KINDS[kind].model(config).train()


def outcome(model: Any, half: bool = False) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Loss, logits and gradients on batches whose labels are ignored here and there."""
    device, random = model.device, torch.Generator().manual_seed(1)
    ids = torch.randint(5, model.config.vocab_size, (12, 50), generator=random)
    labels = ids.masked_fill(torch.rand(ids.shape, generator=random) < 0.3, IGNORED).to(device)
    model.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        items = torch.tensor(700, device=device)
        out = model(
            ids.to(device), labels=labels, num_items_in_batch=items, dropout_seed=torch.tensor(7, device=device)
        )
    out.loss.backward()
    return out.loss.detach(), out.logits.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

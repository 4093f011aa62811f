"""The contract of every kernel, that it does as its formula does, and samples, stand-ins and models for their tests."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import splitstep as ss
from splitstep.kernels import dropout, gumbel, loss, rotary, softmax
from splitstep.kernels.fusing import FUSED, FastKernel
from splitstep.kernels.loss import COLUMNS, IGNORED, Kernels, slope_formula

KINDS = ("causal", "masked", "translation")
SEEDS = [(0, 0, 0.1), (1, 5, 0.3), (2**31 - 2, 41, 0.5), (123456789, 3, 0.9)]  # seed, salt, p
WIDTHS = ((1, 1), (7, 5), (1000, 1000), (2049, 2048), (33_344, 33_278))  # of rows, and how many columns are classes
TURNS = [(1, 1, 1, 1, 2), (2, 33, 3, 3, 64), (3, 100, 8, 2, 48), (1, 257, 12, 12, 128), (4, 64, 5, 1, 6)]
MASK = 2**64 - 1
KEYS = (0, 1, -1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF, -0x7EDCBA9876543210)


def bits(x: Tensor) -> Tensor:
    """x as integers: zeros have signs."""
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def views(device: str, dtype: torch.dtype) -> Iterator[Tensor]:
    """One block and several, full and not; none, one; in order, out of order, out of line, repeated; tiny numbers."""
    for shape in [(3, 5, 70), (2, 16, 64), (1023,), (1025,), (1,), (0, 4)]:
        yield torch.randn(shape, device=device).to(dtype)
    x = torch.randn(9, 6, 50, device=device).to(dtype)
    yield from (x.transpose(0, 2), x[:, 1::2], x.flatten()[1:], x[:1].expand(4, 6, 50))
    yield torch.linspace(-4, 4, 99, device=device).to(dtype) * torch.finfo(dtype).smallest_normal


def dropout_agrees(multiply: Callable[..., Tensor], device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself; a type that is truncated may be off by two roundings, and by more below normal numbers."""
    for dtype in FUSED:
        for x in views(device, dtype):
            for (seed, salt, p), kind in product(SEEDS, (torch.int32, torch.int64)):
                there = torch.tensor(seed, device=device, dtype=kind)
                found, expected = multiply(x, p, there, salt), dropout.formula(x, p, there, salt)
                assert found.is_contiguous()
                if dtype in truncates:
                    size = torch.finfo(dtype)
                    torch.testing.assert_close(found, expected, rtol=2 * size.eps, atol=16 * size.smallest_normal)
                else:
                    assert torch.equal(bits(found), bits(expected))
        huge = torch.tensor([torch.inf, -torch.inf, torch.nan, torch.finfo(dtype).max] * 20, device=device).to(dtype)
        found, expected = (f(huge, 0.5, torch.tensor(3, device=device), 1) for f in (multiply, dropout.formula))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def splitmix(x: int) -> int:
    """splitmix64's finaliser."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def uniform(key: int, step: int, token: int) -> float:
    row = splitmix((key + step * 0x9E3779B97F4A7C15) & MASK)
    return ((splitmix((row + token * 0xD1B54A32D192ED03) & MASK) >> 11) + 0.5) / 2**53


def gumbel_agrees(add: Callable[..., Tensor], device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: the noise to twelve digits, and the same token chosen."""
    for (rows, tokens), step in product([(1, 1), (3, 5), (2, 1024), (7, 1025), (5, 49_157)], (0, 1, 16, 255)):
        keys = torch.tensor([KEYS[row % len(KEYS)] + row // len(KEYS) for row in range(rows)], device=device)
        wide = torch.randn(rows, tokens + 7, device=device) * 4
        wide[:, tokens // 2 + 1 :: 5] = -torch.inf  # as top-p leaves them
        for scores in (wide[:, :tokens], wide[:, :tokens].double().contiguous(), wide.t()[:tokens].contiguous().t()):
            for temperature in (1.0, 0.7):
                found, expected = (f(scores, keys, step, temperature) for f in (add, gumbel.formula))
                assert found.is_contiguous()
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
                assert torch.equal(found.argmax(-1), expected.argmax(-1))
        noise = [f(torch.zeros(rows, tokens, device=device), keys, step, 1.0) for f in (add, gumbel.formula)]
        torch.testing.assert_close(*noise, rtol=1e-12, atol=1e-15)


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


def loss_agrees(kernels: Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: a block and several, full and not; rows with something behind them and between them."""
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


def close(found: Tensor, expected: Tensor, rtol: float) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=1e-6)


def softmax_agrees(kernels: softmax.Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: a block and several, full and not; rows with something between them."""
    random = torch.Generator().manual_seed(0)
    for dtype, (width, classes), rows in product(FUSED, WIDTHS, (1, 3)):
        rtol = 1e-4 + (2 if dtype in truncates else 1) * torch.finfo(dtype).eps
        p, q = (3 * torch.randn(rows, width + 9, generator=random).to(device, dtype)[:, :width] for _ in range(2))
        scale = torch.randn(rows, generator=random).to(device)
        for temperature in (1.0, 2.0):
            x = q.clone()
            x[:, 1::3] = -torch.inf
            lse, exact = (
                one.row_lse(x.to(to), temperature) for one, to in ((kernels, dtype), (softmax.FORMULAS, torch.float64))
            )
            assert lse.dtype == torch.float32
            close(lse, exact, 1e-5)
            expected = softmax.FORMULAS.scaled_exp_(x.double(), exact, scale.double(), temperature)
            between = torch.empty(rows, width + 9, device=device, dtype=dtype)[:, :width].copy_(x)
            assert kernels.scaled_exp_(between, lse, scale, temperature) is between
            close(between, expected, rtol)
        slopes, exact = q.clone(), q.double()
        expected = softmax.FORMULAS.weighted_kl_(p.double(), exact, scale.double(), classes)
        before = p.clone()
        close(kernels.weighted_kl_(p, slopes, scale, classes), expected, 1e-4)
        assert torch.equal(p, before)
        assert not slopes[:, classes:].any()
        close(slopes, exact, rtol)


def rotary_agrees(kernels: rotary.Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: one position for all rows and one for each; parts that lie in memory in several ways."""
    for (b, t, queries, keys, size), dtype, own in product(TURNS, FUSED, (False, True)):
        offsets = torch.arange(b, device=device)[:, None] * 7 if own else 0
        cos, sin = rotary.rotary(torch.arange(t, device=device)[None] + offsets, size, dtype=dtype)
        x = torch.randn(b, t, (queries + 2 * keys) * size, device=device).to(dtype)
        parts = kernels.split(x, cos, sin, queries, keys)
        exact = {} if dtype in truncates else {"rtol": 0.0, "atol": 0.0}
        torch.testing.assert_close(parts, rotary.split_formula(x, cos, sin, queries, keys), **exact)
        for layout in (lambda y: y, lambda y: y.contiguous(), lambda y: y.mT.contiguous().mT):
            q, k, v = map(layout, parts)
            found, expected = kernels.join(q, k, v, cos, sin), rotary.join_formula(q, k, v, cos, sin)
            torch.testing.assert_close(found, expected, **exact)


def dropout_by_hand(salts: list[int]) -> Callable[..., Tensor]:
    """The kernel of dropout, which like a real one reads memory and no more, and notes its calls."""

    def multiply(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        x.data_ptr(), seed.data_ptr()  # an error where there is none
        assert not torch.is_grad_enabled()
        salts.append(salt)
        return dropout.formula(x, p, seed, salt).contiguous()

    return multiply


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


class Case(NamedTuple):
    """A kernel, or several: its claim, formulas that stand in for it, stand-ins that differ, and the types that the
    interpreter truncates, where a GPU rounds."""

    kernel: FastKernel[Any]
    agrees: Callable[..., None]
    right: Any
    wrong: list[Any]
    truncates: tuple[torch.dtype, ...] = (torch.bfloat16,)


def off(formulas: Any, name: str) -> Any:
    """The formulas, of which one is off by a thousandth."""
    return formulas._replace(**{name: lambda x, *given: getattr(formulas, name)(x, *given) * 1.001})


def wrong_losses(right: Kernels) -> list[Kernels]:
    return [
        right._replace(losses=lambda x, labels, classes, s: right.losses(x, labels, classes, 1.01 * s)),
        right._replace(losses=lambda x, labels, classes, s: right.losses(x, labels, classes + 1, s)),
        right._replace(slopes=lambda x, labels, lse, g, classes, s: right.slopes(x, labels, lse, 1.01 * g, classes, s)),
    ]


ROTARY = rotary.Kernels(rotary.split_formula, rotary.join_formula)
CASES = {
    "dropout": Case(
        dropout.kernel, dropout_agrees, dropout.formula,
        [lambda x, p, seed, salt: dropout.formula(x, p, seed, salt + 1)],
    ),
    "gumbel": Case(
        gumbel.kernel, gumbel_agrees, gumbel.formula,
        [lambda x, keys, step, temperature: gumbel.formula(x, keys, step + 1, temperature)],
    ),
    "loss": Case(loss.kernels, loss_agrees, by_hand([]), wrong_losses(by_hand([]))),
    "rotary": Case(
        rotary.kernels, rotary_agrees, ROTARY,
        [ROTARY._replace(split=lambda x, cos, sin, *heads: rotary.split_formula(x, cos, -sin, *heads)),
         ROTARY._replace(join=lambda q, k, v, cos, sin: rotary.join_formula(q, k, v, cos, -sin))],
    ),
    "softmax": Case(
        softmax.kernels, softmax_agrees, softmax.FORMULAS,
        [off(softmax.FORMULAS, name) for name in softmax.FORMULAS._fields], (torch.bfloat16, torch.float16),
    ),
}  # fmt: skip


def in_interpreter(name: str) -> None:
    """The claim where Triton interprets kernels on the CPU."""
    CASES[name].agrees(CASES[name].kernel.load(), "cpu", CASES[name].truncates)


def slow(patch: pytest.MonkeyPatch) -> None:
    """Neither padding nor kernels."""
    patch.setattr(loss, "fusible", lambda logits, labels: False)
    patch.setattr(loss, "unaligned", lambda head, x: False)


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


def reversible(device: str = "cpu") -> ss.SplitstepForCausalLM:
    torch.manual_seed(0)
    config = ss.CausalConfig(
        scheme="reversible", layers=1, width=32, heads=2, ffn=64, vocab_size=32, dropout=0.1, attention_dropout=0.1,
        activation_dropout=0.1,
    )  # fmt: skip
    return ss.SplitstepForCausalLM(config).to(device).train()


def gradients(network: ss.SplitstepForCausalLM, call: Callable[..., Any], half: bool = False) -> list[Tensor]:
    """The loss and its gradients."""
    device = network.device
    ids = torch.randint(32, (2, 8), generator=torch.Generator().manual_seed(1)).to(device)
    network.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        loss = call(ids, labels=ids, dropout_seed=torch.tensor(7, device=device)).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in network.parameters() if p.grad is not None)]

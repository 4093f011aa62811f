"""Attention in packed rows, kernel by kernel: time of forward and backward, and whether the answer is right.

    python benchmarks/packed_attention.py --out results/pretrain/packed_attention.json
    python benchmarks/packed_attention.py --tiny --out /tmp/packed.json         # what runs without a GPU

Rows of 512 tokens, 12 heads of 64, bf16, queries, keys and values as views of one product, as the model has them. Two
kinds of text: one document a row, and a mixture of lengths. Without dropout, outputs and gradients are compared with
softmax written out in float32. With dropout, the masks of forward and backward must be the same: the output is linear
in v, so <dv, v> = <output, g>; and weights must be 1 in the mean. Times are those of a captured graph if the kernel can
be captured. "set-up" is what a batch needs once, for all layers: a mask, bounds, a block mask.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mlm_throughput import BATCHES, TINY, Shape, make_texts
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from splitstep.fields.attention import Pairing, barrier
from splitstep.kernels.packed_attention import bounds_of, by_pieces
from splitstep.models.masks import same_text
from splitstep.support.files import write_atomically
from splitstep.tasks.corpus.packing import piece_ends, piece_numbers
from splitstep.training.directory import stamp

Attend = Callable[[Tensor, Tensor, Tensor, float], Tensor]  # (q, k, v, p) -> output, all [B, heads, T, e]
SetUp = Callable[[Tensor, Tensor], Attend]  # the piece of each token [B, T], their ends [B, P] -> attention


class Given(NamedTuple):
    """Queries, keys and values in one tensor [B, T, 3 * width], the gradient of the output, the piece of each token,
    where pieces end."""

    qkv: Tensor
    g: Tensor
    text: Tensor
    ends: Tensor
    heads: int

    def split(self) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.qkv.chunk(3, -1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in parts)
        return q, k, v


def dense(*backends: SDPBackend) -> SetUp:
    """The fused kernel under a mask, as the model calls it; of these backends, or of those that PyTorch prefers."""

    def set_up(text: Tensor, ends: Tensor) -> Attend:
        mask = barrier(same_text(text), torch.bfloat16 if text.is_cuda else torch.float32)

        def attend(q: Tensor, k: Tensor, v: Tensor, p: float) -> Tensor:
            if not backends:
                return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
            with sdpa_kernel(list(backends)):
                return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)

        return attend

    return set_up


def unmasked(*backends: SDPBackend) -> SetUp:
    """The fused kernel without a mask: right if each row is one piece, and what a mask is to be compared with."""
    every = list(backends) or [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

    def set_up(text: Tensor, ends: Tensor) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor, p: float) -> Tensor:
            with sdpa_kernel(every):
                return functional.scaled_dot_product_attention(q, k, v, dropout_p=p)

        return attend

    return set_up


def pieces(text: Tensor, ends: Tensor) -> Attend:
    """The flash kernel piece by piece, with room for a fixed number of pieces."""
    bounds = bounds_of(ends, text.shape[1])
    return lambda q, k, v, p: by_pieces(q, k, v, bounds, p)


def exact_pieces(text: Tensor, ends: Tensor) -> Attend:
    """The same without empty pieces: what their room costs. Its shapes change from batch to batch."""
    bounds = bounds_of(ends, text.shape[1]).unique()
    return lambda q, k, v, p: by_pieces(q, k, v, bounds, p)


def public_varlen(text: Tensor, ends: Tensor) -> Attend:
    """`varlen_attn`, the flash kernel's public form."""
    from torch.nn.attention.varlen import varlen_attn

    bounds, length = bounds_of(ends, text.shape[1]), text.shape[1]

    def attend(q: Tensor, k: Tensor, v: Tensor, p: float) -> Tensor:
        if p:
            raise NotImplementedError("varlen_attn has no dropout")
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
        y: Any = varlen_attn(q, k, v, bounds, bounds, length, length)
        return y.unflatten(0, (-1, length)).transpose(1, 2)

    return attend


FLEX: dict[str, Any] = {}  # compiled once


def flex(text: Tensor, ends: Tensor) -> Attend:
    """`flex_attention`, compiled, with a block mask."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if not FLEX:
        FLEX.update(attend=torch.compile(flex_attention, dynamic=False), mask=torch.compile(create_block_mask))
    b, t = text.shape
    mask = FLEX["mask"](lambda b, h, i, j: text[b, i] == text[b, j], b, None, t, t, device=text.device)

    def attend(q: Tensor, k: Tensor, v: Tensor, p: float) -> Tensor:
        if p:
            raise NotImplementedError("flex_attention has no dropout")
        return FLEX["attend"](q, k, v, block_mask=mask)

    return attend


WAYS: dict[str, SetUp] = {
    "mask, as now": dense(),
    "mask, cuDNN": dense(SDPBackend.CUDNN_ATTENTION),
    "mask, efficient": dense(SDPBackend.EFFICIENT_ATTENTION),
    "pieces, flash": pieces,
    "pieces, flash, exact": exact_pieces,
    "pieces, varlen_attn": public_varlen,
    "flex_attention": flex,
    "no mask, flash": unmasked(SDPBackend.FLASH_ATTENTION),
    "no mask, cuDNN": unmasked(SDPBackend.CUDNN_ATTENTION),
}
ON_CPU: dict[str, SetUp] = {"mask, as now": dense(), "no mask": unmasked()}


def forward_backward(given: Given, attend: Attend, p: float) -> tuple[Tensor, Tensor]:
    """The output [B, T, heads, e] and the gradient of queries, keys and values."""
    y = attend(*given.split(), p).transpose(1, 2)
    [slope] = torch.autograd.grad(y, given.qkv, given.g)
    return y.detach(), slope


def written_out(given: Given) -> tuple[Tensor, Tensor]:
    """The same in float32, by the formula."""
    wide = given._replace(qkv=given.qkv.detach().float().requires_grad_(), g=given.g.float())
    mask = barrier(same_text(given.text), torch.float32)
    return forward_backward(wide, lambda q, k, v, p: Pairing(q, k, v, mask, False).weights() @ v, 0.0)


def distance(found: Tensor, wanted: Tensor) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


def errors(given: Given, attend: Attend, p: float, wanted: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Relative errors of output and gradients; with dropout, of the two identities that hold for every mask."""
    y, slope = forward_backward(given, attend, p)
    if not p:
        return {"output": distance(y, wanted[0]), "gradient": distance(slope, wanted[1])}
    v, dv = (x.chunk(3, -1)[2].double() for x in (given.qkv.detach(), slope))
    paired = (y.double() * given.g.double()).sum()
    ones = given._replace(qkv=torch.cat([*given.qkv.detach().chunk(3, -1)[:2], torch.ones_like(v, dtype=y.dtype)], -1))
    mean = attend(*ones.split(), p).double().mean()
    size = float(y.double().norm() * given.g.double().norm())
    return {"linear": float(abs((v * dv).sum() - paired)) / size, "mean": abs(float(mean) - 1)}


def settled(cuda: bool) -> float:
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def milliseconds(run: Callable[[], object], cuda: bool, times: int) -> float:
    """The median of three, after a first call."""
    run()
    found = []
    for _ in range(3):
        begun = settled(cuda)
        for _ in range(times):
            run()
        found.append((settled(cuda) - begun) / times * 1e3)
    return statistics.median(found)


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """The same as a CUDA graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph.replay


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:100]


def measured(given: Given, set_up: SetUp, p: float, wanted: tuple[Tensor, Tensor], times: int) -> dict[str, Any]:
    """Set-up, errors, time and memory of one kernel."""
    cuda, found = given.qkv.is_cuda, dict[str, Any]()
    attend = set_up(given.text, given.ends)
    found["errors"] = errors(given, attend, p, wanted)
    found["set_up_ms"] = milliseconds(lambda: set_up(given.text, given.ends), cuda, 3)
    run = lambda: forward_backward(given, attend, p)  # noqa: E731
    if cuda:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        found["memory_mib"] = (torch.cuda.max_memory_allocated() - before) / 2**20
    found["eager_ms"] = milliseconds(run, cuda, times)
    if cuda:
        try:
            found["ms"] = milliseconds(captured(run), cuda, times)
        except Exception as error:
            torch.cuda.synchronize()
            found["not_captured"] = one_line(error)
    return found


def make_given(kind: str, shape: Shape, batch: int, device: torch.device) -> Given:
    rows = make_texts(kind, shape, BATCHES * batch).packed[:batch]
    text, ends = (torch.from_numpy(x).to(device) for x in (piece_numbers(rows) + 1, piece_ends(rows)))
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    qkv = torch.randn(batch, shape.length, 3 * shape.width, device=device).to(dtype).requires_grad_()
    g = torch.randn(batch, shape.length, shape.heads, shape.width // shape.heads, device=device).to(dtype)
    return Given(qkv, g, text, ends, shape.heads)


def line(row: dict[str, Any]) -> str:
    name = f"{row['text']:10} {row['batch']:>4} {row['dropout']:>4} {row['way']:22}"
    if "failed" in row:
        return f"{name} {row['failed']}"
    figures = [row.get(key) for key in ("ms", "eager_ms", "set_up_ms", "memory_mib")]
    shown = " ".join(f"{'-' if x is None else f'{x:.2f}':>9}" for x in figures)
    wrong = ", ".join(f"{key} {value:.1e}" for key, value in row["errors"].items())
    return f"{name} {shown}  {wrong} {row.get('not_captured', '')}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/pretrain/packed_attention.json"))
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--tiny", action="store_true", help="tiny rows, also without a GPU")
    given = parser.parse_args()
    cuda = torch.cuda.is_available()
    if not cuda and not given.tiny:
        print("This benchmark needs a CUDA device; --tiny runs anywhere.", file=sys.stderr)
        return 2
    device, shape = torch.device("cuda" if cuda else "cpu"), TINY if given.tiny else Shape()
    card = torch.cuda.get_device_name() if cuda else "CPU"
    rows: list[dict[str, Any]] = []
    given.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{'text':10} {'B':>4} {'p':>4} {'':22} {'captured':>9} {'eager':>9} {'set-up':>9} {'MiB':>9}  errors; ms")
    for kind in ("mixture", "full rows"):
        for batch in [3] if given.tiny else given.batch:
            texts = make_given(kind, shape, batch, device)
            wanted = written_out(texts)
            for p in (0.1, 0.0):
                for name, set_up in (WAYS if cuda else ON_CPU).items():
                    row: dict[str, Any] = {"text": kind, "batch": batch, "dropout": p, "way": name}
                    try:
                        row |= measured(texts, set_up, p, wanted, given.times)
                    except Exception as error:
                        row["failed"] = one_line(error)
                    rows.append(row)
                    print(line(row), flush=True)
                    document = {"command": " ".join(["python", *sys.argv]), "card": card, **stamp(), "rows": rows}
                    write_atomically(given.out, json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

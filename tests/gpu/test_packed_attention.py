"""Attention piece by piece on a GPU, against whole rows under a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import splitstep as ss
from splitstep.kernels.packed_attention import bounds_of, by_pieces
from splitstep.models.masks import same_text
from splitstep.tasks.corpus.packing import piece_ends, piece_numbers
from splitstep.tasks.corpus.subwords import CLS, PAD, SEP


def rows() -> np.ndarray:
    """Rows of 64 tokens: one piece, many short ones, and two with a [PAD] at the end."""
    found = np.full((3, 64), 9)
    found[0, [0, -1]] = CLS, SEP
    found[1, ::4], found[1, 3::4] = CLS, SEP
    found[2, [0, 20]], found[2, [19, 62]], found[2, 63] = CLS, SEP, PAD
    return found


def packed() -> tuple[Tensor, Tensor]:
    """The piece of each token, and the bounds of pieces."""
    return torch.from_numpy(piece_numbers(rows())).cuda(), bounds_of(torch.from_numpy(piece_ends(rows())).cuda(), 64)


def random_heads() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(3, 4, 64, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]


def test_pieces_give_the_attention_of_whole_rows_under_a_mask() -> None:
    (text, bounds), (q, k, v) = packed(), random_heads()
    given = [q, k, v]
    g = torch.randn_like(given[0])
    wide = [x.detach().float().requires_grad_() for x in given]
    wanted = functional.scaled_dot_product_attention(*wide, attn_mask=same_text(text))
    found = by_pieces(q, k, v, bounds, 0.0)
    torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=2e-2)
    slopes, expected = torch.autograd.grad(found, given, g), torch.autograd.grad(wanted, wide, g.float())
    for one, other in zip(slopes, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=3e-2, atol=3e-2)


def test_dropout_is_the_same_forward_and_backward_and_new_in_each_replay() -> None:
    (_, bounds), (q, k, v) = packed(), random_heads()
    g = torch.randn_like(v)

    def both() -> tuple[Tensor, Tensor]:
        y = by_pieces(q, k, v, bounds, 0.3)
        return y.detach(), torch.autograd.grad(y, v, g)[0]

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        both()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        y, slope = both()
    seen = []
    for _ in range(2):
        graph.replay()
        size = y.double().norm() * g.double().norm()
        assert abs((slope.double() * v.double()).sum() - (y.double() * g.double()).sum()) < 1e-3 * size  # linear in v
        seen.append(y.clone())
    assert not torch.equal(*seen)


@pytest.mark.parametrize("scheme", ["lie", "macaron"])
def test_a_model_that_knows_the_ends_of_pieces_has_the_same_logits(scheme: str) -> None:
    config = ss.MaskedConfig(scheme=scheme, layers=2, width=64, heads=4, vocab_size=50, max_positions=64)
    torch.manual_seed(0)
    model: Any = ss.SplitstepForMaskedLM(config)
    model = model.cuda().eval()
    ids, (text, _) = torch.randint(5, 50, (3, 64), device="cuda"), packed()
    ends = torch.from_numpy(piece_ends(rows())).cuda()
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        wanted, found = model(ids, seq_idx=text).logits, model(ids, seq_idx=text, piece_ends=ends).logits
    torch.testing.assert_close(found, wanted, rtol=3e-2, atol=3e-2)

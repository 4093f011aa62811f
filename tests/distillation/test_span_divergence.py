"""The divergence of spans is that of its logits, whatever the size of its parts, and so is its gradient."""

from __future__ import annotations

import pytest
import torch
from made_up_distil import random
from torch import Tensor

from splitstep.distillation import span_divergence
from splitstep.distillation.span_divergence import Side, weighted_kl


def sides() -> tuple[Side, Side, Tensor]:
    teacher = Side(random(7, 6, seed=1), random(11, 6, seed=2))
    student = Side(random(7, 5, seed=3).requires_grad_(), random(11, 5, seed=4).requires_grad_())
    return teacher, student, random(7, seed=5).exp()


def by_logits(teacher: Side, student: Side, weights: Tensor) -> Tensor:
    log_p, log_q = ((side.points @ side.rows.mT).log_softmax(-1) for side in (teacher, student))
    return (weights * (log_p.exp() * (log_p - log_q)).sum(-1)).sum()


@pytest.mark.parametrize("parts", [2, 16])
@pytest.mark.parametrize("entries", [1, 22, 33, 2**24])
def test_value_and_gradient_are_those_of_all_logits(entries: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_divergence, "ENTRIES", entries)
    monkeypatch.setattr(span_divergence, "PARTS", parts)
    teacher, student, weights = sides()
    found, expected = 3 * weighted_kl(teacher, student, weights), 3 * by_logits(teacher, student, weights)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    slopes, exact = torch.autograd.grad(found, student), torch.autograd.grad(expected, student)
    torch.testing.assert_close(slopes, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("points", "parts"), [(1, 1), (15, 15), (16, 16), (17, 9), (160, 16), (1000, 16)])
def test_many_points_are_in_at_most_sixteen_parts(points: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_divergence, "ENTRIES", 11)
    sizes: list[int] = []

    def counting(self: Side, part: slice) -> Tensor:
        sizes.append(len(self.points[part]))
        return self.points[part] @ self.rows.mT

    monkeypatch.setattr(Side, "logits", counting)
    weighted_kl(Side(random(points, 6), random(11, 6)), Side(random(points, 5), random(11, 5)), random(points))
    assert sum(sizes) == 2 * points
    assert len(sizes) == 2 * parts


def test_products_are_rounded_under_autocast_and_sums_are_not() -> None:
    teacher, student, weights = (
        Side(*(x.detach().float().requires_grad_() for x in one)) if isinstance(one, Side) else one.float()
        for one in sides()
    )
    assert isinstance(teacher, Side)
    assert isinstance(student, Side)
    assert isinstance(weights, Tensor)
    exact = by_logits(teacher, student, weights)
    with torch.autocast("cpu", torch.bfloat16):
        found = weighted_kl(teacher, student, weights)
    slopes, expected = torch.autograd.grad(found, student), torch.autograd.grad(exact, student)
    assert found.dtype == torch.float32
    assert found.item() != exact.item()
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0)
    for slope, one in zip(slopes, expected, strict=True):
        torch.testing.assert_close(slope, one, rtol=0.05, atol=0.05)

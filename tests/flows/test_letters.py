"""A field that reads other tokens is A, whatever the rounding; one that does not is F."""

from itertools import count

import pytest
import torch
from torch import Tensor

from splitstep.flows.parts import spreads

X = torch.randn(2, 50, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_that_differs_from_pass_to_pass_mixes_no_tokens(dtype: torch.dtype) -> None:
    calls = count()

    def rounded(x: Tensor) -> Tensor:
        return x.tanh() * (1 + next(calls) * torch.finfo(dtype).eps)

    assert spreads(rounded, X.to(dtype)) is False


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_that_look_at_all_before_them_mix_in_any_precision(dtype: torch.dtype) -> None:
    allowed = torch.ones(50, 50).tril().bool()

    def attention(x: Tensor) -> Tensor:
        return (x @ x.mT / 8).masked_fill(~allowed, -torch.inf).softmax(-1) @ x

    assert spreads(attention, X.to(dtype)) is True
    assert spreads(lambda x: attention(x.flip(1)).flip(1), X.to(dtype)) is True


def test_a_field_that_no_token_changes_has_no_letter_of_its_own() -> None:
    assert spreads(torch.ones_like, X) is None

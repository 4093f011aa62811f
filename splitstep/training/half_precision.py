"""Weights cast to half precision all at once: two kernels in all, instead of autocast's two per weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..stack import Stack


class Halves(torch.autograd.Function):
    """Copies of the weights in another type, and gradients in the weights' own."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        return converted(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return None, *converted(gradients, torch.float32)


def converted(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(x, dtype=dtype) for x in tensors]
    torch._foreach_copy_(copies, tensors)  # pyright: ignore[reportPrivateImportUsage]
    return tuple(copies)


def evaluated_once(model: nn.Module) -> Iterator[str]:
    """The names of the trained float32 weights that one pass through the model uses once. Those of a field that is
    evaluated more often stay with autocast, which sums their gradients in float32."""
    for path, stack in model.named_modules():
        if not isinstance(stack, Stack) or stack.scheme.doubled:
            continue
        for name, module in stack.layers.named_modules(prefix=f"{path}.layers"):
            if isinstance(module, nn.Linear) and stack.scheme.count(name[len(path) :].split(".")[3]) == 1:
                weights = module.named_parameters(name)
                yield from (name for name, p in weights if p.dtype == torch.float32 and p.requires_grad)


def with_halves(model: nn.Module, dtype: torch.dtype) -> Callable[..., Any]:
    """The module as a function that uses its weights in half precision; its results are those of autocast."""
    names = list(evaluated_once(model))
    weights = [model.get_parameter(name) for name in names]
    if not names:
        return model

    def call(*inputs: Any, **named: Any) -> Any:
        copies: Any = Halves.apply(dtype, *weights)
        return functional_call(model, dict(zip(names, copies, strict=True)), inputs, named)

    return call

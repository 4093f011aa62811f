"""The limit of explicit diffusion while alpha is learnt."""

from __future__ import annotations

import torch
from torch.nn import functional

from ..fields import Diffusion
from ..models import SplitstepModel
from ..models.base import all_stacks
from ..stability import beyond_limit, longest_step
from ..stack import Stack
from .sharding import gathered


def fields_of(stack: Stack) -> list[tuple[int, Diffusion]]:
    """The diffusions of a stack that its scheme advances explicitly, with their layers."""
    found = [(i, field) for i, layer in enumerate(stack.layers) for field in layer.children()]
    diffusions = [(i, field) for i, field in found if isinstance(field, Diffusion)]
    return [(i, d) for i, d in diffusions if longest_step(stack.scheme, d.ends, d.axes)[0] < float("inf")]


@torch.no_grad()
def beyond_diffusion_limit(model: SplitstepModel) -> str:
    """Which layer's alpha has grown beyond the limit of its explicit steps, and what to type; "" if none has. It waits
    for the device, so ask as rarely as for the loss."""
    for stack in all_stacks(model):
        if not (fields := fields_of(stack)):
            continue
        alphas = functional.softplus(torch.cat([gathered(d.a).float() for _, d in fields])).tolist()
        for alpha, (layer, d) in zip(alphas, fields, strict=True):
            if wrong := beyond_limit(stack.scheme, alpha, stack.step / stack.substeps, d.ends, d.axes):
                return f"layer {layer}: {wrong}"
    return ""

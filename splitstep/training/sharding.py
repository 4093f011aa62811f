"""Fully sharded parameters: cutting a model up, and whole tensors to and from their shards."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..stack import Stack


def shard(model: nn.Module) -> None:
    """Shard every layer of every stack, then what is left, over all processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
    for module in model.modules():
        if isinstance(module, Stack):
            for layer in module.layers:
                for field in layer.values():  # pyright: ignore
                    if any(True for _ in field.parameters()):
                        fully_shard(field, mesh=mesh)
    fully_shard(model, mesh=mesh)


def gathered(tensor: Tensor) -> Tensor:
    """The whole tensor on every process."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def scattered(whole: Tensor, like: Tensor) -> Tensor:
    """The whole tensor cut up as `like` is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    return distribute_tensor(whole, like.device_mesh, like.placements) if isinstance(like, DTensor) else whole

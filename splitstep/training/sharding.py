"""One model on several processes: copies that average gradients, or parameters sharded between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..integrate import ExactField
from ..stack import Stack
from .objective import Learner
from .processes import World, launch_flag


class Spread(NamedTuple):
    """What to call instead of the learner, its parameters, and a context in which backward passes only accumulate."""

    call: Callable[..., Tensor]
    parameters: list[nn.Parameter]
    accumulating: Callable[[], AbstractContextManager[Any]]


def choose_parallel(parallel: str, world: World) -> str:
    """How the processes share the model: "none" if there is only one, else "ddp" or "fsdp"."""
    if world.size == 1:
        return "none"
    return ("fsdp" if launch_flag("ACCELERATE_USE_FSDP") else "ddp") if parallel == "auto" else parallel


def spread(learner: Learner, parallel: str, world: World) -> Spread:
    """The learner over all processes. accelerate would silently replace FSDP on CPU by DDP, so both are set up here."""
    if parallel == "fsdp":
        shard(learner)
    if parallel != "ddp":
        return Spread(learner, list(learner.parameters()), nullcontext)
    from torch.nn.parallel import DistributedDataParallel

    copies = DistributedDataParallel(learner, device_ids=[world.device] if world.device.type == "cuda" else None)
    return Spread(copies, list(learner.parameters()), copies.no_sync)


def shard(learner: Learner) -> None:
    """Shard every field of every stack, then the rest of the model, which is also called without the learner, then the
    objective. A reversible stack calls no field as a module, so all of it belongs to the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # fields return views, which would be unsafe if anything here worked in place
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor", UserWarning)
    model, objective = learner.model, learner.objective
    mesh = init_device_mesh(next(model.parameters()).device.type, (torch.distributed.get_world_size(),))
    for stack in [module for module in model.modules() if isinstance(module, Stack) and not module.scheme.doubled]:
        for layer in stack.layers:
            for field in layer.values():  # pyright: ignore[reportCallIssue]
                called = not isinstance(field, ExactField)  # a flow is another method, which no hook of theirs sees
                if called and any(True for _ in field.parameters()):
                    fully_shard(field, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)  # else an evaluation leaves parameters unsharded
    if isinstance(objective, nn.Module):
        fully_shard(objective, mesh=mesh, reshard_after_forward=True)


def gathered(tensor: Tensor) -> Tensor:
    """The whole tensor on every process."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class Piece(NamedTuple):
    """What this process holds of a tensor of this shape: rows from `start` on if it is sharded, else all of them."""

    local: Tensor
    start: int
    shape: torch.Size
    is_sharded: bool


def pieces(tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
    return {name: piece(x) for name, x in tensors.items()}


def piece(tensor: Tensor) -> Piece:
    from torch.distributed.tensor import DTensor

    whole = tensor.detach()
    if not isinstance(whole, DTensor):
        return Piece(whole, 0, whole.shape, False)
    assert [p.is_shard(0) for p in whole.placements] == [True], whole.placements
    rows = -(-len(whole) // whole.device_mesh.size())  # on each process but the last ones
    return Piece(whole.to_local(), min(whole.device_mesh.get_local_rank() * rows, len(whole)), whole.shape, True)

"""The weights of a run: copied to several processes or sharded between them, and cast to half precision at once."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..integrate import ExactField
from ..stack import Stack
from .objective import Learner
from .processes import Processes, launch_flag


class Distributed(NamedTuple):
    """What to call instead of the learner, its parameters, and a context in which backward passes only accumulate."""

    call: Callable[..., Tensor]
    parameters: list[nn.Parameter]
    accumulating: Callable[[], AbstractContextManager[Any]]


def choose_parallel(parallel: str, world: Processes) -> str:
    """How the processes share the model: "none" if there is only one, else "ddp" or "fsdp"."""
    if world.size == 1:
        return "none"
    return ("fsdp" if launch_flag("ACCELERATE_USE_FSDP") else "ddp") if parallel == "auto" else parallel


def spread(learner: Learner, parallel: str, world: Processes) -> Distributed:
    """The learner over all processes. accelerate would silently replace FSDP on CPU by DDP, so both are set up here."""
    if parallel == "fsdp":
        shard(learner)
    if parallel != "ddp":
        return Distributed(learner, list(learner.parameters()), nullcontext)
    from torch.nn.parallel import DistributedDataParallel

    copies = DistributedDataParallel(learner, device_ids=[world.device] if world.device.type == "cuda" else None)
    return Distributed(copies, list(learner.parameters()), copies.no_sync)


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


class LocalShard(NamedTuple):
    """What this process holds of a tensor of this shape: rows from `start` on if it is sharded, else all of them."""

    local: Tensor
    start: int
    shape: torch.Size
    is_sharded: bool


def pieces(tensors: Mapping[str, Tensor]) -> dict[str, LocalShard]:
    return {name: piece(x) for name, x in tensors.items()}


def piece(tensor: Tensor) -> LocalShard:
    from torch.distributed.tensor import DTensor

    whole = tensor.detach()
    if not isinstance(whole, DTensor):
        return LocalShard(whole, 0, whole.shape, False)
    assert [p.is_shard(0) for p in whole.placements] == [True], whole.placements
    rows = -(-len(whole) // whole.device_mesh.size())  # on each process but the last ones
    return LocalShard(whole.to_local(), min(whole.device_mesh.get_local_rank() * rows, len(whole)), whole.shape, True)


class CastWeights(torch.autograd.Function):
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
        copies: Any = CastWeights.apply(dtype, *weights)
        return functional_call(model, dict(zip(names, copies, strict=True)), inputs, named)

    return call

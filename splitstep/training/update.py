"""One update: forward, backward, clipping, optimizer; eager, compiled or captured, the same function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..tasks import Batch
from .recipe import TrainOptions


class Work(NamedTuple):
    """The data of one update on this process: parts to accumulate, a dropout seed for each, and the number of scored
    items in the whole batch, over all parts and processes."""

    parts: Sequence[Batch]
    seeds: Sequence[Tensor]
    items: Tensor

    def to(self, device: torch.device) -> Work:
        def move(x: Tensor) -> Tensor:
            return x.to(device, non_blocking=True)

        parts = [{name: move(x) for name, x in part.items()} for part in self.parts]
        return Work(parts, [move(x) for x in self.seeds], move(self.items))

    def tensors(self) -> list[Tensor]:
        return [*(x for part in self.parts for x in part.values()), *self.seeds, self.items]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple((x.shape, x.dtype) for x in self.tensors())


Update = Callable[[Work, float], tuple[Tensor, Tensor]]  # (work, learning rate) -> (loss, gradient norm)


def make_optimizer(model: nn.Module, options: TrainOptions, device: torch.device) -> torch.optim.AdamW:
    """AdamW with decay on matrices only. Its state exists from the start, so that no first step differs."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    captured = device.type == "cuda"
    lr: Any = torch.tensor(options.lr, device=device) if captured else options.lr
    first, second = options.betas
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr,
        (first, second),
        options.eps,
        fused=True,
        capturable=captured,
    )
    for p in parameters:
        optimizer.state[p] = {
            "step": torch.zeros((), device=p.device if captured else "cpu"),
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": torch.zeros_like(p),
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def autocast(precision: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Half precision for the fields; no cache of cast weights, which a captured graph must not keep."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision, cache_enabled=False)


def eager_update(
    model: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    options: TrainOptions,
    precision: torch.dtype,
    device: torch.device,
    world: int = 1,
) -> Callable[[Work], tuple[Tensor, Tensor]]:
    """The update itself, without the learning rate."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def update(work: Work) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for part, seed in zip(work.parts, work.seeds, strict=True):
            with autocast(precision, device):
                loss = model(**part, dropout_seed=seed, num_items_in_batch=work.items).loss
            (loss * world).backward()  # processes average their gradients; the loss is a sum over them
            total = total + loss.detach()
        if options.clip:
            norm = nn.utils.clip_grad_norm_(parameters, options.clip)
        else:
            norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        optimizer.step()
        return total, norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # pyright: ignore

    return update


class Plain:
    """The update as it stands, eager or compiled."""

    def __init__(
        self, update: Callable[[Work], tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer, device: torch.device
    ) -> None:
        self.update, self.optimizer, self.device = update, optimizer, device

    def __call__(self, work: Work, lr: float) -> tuple[Tensor, Tensor]:
        set_learning_rate(self.optimizer, lr)
        return self.update(work.to(self.device))


class Captured:
    """The whole update as one CUDA graph per batch shape: small models are bound by kernel launches."""

    def __init__(
        self,
        update: Callable[[Work], tuple[Tensor, Tensor]],
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
    ) -> None:
        self.update, self.model, self.optimizer, self.device = update, model, optimizer, device
        self.graphs: dict[Any, tuple[torch.cuda.CUDAGraph, Work, tuple[Tensor, Tensor]]] = {}
        self.pool: Any = None

    def __call__(self, work: Work, lr: float) -> tuple[Tensor, Tensor]:
        if work.shape not in self.graphs:
            self.graphs[work.shape] = self.capture(work)
        graph, static, (loss, norm) = self.graphs[work.shape]
        set_learning_rate(self.optimizer, lr)
        for target, source in zip(static.tensors(), work.tensors(), strict=True):
            target.copy_(source, non_blocking=True)
        graph.replay()
        return loss.clone(), norm.clone()

    def capture(self, work: Work) -> tuple[torch.cuda.CUDAGraph, Work, tuple[Tensor, Tensor]]:
        """Warm up on a side stream with a learning rate of 0, put the state back, then record."""
        static = Work(
            [{name: x.to(self.device).clone() for name, x in part.items()} for part in work.parts],
            [x.to(self.device).clone() for x in work.seeds],
            work.items.to(self.device).clone(),
        )
        kept = [t.clone() for t in self.state()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.update(static)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for tensor, before in zip(self.state(), kept, strict=True):
                tensor.copy_(before)
        del kept
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.update(static)
        self.pool = self.pool or graph.pool()
        return graph, static, out

    def state(self) -> list[Tensor]:
        moments = [t for p in self.model.parameters() for t in self.optimizer.state.get(p, {}).values()]
        return [*self.model.parameters(), *moments]


def choose_mode(mode: str, device: torch.device, world: int) -> str:
    """What "auto" means here: captured graphs on a single GPU, eager elsewhere."""
    if mode == "auto":
        return "capture" if device.type == "cuda" and world == 1 else "eager"
    if "capture" in mode and (device.type != "cuda" or world > 1):
        where = f"{world} processes" if world > 1 else device.type
        raise ValueError(
            f"train.mode={mode} needs one process with one CUDA device; here: {where}. Use train.mode=auto."
        )
    return mode

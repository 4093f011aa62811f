"""One update: forward, backward, clipping, optimizer; the same function eager, compiled or captured."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

import torch
from torch import Tensor, nn

from ..options import TrainOptions
from ..support.memory import no_collection
from .objective import Learner, UpdateBatch
from .processes import Processes
from .weights import Distributed, gathered, with_halves

Update = Callable[[UpdateBatch, float], tuple[Tensor, Tensor]]  # (work, learning rate) -> (loss, gradient norm)
Step = Callable[[UpdateBatch], tuple[Tensor, Tensor]]
SHAPES = 64  # batch shapes that are compiled, each by itself; further ones run eagerly
NATIVE = ("avx512_bf16", "amx_bf16", "bf16")  # what processors call products in bfloat16


def choose_mode(mode: str, world: Processes) -> str:
    """The mode to use; "auto" is captured graphs on a single GPU, eager elsewhere."""
    if mode == "auto":
        return "capture" if world.device.type == "cuda" and world.size == 1 else "eager"
    if "capture" in mode and (world.device.type != "cuda" or world.size > 1):
        where = f"{world.size} processes" if world.size > 1 else world.device.type
        raise ValueError(
            f"train.mode={mode} needs one process with one CUDA device; here: {where}. Use train.mode=auto."
        )
    return mode


def choose_precision(precision: str, device: torch.device) -> torch.dtype:
    """The precision to use; "auto" is bfloat16 on a GPU that has it, else float32."""
    if precision == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def native_bfloat16() -> bool:
    """Whether updates run on a processor that multiplies in bfloat16 itself, rather than on an accelerator."""
    known = getattr(torch.cpu, "get_capabilities", dict)()
    return not torch.accelerator.is_available() and any(known.get(name) for name in NATIVE)


def make_optimizer(model: nn.Module, options: TrainOptions, device: torch.device) -> torch.optim.AdamW:
    """AdamW with decay on matrices only. Its state exists from the start, so the first step is like any other.

    While `found_inf` is 1 a step changes nothing. `plain_step` sets it for good at the first gradient that is not
    finite, so the weights that led to it are still there when the loop notices.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    capturable = device.type == "cuda"
    lr: Any = torch.tensor(options.lr, device=device) if capturable else options.lr
    first, second = options.betas
    used = [group for group in groups if group["params"]]
    optimizer = torch.optim.AdamW(used, lr, (first, second), options.eps, fused=True, capturable=capturable)
    for p in parameters:
        optimizer.state[p] = {
            "step": torch.zeros((), device=p.device if capturable else "cpu"),
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": torch.zeros_like(p),
        }
    optimizer.found_inf = torch.zeros((), device=device)  # pyright: ignore[reportAttributeAccessIssue]
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def autocast(precision: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Half precision for the fields, without the cache of cast weights, which a captured graph must not keep."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision, cache_enabled=False)


def plain_step(
    shared: Distributed, optimizer: torch.optim.AdamW, options: TrainOptions, precision: torch.dtype, world: Processes
) -> Step:
    """The update itself, without the learning rate. The loss is this process's share."""
    stopped: Tensor = optimizer.found_inf  # pyright: ignore[reportAttributeAccessIssue]

    def step(work: UpdateBatch) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=world.device)
        for number, (part, seed) in enumerate(zip(work.parts, work.seeds, strict=True), 1):
            with shared.accumulating() if number < len(work.parts) else nullcontext():
                with autocast(precision, world.device):
                    loss = shared.call(part, work.items, seed)
                (loss * world.size).backward()  # processes average their gradients; the loss is a sum over them
            total = total + loss.detach()
        if options.clip:
            norm = nn.utils.clip_grad_norm_(shared.parameters, options.clip)
        else:
            norm = nn.utils.get_total_norm([p.grad for p in shared.parameters if p.grad is not None])
        norm = gathered(norm)
        stopped.copy_(torch.maximum(stopped, (~norm.isfinite()).to(stopped.dtype)))
        optimizer.step()
        return total, norm

    return step


def eager(step: Step, optimizer: torch.optim.Optimizer, device: torch.device) -> Update:
    """The update as it is."""

    def update(work: UpdateBatch, lr: float) -> tuple[Tensor, Tensor]:
        set_learning_rate(optimizer, lr)
        return step(work.to(device))

    return update


@final
class Captured:
    """The whole update as one CUDA graph per batch shape: small models are bound by kernel launches. It is eager if it
    cannot be captured; if `is_eager` is None, the first update finds out."""

    def __init__(self, step: Step, learner: Learner, optimizer: torch.optim.AdamW, device: torch.device) -> None:
        self.step, self.learner, self.optimizer, self.device = step, learner, optimizer, device
        self.graphs: dict[Any, tuple[torch.cuda.CUDAGraph, UpdateBatch, tuple[Tensor, Tensor]]] = {}
        self.pool: Any = None
        self.is_eager: bool | None = False
        self.stream = torch.cuda.Stream()  # of warm-up and recording: gradients accumulate on the stream that made them

    def __call__(self, work: UpdateBatch, lr: float) -> tuple[Tensor, Tensor]:
        if self.is_eager is None:
            self.is_eager = not self.can_capture(work)
            if self.is_eager:
                warnings.warn("updates are eager: this model waits for the device, which no graph can do", stacklevel=2)
        if self.is_eager:
            return eager(self.step, self.optimizer, self.device)(work, lr)
        if work.shape not in self.graphs:
            self.graphs[work.shape] = self.capture(work)
        graph, static, (loss, norm) = self.graphs[work.shape]
        set_learning_rate(self.optimizer, lr)
        for target, source in zip(static.tensors(), work.tensors(), strict=True):
            target.copy_(source, non_blocking=True)
        graph.replay()
        return loss.clone(), norm.clone()

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Updates on a side stream, after which everything is as it was before."""
        kept, random = [t.clone() for t in self.state()], torch.cuda.get_rng_state(self.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")  # it only costs a wait
            yield
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.no_grad():
            for tensor, before in zip(self.state(), kept, strict=True):
                tensor.copy_(before)
        torch.cuda.set_rng_state(random, self.device)

    def can_capture(self, work: UpdateBatch) -> bool:
        """Whether an update runs without waiting for a number from the device, as if it were being captured.

        Some models always wait. Those of transformers look into their masks, but not during a capture.
        """
        static = work.to(self.device)
        with self.rehearsal(), pretended_capture():  # the first update may also wait for what it sets up
            return all(runs(lambda: self.step(static), waiting) for waiting in ("default", "error"))

    def capture(self, work: UpdateBatch) -> tuple[torch.cuda.CUDAGraph, UpdateBatch, tuple[Tensor, Tensor]]:
        """Warm up, restore everything, then record."""
        static = work.to(self.device).over(Tensor.clone)
        with self.rehearsal():
            for _ in range(3):
                self.step(static)
        graph = torch.cuda.CUDAGraph()
        # thread_local: the thread that prepares batches may pin memory during the capture. No garbage is collected:
        # memory that is freed may be noted on another stream, which would end the capture
        with (
            no_collection(),
            torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"),
        ):
            out = self.step(static)
        self.pool = self.pool or graph.pool()
        return graph, static, out

    def state(self) -> list[Tensor]:
        changing = [t for p, moments in self.optimizer.state.items() for t in (p, *moments.values())]
        return [*changing, *self.learner.buffers(), self.optimizer.found_inf]  # pyright: ignore


@contextmanager
def pretended_capture() -> Iterator[None]:
    """Let Python code that asks whether a graph is being captured believe so."""
    asked = torch.cuda.is_current_stream_capturing
    torch.cuda.is_current_stream_capturing = lambda: True
    try:
        yield
    finally:
        torch.cuda.is_current_stream_capturing = asked


def runs(act: Callable[[], Any], waiting: str) -> bool:
    """Whether a function comes to its end if waiting for the device is the "default" or an "error"."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that not everything is detected
        torch.cuda.set_sync_debug_mode(waiting)
    try:
        act()
    except RuntimeError:
        return False
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return True


def make_update(
    learner: Learner,
    shared: Distributed,
    optimizer: torch.optim.AdamW,
    options: TrainOptions,
    precision: torch.dtype,
    mode: str,
    world: Processes,
) -> Update:
    """The update of this mode; `shared` is the learner over all processes."""
    if "compile" in mode:
        torch._dynamo.config.recompile_limit = SHAPES  # pyright: ignore[reportAttributeAccessIssue]
        shared = shared._replace(call=torch.compile(shared.call, dynamic=False))
    elif "capture" in mode and precision != torch.float32:  # a compiler fuses autocast's casts by itself
        shared = shared._replace(call=with_halves(learner, precision))
    step = plain_step(shared, optimizer, options, precision, world)
    if "capture" in mode:
        return Captured(step, learner, optimizer, world.device)
    return eager(step, optimizer, world.device)

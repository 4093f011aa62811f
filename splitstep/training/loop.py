"""The training loop, in the open: batches are a pure function of the step, so a run can stop and go on anywhere."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from ..models import MODELS, SplitstepModel
from ..models.cost import cost
from ..models.models import IGNORED, all_stacks
from ..schemes import name_of, scheme
from ..tasks import Batch, Task
from .checkpoint import load_checkpoint, rng_state, save_checkpoint, set_rng_state
from .directory import RunDirectory, git_hash, versions
from .evaluate import evaluate
from .progress import Progress
from .recipe import Recipe, TrainOptions
from .schedule import learning_rate
from .sharding import gathered, scattered, shard
from .update import Captured, Plain, Update, Work, choose_mode, eager_update, make_optimizer

DIVERGED = 3.0  # times the first interval's loss


class State(NamedTuple):
    """Where a run stands: all that a checkpoint keeps beside tensors."""

    step: int = 0
    seconds: float = 0.0  # of training and evaluation, earlier sittings included
    training_seconds: float = 0.0  # of updates alone, the first of each sitting left out
    timed_tokens: int = 0
    tokens: int = 0
    first_loss: float | None = None
    best: float | None = None
    best_step: int = 0
    best_valid: dict[str, float] | None = None


class Diverged(Exception):
    """The loss is no longer a number, or far above where it began."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(f"the loss is {loss} at step {step}")
        self.step, self.loss = step, loss


def scored_items(task: Task, batch: Batch) -> int:
    """How many labels of the batch count."""
    labels = batch["labels"][:, 1:] if task.model == "causal" else batch["labels"]
    return int((labels != IGNORED).sum())


def tokens_of(task: Task, batch: Batch) -> int:
    if "attention_mask" in batch:
        return int(batch["attention_mask"].sum())
    return batch["input_ids"].numel() if "input_ids" in batch else len(batch["labels"]) * task.length


def dropout_seed(seed: int, step: int, rank: int, part: int) -> Tensor:
    return torch.tensor(int(np.random.SeedSequence([seed, step, rank, part]).generate_state(1)[0]) >> 1)


def work_for(task: Task, options: TrainOptions, step: int, rank: int, world: int) -> tuple[Work, int]:
    """This process's share of update number `step`, and the tokens of the whole update."""
    batch = task.batch(options.seed, step, options.batch)
    rows = {name: x[rank::world] for name, x in batch.items()}
    chunks = {name: x.chunk(options.accumulate) for name, x in rows.items()}
    parts = [{name: chunks[name][i].contiguous() for name in chunks} for i in range(options.accumulate)]
    seeds = [dropout_seed(options.seed, step, rank, i) for i in range(options.accumulate)]
    return Work(parts, seeds, torch.tensor(float(scored_items(task, batch)))), tokens_of(task, batch)


@contextmanager
def prefetched(make: Callable[[int], Any], first: int, last: int, depth: int = 4) -> Iterator[Iterator[Any]]:
    """make(first) .. make(last - 1), made ahead by a thread while the device computes."""
    ready: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def fill() -> None:
        try:
            for step in range(first, last):
                put((make(step), None))
                if stop.is_set():
                    return
        except BaseException as error:
            put((None, error))

    def items() -> Iterator[Any]:
        for _ in range(first, last):
            item, error = ready.get()
            if error is not None:
                raise error
            yield item

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield items()
    finally:
        stop.set()
        thread.join(timeout=10)


def choose_precision(precision: str, device: torch.device) -> torch.dtype:
    if precision == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def build_model(recipe: Recipe, task: Task) -> SplitstepModel:
    """The network of the recipe, initialised from its seed alone."""
    config = recipe.config(task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.train.seed)
        return MODELS[task.model](config)  # pyright: ignore[reportCallIssue]


class Run:
    """One training run, from its directory and back to it."""

    def __init__(self, recipe: Recipe, directory: RunDirectory, task: Task, quiet: bool, tensorboard: bool) -> None:
        self.recipe, self.directory, self.task, self.quiet = recipe, directory, task, quiet
        self.options = recipe.train
        self.accelerator = Accelerator()
        self.device, self.rank = self.accelerator.device, self.accelerator.process_index
        self.world = self.accelerator.num_processes
        if self.options.batch % (self.world * self.options.accumulate):
            raise ValueError(
                f"train.batch={self.options.batch} cannot be shared by {self.world} processes and "
                f"{self.options.accumulate} accumulated parts: use a multiple of {self.world * self.options.accumulate}"
            )
        self.mode = choose_mode(self.options.mode, self.device, self.world)
        self.precision = choose_precision(self.options.precision, self.device)
        self.model = build_model(recipe, task).to(self.device).train()
        self.cost = cost(self.model.config, task.length)
        self.best: dict[str, Tensor] = {}
        self.state = State()
        self.writer = self.open_tensorboard() if tensorboard and self.rank == 0 else None
        wrapped: Any = self.model
        if self.world > 1 and self.options.parallel == "fsdp":
            shard(self.model)
        elif self.world > 1:
            wrapped = self.accelerator.prepare_model(self.model)
        self.optimizer = make_optimizer(self.model, self.options, self.device)
        self.update = self.build_update(wrapped)

    def open_tensorboard(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("--tensorboard needs a package: pip install tensorboard") from None
        return SummaryWriter(str(self.directory.path / "tensorboard"))

    def build_update(self, wrapped: Any) -> Update:
        called = torch.compile(wrapped, dynamic=False) if "compile" in self.mode else wrapped
        update = eager_update(called, self.optimizer, self.options, self.precision, self.device, self.world)
        if "capture" in self.mode:
            return Captured(update, self.model, self.optimizer, self.device)
        return Plain(update, self.optimizer, self.device)

    # -- what is kept ---------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        return {name: gathered(p.detach()) for name, p in self.model.named_parameters()}

    def load_weights(self, tensors: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(scattered(tensors[name].to(self.device), p))

    def moments(self) -> dict[str, Tensor]:
        return {
            f"{name}:{key}": gathered(value)
            for name, p in self.model.named_parameters()
            for key, value in self.optimizer.state[p].items()
        }

    def load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        for name, p in self.model.named_parameters():
            for key, value in self.optimizer.state[p].items():
                value.copy_(scattered(tensors[f"{name}:{key}"].to(value.device), value))

    def save(self) -> None:
        tensors = {"model": self.weights(), "optimizer": self.moments(), "rng": rng_state()}
        if self.best:
            tensors["best"] = self.best
        if self.rank == 0:
            save_checkpoint(self.directory.checkpoints, self.state.step, self.state._asdict(), tensors)
        self.accelerator.wait_for_everyone()

    def restore(self) -> None:
        """Go on from the newest checkpoint, if there is one."""
        kept = load_checkpoint(self.directory.checkpoints)
        if kept is not None:
            state, tensors = kept
            self.state = State(**state)
            self.load_weights(tensors["model"])
            self.load_moments(tensors["optimizer"])
            set_rng_state(tensors["rng"])
            self.best = tensors.get("best", {})
        if self.rank == 0:
            self.directory.rewind(self.state.step)
        self.accelerator.wait_for_everyone()

    # -- the loop -------------------------------------------------------------------------------------------------

    def fit(self) -> str:
        """Train to the end; "finished" or "diverged"."""
        options = self.options
        every = options.evaluate_every or max(1, options.steps // 10)
        title = f"{self.recipe.task} {self.recipe.scheme} seed {options.seed}"
        losses: list[Tensor] = []
        saved = start = timed = time.monotonic()
        sitting, tokens_timed, first = self.state, 0, self.state.step
        paused = 0.0  # evaluation and checkpoints are not training

        def make(step: int) -> tuple[Work, int]:
            return work_for(self.task, options, step, self.rank, self.world)

        with (
            Progress(title, options.steps, self.quiet or self.rank > 0) as progress,
            prefetched(make, first, options.steps) as works,
        ):
            for step, (work, tokens) in zip(range(first, options.steps), works, strict=True):
                loss, norm = self.update(work, learning_rate(options, step))
                losses.append(loss)
                done = step + 1
                if step == first:  # compilation and capture happen here
                    self.synchronise()
                    timed = time.monotonic()
                else:
                    tokens_timed += tokens
                self.state = self.state._replace(step=done, tokens=self.state.tokens + tokens)
                last = done == options.steps
                if done % options.log_every == 0 or last or done % every == 0:
                    mean = self.check(losses, done)
                    losses = []
                    training = time.monotonic() - timed - paused
                    rate = tokens_timed / training if training > 0 else 0.0
                    self.state = self.state._replace(
                        first_loss=self.state.first_loss or mean,
                        training_seconds=sitting.training_seconds + training,
                        timed_tokens=sitting.timed_tokens + tokens_timed,
                    )
                    self.report(progress, done, mean, norm, learning_rate(options, step), rate)
                if done % every == 0 or last:
                    begun = time.monotonic()
                    self.evaluate_and_keep(progress)
                    paused += time.monotonic() - begun
                self.state = self.state._replace(seconds=sitting.seconds + time.monotonic() - start)
                if self.time_to_save(saved) and not last:
                    begun = time.monotonic()
                    self.check(losses, done)
                    self.save()
                    saved = time.monotonic()
                    paused += saved - begun
        self.save()
        return "finished"

    def time_to_save(self, saved: float) -> bool:
        """Whether a checkpoint is due; the first process decides for all."""
        due = time.monotonic() - saved > self.options.checkpoint_seconds
        if self.world == 1:
            return due
        flag = torch.tensor([float(due and self.rank == 0)], device=self.device)
        return bool(self.accelerator.reduce(flag, "sum").item())  # pyright: ignore

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def check(self, losses: list[Tensor], done: int) -> float:
        """The mean of the newest losses over all processes; refuses to go on where one is no number."""
        if not losses:
            return float("nan")
        values = torch.stack(losses).double()
        if self.world > 1:
            values = self.accelerator.reduce(values, "sum")  # pyright: ignore
        values = values.cpu()  # pyright: ignore
        bad = (~torch.isfinite(values)).nonzero().flatten().tolist()
        if bad:
            raise Diverged(done - len(losses) + bad[0] + 1, float(values[bad[0]]))
        mean = float(values.mean())
        if self.state.first_loss is not None and mean > DIVERGED * self.state.first_loss + 1:
            raise Diverged(done, mean)
        return mean

    def report(self, progress: Progress, step: int, loss: float, norm: Tensor, lr: float, rate: float) -> None:
        if self.rank:
            return
        record = {
            "step": step,
            "split": "train",
            "loss": loss,
            "lr": lr,
            "gradient_norm": float(norm),
            "tokens_per_second": rate,
        }
        self.directory.log(record)
        if self.writer is not None:
            for name in ("loss", "lr", "gradient_norm"):
                self.writer.add_scalar(f"train/{name}", record[name], step)
        left = None
        if rate:
            left = (self.options.steps - step) * self.state.tokens / max(step, 1) / rate
        progress.update(step, {"loss": loss, "lr": lr, "tokens/s": rate}, left, step == self.options.steps)

    def evaluate_and_keep(self, progress: Progress) -> None:
        """Figures on the validation split; the best weights are kept."""
        figures = evaluate(
            self.model,
            self.task,
            "valid",
            self.options.evaluate_batch or self.options.batch,
            self.precision,
            self.accelerator,
        )
        value = figures[self.task.metric.name]
        better = self.state.best is None or (
            (value > self.state.best) == self.task.metric.higher_is_better and value != self.state.best
        )
        if better:
            self.best = {name: weight.cpu().clone() for name, weight in self.weights().items()}
            self.state = self.state._replace(best=value, best_step=self.state.step, best_valid=figures)
        if self.rank == 0:
            self.directory.log({"step": self.state.step, "split": "valid", **figures})
            if self.writer is not None:
                for name, figure in figures.items():
                    self.writer.add_scalar(f"valid/{name}", figure, self.state.step)
            progress.update(self.state.step, {f"valid {self.task.metric.name}": value}, None, True)

    # -- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """Test the best weights, save them as a Hugging Face model, write the result."""
        if self.best:
            self.load_weights(self.best)
        size = self.options.evaluate_batch or self.options.batch
        test = evaluate(self.model, self.task, "test", size, self.precision, self.accelerator)
        document = {**self.document("finished"), "test": test}
        if self.rank == 0:
            if self.options.parallel == "fsdp" and self.world > 1:
                whole = build_model(self.recipe, self.task)
                whole.load_state_dict(self.best, strict=False)
                whole.save_pretrained(self.directory.model)
            else:
                self.model.save_pretrained(self.directory.model)
            self.directory.write_result(document)
        self.accelerator.wait_for_everyone()
        return document

    def diverged(self, error: Diverged) -> dict[str, Any]:
        """The result of a run that blew up: when, where, and the size of every layer's state."""
        document = {
            **self.document("diverged"),
            "diverged": {"step": error.step, "loss": repr(error.loss), **self.norms()},
        }
        if self.rank == 0:
            self.directory.write_result(document)
        return document

    @torch.no_grad()
    def norms(self) -> dict[str, Any]:
        """The size of the state before each layer on a training batch, and the first layer where it is no number."""
        from ..models.body import Watch

        watch = Watch(None)
        batch = self.task.batch(self.options.seed, 0, max(1, min(8, self.options.batch)))
        self.model(**{name: x.to(self.device) for name, x in batch.items()}, observe=watch)
        sizes = [float(x.float().norm(dim=-1).mean()) for x in watch.states]
        bad = next((i for i, s in enumerate(sizes) if not np.isfinite(s)), None)
        weights = {
            i: float(torch.stack([p.detach().float().norm() for p in layer.parameters()]).norm())
            for stack in all_stacks(self.model)
            for i, layer in enumerate(stack.layers)
        }
        return {
            "layer": bad,
            "state_norms": [repr(s) for s in sizes],
            "weight_norms": {str(i): repr(w) for i, w in weights.items()},
        }

    def document(self, status: str) -> dict[str, Any]:
        state, config = self.state, self.model.config
        rate = state.timed_tokens / state.training_seconds if state.training_seconds else None
        return {
            "status": status,
            "task": self.recipe.task,
            "scheme": {"name": name_of(scheme(config.scheme)), "notation": config.scheme},
            "seed": self.options.seed,
            "metric": self.task.metric._asdict(),
            "best_step": state.best_step,
            "valid": state.best_valid,
            "steps": state.step,
            "tokens": state.tokens,
            "seconds": round(state.seconds, 3),
            "tokens_per_second": rate,
            "cost": self.cost._asdict(),
            "matched": config.matched,
            "shape": {"layers": config.layers, "width": config.width, "ffn": config.ffn, "step": config.step},
            "device": device_name(self.device),
            "processes": self.world,
            "precision": str(self.precision).removeprefix("torch."),
            "mode": self.mode,
            "versions": versions(),
            "commit": git_hash(),
            "date": datetime.now(UTC).date().isoformat(),
            "recipe": self.recipe.document(),
        }


def device_name(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{device.type}, {torch.get_num_threads()} threads"
    )


def train(
    recipe: Recipe, out: Path, data: Path | None = None, quiet: bool = False, tensorboard: bool = False
) -> dict[str, Any]:
    """Train a recipe in the directory `out`, or go on with it, or return its result where it is done."""
    directory = RunDirectory(out)
    directory.claim(recipe.document())
    result = directory.result()
    if result is not None:
        return result
    task = recipe.load_task(data)
    run = Run(recipe, directory, task, quiet, tensorboard)
    if run.rank == 0:
        directory.write_once(
            "environment.json", {"versions": versions(), "commit": git_hash(), "data": task.describe()}
        )
    run.restore()
    try:
        run.fit()
    except Diverged as error:
        return run.diverged(error)
    return run.finish()

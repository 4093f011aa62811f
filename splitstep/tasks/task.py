"""What a task is: one problem with its data, its batches and its metric."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..kernels.loss import IGNORED, cross_entropy
from ..text.splits import SPLITS

Batch = dict[str, Tensor]
"""`input_ids`, `labels` and, if rows are padded, `attention_mask` (text); `pixel_values` and `labels` (images)."""


class Metric(NamedTuple):
    """A figure by which runs are compared, and how a table prints it; `title` if the name alone is not clear.

    Intervals end at the least and the greatest value that the figure can have.
    """

    name: str
    higher_is_better: bool
    format: str
    title: str = ""
    least: float | None = None
    greatest: float | None = None


def title_of(metric: Metric) -> str:
    """What a table calls the metric."""
    return metric.title or metric.name.replace("_", " ")


class FreeRun(NamedTuple):
    """What a model wrote for a split by itself, line by line; its scores in full, and their values by short names."""

    lines: list[str]
    scores: list[dict[str, Any]]
    figures: dict[str, float]


class DataNote(NamedTuple):
    """The data of a task: how much, how one gets it, its files in the data folder, and where they come from."""

    size: str
    how: Literal["built in", "generated", "fetched", "by hand", "your own"]
    files: tuple[str, ...] = ()
    origin: str = ""


ACCURACY = Metric("accuracy", True, "{:.2%}", least=0.0, greatest=1.0)


BITS_PER_BYTE = Metric("bits_per_byte", False, "{:.3f}", least=0.0)


PERPLEXITY = Metric("perplexity", False, "{:,.2f}", least=1.0)


class Task(ABC):
    """One problem: its data, its batches and its metric."""

    name: ClassVar[str]
    model: ClassVar[str]
    """The kind of model: "causal", "masked", "sequence" (text classification), "image" or "translation"."""
    Options: ClassVar[type]
    """The frozen record that a recipe's `data:` section is read into."""
    note: ClassVar[DataNote | None] = None
    """What `splitstep tasks` says about the data; None: nothing."""
    metric: Metric
    """The primary figure. Read it from an instance: that of `wikitext2` depends on its `level`."""
    labels: tuple[str, ...] = ()
    """The names of the classes in the order of their numbers; empty unless the task is a classification."""

    @classmethod
    def with_tokenizer_of(cls, options: Any, folder: str) -> Any:
        """The options for the text as the model of a run or a folder reads it; tasks with tokens of their own keep
        theirs."""
        return options

    @abstractmethod
    def __init__(self, options: Any, data: Path | None) -> None:
        """Load the data, if there is any: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""

    @property
    @abstractmethod
    def shape(self) -> dict[str, int]:
        """The config entries that the data dictate."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The tokens per example that costs are counted for."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts of the data that `batches` accepts."""
        return SPLITS

    @property
    def tests(self) -> tuple[str, ...]:
        """The splits that a run is tested on when it is over, the main one first."""
        return ("test",)

    @abstractmethod
    def batch(self, seed: int, step: int, size: int) -> Batch:
        """Training batch number `step`: a pure function of its arguments."""

    @abstractmethod
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every example of a split once, in a fixed order; the last batch of a shape may be smaller."""

    def items(self, batch: Batch) -> int:
        """How many labels of a batch are scored: the loss is a mean over them."""
        return int((batch["labels"] != IGNORED).sum())

    def tokens(self, batch: Batch) -> int:
        """How many tokens a batch holds, without padding; a run's speed is measured in these."""
        return int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()

    @abstractmethod
    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """Sums over one batch, to be added up over batches. The logits are in the precision of the evaluation."""

    def score_output(self, output: Any, batch: Batch) -> dict[str, float]:
        """As `score`, from all that the model returns; for tasks that score more than its logits."""
        return self.score(output.logits, batch)

    @abstractmethod
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """The figures that follow from summed scores: `loss`, the metric and others."""

    def predictions(self, logits: Tensor, batch: Batch) -> Tensor | None:
        """What was predicted and what is right for each example [B, 2], if some figure does not follow from sums."""
        return None

    def summary_of_all(self, predictions: Tensor) -> dict[str, float]:
        """The figures that follow from the `predictions` for all examples [N, 2]."""
        return {}

    def free_run(
        self, model: nn.Module, split: str, precision: torch.dtype, progress: Callable[[int, int], None] | None = None
    ) -> FreeRun | None:
        """What the model, in evaluation mode, writes for the split by itself; None if that is not scored."""
        return None

    def save_with(self, folder: Path) -> None:  # noqa: B027  # a task may have nothing to add
        """Write what a model needs besides its weights to be used without the data, such as a tokenizer."""

    def same_tokens(self, folder: Path) -> bool:
        """Whether the model in a folder was trained with this task's tokens; asked if the vocabularies are as large."""
        return True

    def remarks(self) -> dict[str, dict[str, int]]:
        """What users should know about held-out splits: each oddity, and how many examples of each split have it."""
        return {}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What the data are: source, counts and hashes, as JSON values."""


def check_split(task: Task, split: str) -> None:
    """Refuse a split that the task does not have."""
    if split not in task.splits:
        raise ValueError(f'task "{task.name}" has no split "{split}"; choose one of {", ".join(task.splits)}')


def check_totals(task: Task, totals: Mapping[str, float], count: str) -> float:
    """The number of scored items; totals over nothing are refused."""
    scored = totals.get(count, 0.0)
    if scored <= 0:
        raise ValueError(f'task "{task.name}": nothing was scored ({count} = {scored}); sum `score` over a batch first')
    return scored


def score_tokens(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of the cross-entropy in nats, of correct predictions and of tokens with a label; logits [B, T, V]."""
    nll, correct = cross_entropy(logits, labels, 1), logits.argmax(-1) == labels
    return {"nll": float(nll), "correct": float(correct.sum()), "tokens": float((labels != IGNORED).sum())}


def hashes(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The sha256 of each split's values."""
    return {split: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() for split, array in arrays.items()}

"""What a task is: one problem with its data, its batches and its measure.

Nothing here imports torch before a batch is made, so tasks are listed, and their options checked, without it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, final

import numpy as np

from ..options import at_least
from ..text.splits import SPLITS
from .batching import Batching, Chosen
from .measures import Measure, Metric

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Batch: TypeAlias = "dict[str, Tensor]"
"""`input_ids`, `labels` and, if rows are padded, `attention_mask` (text); `pixel_values` and `labels` (images)."""
Arrays = dict[str, np.ndarray]
IGNORED = -100  # a label that no loss counts


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


@dataclass(frozen=True)
class Data:
    """What a task learns from: the examples of each split, where they come from, what reads them (a tokenizer, a
    vocabulary, the form of text, the scale of pixels), and the names of classes."""

    splits: Mapping[str, Any]
    source: Mapping[str, Any]
    reader: Any = None
    labels: tuple[str, ...] = ()
    measure: Measure | None = None
    """If it is not the one of all tasks of this kind."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the kind of task takes."""


class Task(ABC):
    """One problem: its data, its batches and its metric.

    A kind of task says how `batching` chooses examples, how they are put together, and what is measured.
    """

    note: ClassVar[DataNote | None] = None
    """What `splitstep tasks` says about the data of a class that is a task by itself; None: nothing."""
    model: ClassVar[str]
    """The kind of model: "causal", "masked", "sequence" (text classification), "image" or "translation"."""
    own_tokens: ClassVar[bool] = True
    """Whether the task has tokens of its own whatever model starts; else its option `tokenizer` says whose they are."""
    name: str
    options: Any
    """The frozen record that a recipe's `data:` section is read into."""
    data: Data
    measure: Measure
    batching: Batching
    labels: tuple[str, ...] = ()
    """The names of the classes in the order of their numbers; empty unless the task is a classification."""
    splits: tuple[str, ...] = SPLITS
    """The parts of the data that `batches` accepts."""

    @classmethod
    def with_tokenizer_of(cls, options: Any, folder: str) -> Any:
        """The options for the text as the model of a run or a folder reads it."""
        return options if cls.own_tokens else replace(options, tokenizer=folder)

    @property
    @final
    def metric(self) -> Metric:
        """The primary figure."""
        return self.measure.metric

    @property
    @abstractmethod
    def shape(self) -> dict[str, int]:
        """The config entries that the data dictate."""

    @property
    def length(self) -> int:
        """The tokens per example that costs are counted for: all that the device computes, padding included."""
        return self.batching.mean_width

    @property
    def tests(self) -> tuple[str, ...]:
        """The splits that a run is tested on when it is over, the main one first."""
        return ("test",)

    @abstractmethod
    def collate(self, chosen: Chosen) -> Arrays:
        """The arrays of a batch."""

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        """Training batch number `step`: a pure function of its arguments."""
        return tensors(self.collate(self.batching.draw(seed, step, size)))

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every example of a split once, in a fixed order; the last batch of a shape may be smaller."""
        check_split(self, split)
        at_least("size", size, 1)
        for chosen in self.batching.every(self.named(split), size):
            yield tensors(self.collate(chosen))

    def named(self, split: str) -> str:
        """The split that is meant by a name."""
        return split

    def items(self, batch: Batch) -> int:
        """How many labels of a batch are scored: the loss is a mean over them. Of a language model's rows the first
        is not: nothing predicts it."""
        labels = batch["labels"][:, 1:] if self.model == "causal" else batch["labels"]
        return int((labels != IGNORED).sum())

    def tokens(self, batch: Batch) -> int:
        """How many tokens a batch holds, without padding; a run's speed is measured in these."""
        return int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()

    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """Sums over one batch, to be added up over batches. The logits are in the precision of the evaluation."""
        return self.measure.sums(logits, batch["labels"])

    def score_output(self, output: Any, batch: Batch) -> dict[str, float]:
        """As `score`, from all that the model returns; for tasks that score more than its logits."""
        return self.score(output.logits, batch)

    @final
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """The figures that follow from summed scores: `loss`, the metric and others."""
        count = self.measure.counted
        if (scored := totals.get(count, 0.0)) <= 0:
            raise ValueError(
                f'task "{self.name}": nothing was scored ({count} = {scored}); sum `score` over a batch first'
            )
        return self.measure.figures(totals)

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

    @final
    def remarks(self) -> dict[str, dict[str, int]]:
        """What users should know about held-out splits: each oddity, and how many examples of each split have it."""
        found = {what: {split: n for split, n in counts.items() if n} for what, counts in self.oddities().items()}
        return {what: counts for what, counts in found.items() if counts}

    def oddities(self) -> Mapping[str, Mapping[str, int]]:
        """As `remarks`; counts may be 0."""
        return {}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What the data are: source, counts and hashes, as JSON values."""


@dataclass(frozen=True)
class TaskRow:
    """A task in the table: what it is, the kind of its models, the options of a recipe's `data:` section, where its
    data come from, and how they are loaded: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""

    name: str
    what: str
    model: str
    Options: type
    note: DataNote | None
    load: Callable[[Any, Path | None], Task]
    with_tokenizer_of: Callable[[Any, str], Any]

    def __call__(self, options: Any, data: Path | None = None) -> Task:
        return self.load(options, data)


def task_row(
    name: str, what: str, kind: type[Task], options: type, note: DataNote, read: Callable[[Any, Path | None], Data]
) -> TaskRow:
    """The row of a task of this kind, whose data a function reads."""

    def load(given: Any, data: Path | None = None) -> Task:
        return kind(name, given, read(given, data))  # pyright: ignore[reportCallIssue]

    return TaskRow(name, what, kind.model, options, note, load, kind.with_tokenizer_of)


def as_row(given: Any) -> TaskRow:
    """What a package provides: a row, or a class that takes the options and the folder of data."""
    if isinstance(given, TaskRow):
        return given
    what = (getdoc(given) or "not said").partition("\n")[0]
    return TaskRow(given.name, what, given.model, given.Options, given.note, given, given.with_tokenizer_of)


def tensors(arrays: Arrays) -> Batch:
    """A batch as a model takes it."""
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def check_split(task: Task, split: str) -> None:
    """Refuse a split that the task does not have."""
    if split not in task.splits:
        raise ValueError(f'task "{task.name}" has no split "{split}"; choose one of {", ".join(task.splits)}')


def hashes(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The sha256 of each split's values."""
    return {split: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() for split, array in arrays.items()}


def also_in(known: set[Any], splits: Mapping[str, Iterable[Any]]) -> dict[str, int]:
    """How many examples of each held-out split are known from training."""
    return {split: sum(one in known for one in examples) for split, examples in splits.items() if split != "train"}


def number_classes(
    labels: Mapping[str, Sequence[str]], at: Callable[[str, int], str], hint: str = ""
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The classes of the training labels, in the order of their numbers if they are whole numbers, else by name, and
    the numbers of all labels. What cannot be learnt and tested is refused; `at` says where an example is."""
    counts = Counter(labels["train"])
    for place, label in enumerate(labels["train"]):
        if counts[label] == 1:
            raise ValueError(
                f'{at("train", place)}: the class "{label}" has only this example, so it cannot be learned and tested: '
                f"add examples, or remove it{hint}"
            )
    if len(counts) < 2:
        raise ValueError(f'{at("train", 0)}: all examples have the label "{next(iter(counts))}": two are needed')
    whole = all(label.removeprefix("-").isdecimal() for label in counts)
    names = sorted(counts, key=(lambda label: (int(label), label)) if whole else None)
    numbers = {name: number for number, name in enumerate(names)}
    for split, own in labels.items():
        for place, label in enumerate(own):
            if label not in numbers:
                raise ValueError(
                    f'{at(split, place)}: the class "{label}" is not in the training data: add examples of it there, '
                    "or remove it here"
                )
    return tuple(names), {split: np.array([numbers[label] for label in own]) for split, own in labels.items()}


def class_counts(labels: Mapping[str, np.ndarray], classes: int) -> dict[str, list[int]]:
    """How many examples of each class each split has."""
    return {split: np.bincount(found, minlength=classes).tolist() for split, found in labels.items()}

"""The training texts of a distillation as both models read them, and how they align."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from ..tasks.instruct import Instruct, encode_rows, joined
from ..tasks.task import IGNORED, Batch
from ..text.alignment import Alignment, text_spans
from ..text.token_bytes import Ints, token_bytes
from .records import Aligned, SpanKind, Spans
from .vocabulary import shared_vocabulary

MULTIPLE = 16  # spans and the teacher's tokens are padded to multiples of this
PARTS = ("teacher", "student", "mask")


class Sizes(NamedTuple):
    """The teacher's tokens and the spans of a row, with padding."""

    teacher: int
    spans: int


@final
class Texts:
    """The training rows of a task, tokenised by the teacher, too, with the spans that a method needs. A row that cannot
    be aligned is refused by its line.

    Batches of one width have one shape, for a CUDA graph belongs to a shape: the teacher's tokens and the spans are
    padded to what any row of that width may need.
    """

    def __init__(self, task: Instruct, teacher_tokenizer: Any) -> None:
        self.task, self.teacher_tokenizer = task, teacher_tokenizer
        self.student = task.encoded["train"]
        self.teacher = self.student
        if not equal_tokenizers(teacher_tokenizer, task.tokenizer):
            self.teacher = joined(list(encode_rows(teacher_tokenizer, task.rows["train"], task.options.length)))
        self.same_tokens = all(np.array_equal(*pair) for pair in zip(self.teacher, self.student, strict=True))
        self.spans: list[dict[str, Alignment]] = []
        self.span_counts = np.zeros(len(self.student.lengths), dtype=np.int64)  # the most of any kind in each row
        self.padded_sizes: dict[int, Sizes] = {}  # by width
        self.vocabulary: Tensor | None = None

    def find_vocabulary(self, *sizes: int) -> None:
        """Find the tokens that both tokenizers have, and both models, which are of these sizes, [P, 2]."""
        found = shared_vocabulary(self.teacher_tokenizer, self.task.tokenizer).ids
        self.vocabulary = found[(found < torch.tensor(sizes)).all(1)]

    def find_spans(self, kinds: Iterable[SpanKind]) -> None:
        """Find the spans of these kinds in all rows, once for the whole run."""
        wanted = sorted(kinds)
        self.spans = [self.row_spans(row, wanted) for row in range(len(self.task.rows["train"]))] if wanted else []
        # all kinds are padded to the same number of spans, so terms can stack them
        counts = [max(map(len, spans.values())) for spans in self.spans]
        self.span_counts = np.array(counts) if counts else self.span_counts
        self.padded_sizes = {}

    def row_spans(self, row: int, kinds: Sequence[SpanKind]) -> dict[str, Alignment]:
        given = self.task.rows["train"][row]
        text, seen = given.prompt + given.answer, [int(one.lengths[row]) for one in (self.teacher, self.student)]
        try:
            teacher, student = (token_bytes(one, text) for one in (self.teacher_tokenizer, self.task.tokenizer))
            found = text_spans(text, teacher, student, kinds)
        except ValueError as error:
            raise ValueError(f"{given.where} cannot be aligned: {error}") from None
        return {kind: one.within(seen[0], seen[1]) for kind, one in found.items()}

    def batch(self, rows: np.ndarray, width: int, kinds: Iterable[SpanKind]) -> Batch:
        """What both models read, and how it aligns: tensors with one row a text."""
        batch = self.task.training_rows(rows, width) | {"texts": torch.full((len(rows),), len(rows))}
        if not self.same_tokens:
            batch |= self.teacher_batch(rows, width)
        for kind in sorted(kinds):
            spans = collate([self.spans[row][kind] for row in rows.tolist()], self.sizes(width).spans)
            batch |= {f"spans.{kind}.{part}": x for part, x in zip(PARTS, spans, strict=True)}
        return batch

    def left_out(self, limits: Iterable[tuple[SpanKind, int]]) -> dict[tuple[SpanKind, int], int]:
        """How many spans of all rows these limits leave out."""
        return {
            (kind, most): sum(max(len(spans[kind]) - most, 0) for spans in self.spans) for kind, most in sorted(limits)
        }

    def teacher_batch(self, rows: np.ndarray, width: int) -> Batch:
        width = self.sizes(width).teacher
        ids, mask = self.teacher.padded(rows, width, 0)
        labels = np.where(self.teacher.padded_marks(rows, width) > 0, ids, IGNORED)
        arrays = {"ids": ids, "mask": mask.astype(np.int64), "labels": labels}
        return {f"teacher.{name}": torch.from_numpy(x) for name, x in arrays.items()}

    @property
    def longest(self) -> int:
        """The most tokens of a row that the teacher reads, with padding."""
        return self.sizes(self.task.shape["max_length"]).teacher

    def sizes(self, width: int) -> Sizes:
        """What rows are padded to that have at most `width` of the student's tokens."""
        if width not in self.padded_sizes:
            rows = self.student.lengths <= width
            teacher = width if self.same_tokens else rounded_up(int(self.teacher.lengths[rows].max()))
            self.padded_sizes[width] = Sizes(teacher, rounded_up(int(self.span_counts[rows].max())))
        return self.padded_sizes[width]


def collate(rows: Sequence[Alignment], size: int | None = None) -> Spans:
    """The spans of a batch of texts, padded to the most that a text has, or to `size`."""
    counts = np.array([len(row) for row in rows], np.int64)
    most = int(counts.max(initial=0)) if size is None else size
    teacher = padded_ranges([row.teacher for row in rows], most)
    student = padded_ranges([row.student for row in rows], most)
    return Spans(teacher, student, torch.from_numpy(np.arange(most) < counts[:, None]))


def padded_ranges(rows: Sequence[Ints], size: int) -> Tensor:
    """The ranges of each row, and zeros, [B, size, 2]."""
    found = np.zeros((len(rows), size, 2), np.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return torch.from_numpy(found)


def equal_tokenizers(one: Any, other: Any) -> bool:
    """Whether two tokenizers do the same with every text, for they are written down alike. Others may do so, too."""
    if not one.is_fast or not other.is_fast or one.eos_token_id != other.eos_token_id:
        return False
    return one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()


def rounded_up(size: int) -> int:
    return -(-max(size, 1) // MULTIPLE) * MULTIPLE


def teacher_inputs(batch: Batch) -> tuple[Tensor, Tensor]:
    """The tokens that the teacher reads, and which are real."""
    if "teacher.ids" in batch:
        return batch["teacher.ids"], batch["teacher.mask"]
    return batch["input_ids"], batch["attention_mask"]


def aligned_of(batch: Batch, kinds: Sequence[SpanKind], vocabulary: Tensor | None, items: Tensor | None) -> Aligned:
    """How the texts of a batch align."""
    spans: dict[SpanKind, Spans] = {kind: Spans(*(batch[f"spans.{kind}.{part}"] for part in PARTS)) for kind in kinds}
    return Aligned(batch["labels"], batch.get("teacher.labels"), spans, vocabulary, items, batch["texts"][0])

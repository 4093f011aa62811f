"""What students are judged on, and all figures of one model.

Two models that read the same rows are compared where both have read the same bytes: their likeliest tokens, the
divergence of what they predict, and how far their states are apart, layer by layer.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...probes.similarity import linear_cka
from ...text.alignment import align
from ...text.instructions import Row
from ...text.token_bytes import TokenBytes, token_bytes, utf8
from ..records import wide
from ..terms.states import teacher_layer
from ..vocabulary import shared_vocabulary
from . import reading as read
from .answers import Answers, Writing, write_answers
from .reading import Causal, ScoredTokens, answer_bits, check_length, reading, release_memory, text_bits, total
from .rouge import mean_rouge

WINDOW = 512  # tokens of a window of the text
MOST = 2048  # tokens whose states are compared
ROWS = 8  # that are read at once for their states, which are large: a few rows have as many tokens


@dataclass(frozen=True)
class Exam:
    """Sets of held-out rows by name, held-out text if there is any, and how answers are written and texts read."""

    sets: Mapping[str, Sequence[Row]]
    writing: Writing = field(default_factory=Writing)
    text: str = ""
    window: int = WINDOW

    def __post_init__(self) -> None:
        if not self.sets or not all(self.sets.values()):
            raise ValueError(f"the sets to judge on are {list(self.sets)}, and each needs rows: name some")

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.sets.values() for row in rows]

    def describe(self) -> dict[str, Any]:
        """The sets with their sizes and hashes, and the settings; figures of equal descriptions can be compared."""
        asked = {name: [(row.prompt, row.answer) for row in rows] for name, rows in self.sets.items()}
        sets = {name: {"rows": len(rows), "sha256": hashed(rows)} for name, rows in asked.items()}
        writing = {key: value for key, value in asdict(self.writing).items() if key != "batch"}
        text = {"bytes": len(self.text.encode()), "sha256": hashed(self.text), "window": self.window}
        found = {"sets": sets, "answers": writing} | ({"text": text} if self.text else {})
        return json.loads(json.dumps(found))


def hashed(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


class Pair(NamedTuple):
    """Two models, and rows as both read them, the longest first. The tokens are marked, in the same number, after which
    both have read the same bytes and what follows is of the answer."""

    teacher: Causal
    student: Causal
    rows: list[tuple[ScoredTokens, ScoredTokens]]


class Shown(NamedTuple):
    """What one model shows of a batch of rows, and the places to look at, as (row, token), [P, 2]."""

    output: Any
    places: Tensor

    def at_places(self, values: Tensor) -> Tensor:
        """The values [B, T, ...] at the places, [P, ...]."""
        return values[self.places[:, 0], self.places[:, 1]]


def aligned_row(teacher: Any, student: Any, row: Row) -> tuple[ScoredTokens, ScoredTokens]:
    """A row under two tokenizers. With one tokenizer all tokens are marked that predict one of the answer."""
    text, begin = row.prompt + row.answer, len(utf8(row.prompt))
    sides = token_bytes(teacher, text), token_bytes(student, text)
    spans = align(*sides)
    inside = (begin <= spans.bytes[:, 1]) & (spans.bytes[:, 1] < len(utf8(text)))

    def marked(side: TokenBytes, ranges: np.ndarray) -> ScoredTokens:
        marks = np.isin(np.arange(len(side.ids)), ranges[inside, 1] - 1)
        return ScoredTokens(side.ids.tolist(), marks.tolist(), 0)

    return marked(sides[0], spans.teacher), marked(sides[1], spans.student)


def pair_of(teacher: Causal, student: Causal, rows: Sequence[Row]) -> Pair:
    """The rows as two models read them, without those that have no token to compare."""
    found = [aligned_row(teacher.tokenizer, student.tokenizer, row) for row in rows]
    for one, texts in zip((teacher, student), zip(*found, strict=True), strict=True):
        check_length(one.model, texts)
    return Pair(
        teacher, student, sorted((one for one in found if any(one[0].scored)), key=lambda one: -len(one[0].ids))
    )


def batches_of_pair(pair: Pair, batch: int | None, states: bool = False) -> Iterator[tuple[Shown, Shown]]:
    """What teacher and student show of batches of rows."""
    models = pair.teacher.model, pair.student.model

    def size(left: Sequence[tuple[ScoredTokens, ScoredTokens]]) -> int:
        return batch or read.rows_to_read(models, max(len(side.ids) for both in left for side in both))

    for rows in read.groups(pair.rows, size):
        ours, theirs = zip(*rows, strict=True)
        yield shown(models[0], ours, states), shown(models[1], theirs, states)


def shown(model: Any, rows: Sequence[ScoredTokens], states: bool) -> Shown:
    batch = read.padded(rows, read.device_of(model))
    output = model(input_ids=batch.ids, attention_mask=batch.real, use_cache=False, output_hidden_states=states)
    return Shown(output, batch.scored.nonzero())


class Agreement(NamedTuple):
    """The share of places where both find the same token likeliest, and the mean of KL(teacher | student) in nats.

    If the tokenizers differ, both models are asked for one of the tokens that they share (`share` of the teacher's
    vocabulary), where both have read the same bytes.
    """

    top1: float
    kl: float
    places: int
    share: float


def agreement(pair: Pair, batch: int | None = None) -> Agreement:
    """The agreement over all places of the rows' answers."""
    tokenizers = pair.teacher.tokenizer, pair.student.tokenizer
    same = tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    shared = None if same else shared_vocabulary(*tokenizers)
    ids = (None, None) if shared is None else shared.ids.unbind(1)
    equal, divergence, places = 0, 0.0, 0
    with reading(pair.teacher.model, pair.student.model):
        for teacher, student in batches_of_pair(pair, batch):
            sizes = teacher.output.logits.shape[-1], student.output.logits.shape[-1]
            p = logs(teacher.at_places(teacher.output.logits), ids[0], sizes[1])
            q = logs(student.at_places(student.output.logits), ids[1], sizes[0]).to(p.device)
            equal += int((p.argmax(-1) == q.argmax(-1)).sum())
            divergence += float((p - q).mul_(p.exp()).sum(dtype=torch.float64))
            places += len(p)
            del teacher, student, p, q  # before the next batch takes as much
    if not places:
        raise ValueError("the answers have no place where both models have read the same bytes: use longer answers")
    return Agreement(equal / places, divergence / places, places, 1.0 if shared is None else shared.teacher_share)


def logs(logits: Tensor, ids: Tensor | None, most: int) -> Tensor:
    """Log probabilities of the tokens `ids`, or of the tokens that both models have: some have rows that no token
    uses."""
    chosen = logits[:, :most] if ids is None else logits[:, ids.to(logits.device)]
    return wide(chosen).log_softmax(-1)


class LayerDistance(NamedTuple):
    """The distance of the states after a student's layer from those after the teacher's layer for it."""

    layer: int
    teacher_layer: int
    distance: float


def trajectory_distance(pair: Pair, batch: int | None = None, most: int = MOST) -> tuple[LayerDistance, ...]:
    """1 - CKA between states after layer l = 1 .. N_S of the student and after layer floor(l N_T / N_S) of the teacher.

    CKA is debiased and linear, over the tokens of the answers where both have read the same bytes, at most `most` of
    them. It is the same after any rotation and scaling of a model's coordinates, so the widths may differ, and may be a
    little above 1 for unrelated states. States are those that Hugging Face gives: the last is after the final norm for
    most models.
    """
    layers, states, seen = dict[int, int](), dict[int, list[tuple[Tensor, Tensor]]](), 0
    with reading(pair.teacher.model, pair.student.model):
        for teacher, student in batches_of_pair(pair, batch or ROWS, states=True):
            ours, theirs = teacher.output.hidden_states, student.output.hidden_states
            depth, most_depth = len(theirs) - 1, len(ours) - 1
            first = -(-depth // most_depth)  # the first layers of a student that is deeper may have no match
            layers = {n: teacher_layer(n, depth, most_depth) for n in range(first, depth + 1)}
            for layer, matching in layers.items():
                both = teacher.at_places(ours[matching]), student.at_places(theirs[layer])
                states.setdefault(layer, []).append((both[0][: most - seen], both[1][: most - seen]))
            seen += len(teacher.places)
            if seen >= most:
                break
    if seen < 4:
        raise ValueError(f"the distance of trajectories needs at least 4 tokens, and the answers have {seen}: add rows")
    return tuple(LayerDistance(layer, matching, distance(states[layer])) for layer, matching in layers.items())


def distance(states: Sequence[tuple[Tensor, Tensor]]) -> float:
    """1 - CKA of two models' states, batch by batch [P, d] each."""
    x, y = (torch.cat(parts).double() for parts in zip(*states, strict=True))
    return 1 - float(linear_cka(x, y.to(x.device), debiased=True))


class Figures(NamedTuple):
    """The figures of one model. ROUGE-L is in points, for each set the mean over the seeds of its answers, and the mean
    over sets; bits per byte are of the answers and of the text; `ended` is the share of answers that the
    model ended before the limit, the mean over sets; the others are with the teacher."""

    rouge: float
    rouge_on: dict[str, float]
    bits_per_byte: float
    text_bits_per_byte: float | None = None
    top1: float | None = None
    kl: float | None = None
    shared: float | None = None  # of the teacher's vocabulary, on which the two figures before are
    distances: tuple[LayerDistance, ...] = ()
    ended: float | None = None  # missing in results before it was judged


class ExamResult(NamedTuple):
    """A model's figures and all its answers."""

    figures: Figures
    answers: dict[str, Answers]  # by set


def judge(one: Causal, exam: Exam, teacher: Causal | None = None) -> ExamResult:
    """All figures of a model; without a teacher, those that need none."""
    sets = exam.sets.items()
    answers = {name: write_answers(*one, [row.prompt for row in rows], exam.writing) for name, rows in sets}
    release_memory()
    rouge_on = {}
    for name, rows in sets:  # the mean over seeds and rows
        references = [row.answer for row in rows]
        rouge_on[name] = fmean(mean_rouge([one.text for one in own], references) for own in answers[name].values())
    figures = Figures(
        rouge=fmean(rouge_on.values()),
        rouge_on=rouge_on,
        bits_per_byte=total(answer_bits(*one, exam.rows)).per_byte,
        text_bits_per_byte=text_bits(*one, exam.text, exam.window).per_byte if exam.text else None,
        ended=fmean(share_ended(own) for own in answers.values()),
    )
    if teacher is not None:
        pair = pair_of(teacher, one, exam.rows)
        found, distances = agreement(pair), trajectory_distance(pair)
        figures = figures._replace(top1=found.top1, kl=found.kl, shared=found.share, distances=distances)
    release_memory()
    return ExamResult(figures, answers)


def share_ended(answers: Answers) -> float:
    """The share of answers that the model ended itself."""
    return fmean(bool(one.ended) for own in answers.values() for one in own)

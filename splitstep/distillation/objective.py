"""Distillation as the objective of a run: a student learns what a teacher shows of the same texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from ..flows.examples import positions
from ..options import at_least, read_options
from ..support.words import counted, listed
from ..tasks import Batch, Task
from ..tasks.instruct import Instruct
from ..training.objective import Objective
from .cache import Precision
from .method import Method, MethodLoss, parse_method
from .records import LOGITS, Aligned, Outputs, Shapes
from .subject import Subject
from .teacher import NoTeacher, OnlineTeacher, Teacher, TeacherSource, print_once, wanted_manifest, write_cache
from .terms import Needs
from .texts import MULTIPLE, Texts, aligned_of

FEW = 4  # rows on which a cache is compared with the teacher
MUCH = 0.1  # the share of a term from which on it is told what to do about its loss


@dataclass(frozen=True, kw_only=True)
class DistilOptions:
    """`teacher`: a run, a folder, a GGUF file or a name on the Hub. `method`: a weighted sum of terms. `cache`: a
    folder for what the teacher shows; without one the teacher is kept beside the student. `largest`: how many logits
    of a token a cache keeps, in this `precision`."""

    teacher: str = ""
    method: str = "kl"
    cache: str | None = None
    largest: int = 64
    precision: Precision = "float16"

    def __post_init__(self) -> None:
        if not self.teacher:
            raise ValueError("option teacher is missing; name the model to learn from")
        at_least("largest", self.largest, 1)
        parse_method(self.method)


@final
class Distillation(nn.Module):
    """The loss of a method. Its projectors are trained and saved in checkpoints; the teacher is neither."""

    vocabulary: Tensor | None

    def __init__(self, loss: MethodLoss, student: Subject, teacher: Teacher, texts: Texts, needs: Needs) -> None:
        super().__init__()
        self.loss, self.student, self.teacher, self.texts, self.needs = loss, student, teacher, texts, needs
        self.kinds = sorted(needs.spans)
        self.register_buffer("vocabulary", texts.vocabulary, persistent=False)

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """The task's batch, with what the teacher reads or showed, and how both texts align."""
        rows, width = self.texts.task.drawn(seed, step, size)
        return self.texts.batch(rows, width, self.kinds) | self.teacher.batch(rows, width)

    @torch.no_grad()
    def values(self, rows: np.ndarray, teacher: Teacher) -> dict[str, float]:
        """Each term, without its weight, on these training rows."""
        width = int(self.texts.student.lengths[rows].max())
        batch = self.texts.batch(rows, width, self.kinds) | teacher.batch(rows, width)
        return {name: float(x) for name, x in self.loss.values(*self.shown(batch, None, teacher)).items()}

    def forward(self, model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
        return self.loss(*self.shown(batch, items))

    def shown(
        self, batch: Batch, items: Tensor | None = None, teacher: Teacher | None = None
    ) -> tuple[Outputs, Outputs, Aligned]:
        """The three arguments of every term; the teacher may be another than the run's."""
        student = self.student.show(batch["input_ids"], batch["attention_mask"], self.needs.student)
        return (teacher or self.teacher).show(batch), student, aligned_of(batch, self.kinds, self.vocabulary, items)


def distil(model: nn.Module, task: Task, options: Mapping[str, Any]) -> Objective:
    """The objective that a recipe describes: `objective: {name: distil, teacher: MODEL, method: kl}`."""
    if not isinstance(task, Instruct):
        raise ValueError(f'the objective "distil" needs the task instruct, not {task.name}: it aligns whole texts')
    given = read_options(DistilOptions, options, "objective")
    method, student = parse_method(given.method), Subject(model, "the student")
    check_length(student, task.shape["max_length"])
    check_tokens(student, [one.tokens for one in task.encoded.values()])
    alone = Shapes(student.shape, student.shape)
    if not method.needs(alone).teacher:
        loss = MethodLoss(method, alone, torch.initial_seed() % 2**31)
        return Distillation(loss, student, NoTeacher(), Texts(task, task.tokenizer), method.needs(alone))
    return with_teacher(method, student, task, given)


def with_teacher(method: Method, student: Subject, task: Instruct, given: DistilOptions) -> Distillation:
    """The objective of a method that asks the teacher, or a cache of what it shows."""
    folder = None if given.cache is None else Path(given.cache)
    source = TeacherSource(given.teacher, folder)
    texts, shapes = Texts(task, source.tokenizer), Shapes(source.shape, student.shape)
    needs = method.needs(shapes)
    check_pair(method, needs, texts, source, student)
    if source.kept is None:
        check_length(source.subject, texts.longest)
        check_tokens(source.subject, [texts.teacher.tokens])
    if needs.vocabulary:
        texts.find_vocabulary(source.vocabulary, student.vocabulary)
    texts.find_spans(needs.spans)
    for (kind, most), count in texts.left_out(needs.limits).items():
        if count:
            print_once(f"{count:,} {kind} spans beyond the first {most:,} of a text are not compared")
    student.prepare(needs.student)
    loss = MethodLoss(method, shapes, torch.initial_seed() % 2**31)
    if folder is None:
        return Distillation(loss, student, online(source, needs), texts, needs)
    wanted = wanted_manifest(source, texts, needs.teacher, given.largest, given.precision)
    found = Distillation(loss, student, write_cache(folder, source, texts, wanted), texts, needs)
    if source.kept is None:
        tell_differences(found, online(source, needs))
    return found


def online(source: TeacherSource, needs: Needs) -> OnlineTeacher:
    """The teacher itself."""
    source.subject.prepare(needs.teacher)
    return OnlineTeacher(source.subject, needs.teacher)


def write_cache_for(methods: Sequence[str], model: nn.Module, task: Task, options: Mapping[str, Any]) -> None:
    """Write the cache that the options name, with what all of these methods together need; one that has it stays."""
    together = " + ".join(str(parse_method(method)) for method in methods)
    distil(model, task, {**options, "method": together})


def tell_differences(found: Distillation, teacher: OnlineTeacher) -> None:
    """Print how far each term is from its value with the teacher itself, on a few rows: the rest of the vocabulary is
    one class in a cache, and its numbers are rounded."""
    rows, told, advice = np.arange(min(FEW, len(found.texts.student.lengths))), list[str](), ""
    kept = found.values(rows, found.teacher)
    for name, exact in found.values(rows, teacher).items():
        lost = (exact - kept[name]) / exact if exact > 0 else 0.0
        share = f" ({lost:.0%} less)" if lost > MUCH else ""
        told.append(f"{name} {exact:.4g} - {kept[name]:.4g} = {exact - kept[name]:.2g}{share}")
        if share:
            more = LOGITS in found.needs.teacher
            advice = "raise objective.largest" if more else "set objective.precision=float32"
    end = f"; {advice} with another --out, or use --online" if advice else ""
    print_once(f"from the teacher itself less from its cache, on {counted(len(rows), 'row')}: {', '.join(told)}{end}")


def check_length(subject: Subject, tokens: int) -> None:
    """Refuse rows of more tokens, with their padding, than a model has positions for."""
    most = positions(subject.model)
    if most is not None and most < tokens:
        fitting = most // MULTIPLE * MULTIPLE or most
        raise ValueError(
            f"{subject.name} reads at most {most:,} tokens, and rows are padded to {tokens:,}: set "
            f"data.length={fitting}"
        )


def check_tokens(subject: Subject, tokens: Sequence[np.ndarray]) -> None:
    """Refuse a model whose tokenizer makes tokens that it does not have."""
    most = max(int(one.max()) for one in tokens)
    if most >= subject.vocabulary:
        raise ValueError(
            f"{subject.name} has {subject.vocabulary:,} tokens, and its tokenizer makes number {most:,}: save the "
            "tokenizer of this model beside it"
        )


def check_pair(method: Method, needs: Needs, texts: Texts, teacher: TeacherSource, student: Subject) -> None:
    """Refuse a method that these two models cannot have."""
    if not needs.same_tokens:
        return
    if not texts.same_tokens:
        shapes = Shapes(teacher.shape, student.shape)
        named = [one.name for one in method.summands if one.term.needs(shapes).same_tokens]
        raise ValueError(
            f"terms like {listed(named)} compare the same tokens, and the tokenizers of {teacher.name} and the student "
            "differ: use sra, uld or ce"
        )
    if LOGITS in needs.teacher and teacher.vocabulary != student.vocabulary:
        raise ValueError(
            f'method "{method}" compares logits, and {teacher.name} has {teacher.vocabulary:,} of them and the student '
            f"{student.vocabulary:,}: use a student of the same vocabulary, or uld"
        )

"""What students are judged on, and all figures of one model."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from ...text.instructions import Row
from .answers import Answers, Writing, write_answers
from .pairs import LayerDistance, agreement, pair_of, trajectory_distance
from .reading import Causal, answer_bits, release_memory, text_bits, total
from .rouge import mean_rouge

WINDOW = 512  # tokens of a window of the text


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
    rouge_on = {name: rouge_of(answers[name], rows) for name, rows in sets}
    figures = Figures(
        rouge=fmean(rouge_on.values()),
        rouge_on=rouge_on,
        bits_per_byte=total(answer_bits(*one, exam.rows)).per_byte,
        text_bits_per_byte=text_bits(*one, exam.text, exam.window).per_byte if exam.text else None,
        ended=fmean(share_ended(own) for own in answers.values()),
    )
    judged = ExamResult(figures if teacher is None else with_teacher(figures, one, exam, teacher), answers)
    release_memory()
    return judged


def rouge_of(answers: Answers, rows: Sequence[Row]) -> float:
    """The mean over seeds and rows."""
    references = [row.answer for row in rows]
    return fmean(mean_rouge([one.text for one in own], references) for own in answers.values())


def share_ended(answers: Answers) -> float:
    """The share of answers that the model ended itself."""
    return fmean(bool(one.ended) for own in answers.values() for one in own)


def with_teacher(figures: Figures, one: Causal, exam: Exam, teacher: Causal) -> Figures:
    pair = pair_of(teacher, one, exam.rows)
    found, distances = agreement(pair), trajectory_distance(pair)
    return figures._replace(top1=found.top1, kl=found.kl, shared=found.share, distances=distances)

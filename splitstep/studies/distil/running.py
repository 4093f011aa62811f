"""Executes planned runs, judges their students, and keeps what was found, so a study that was stopped can continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...distil.judging.exam import Answers, Exam, Figures, Judged, judge
from ...distil.judging.tokens import Causal
from ...support.files import write_atomically
from ...support.typed import json_text, plain, read_as
from ..compare.result import Curve
from .plan import Planned
from .result import DistilRun

JUDGED = "judged.json"
ANSWERS = "answers.json"
NOTHING = Curve((), ())


class Distilled(NamedTuple):
    """What a run gives back. A student that diverged is None. A curve is steps and values."""

    student: Causal | None
    steps: int
    seconds: float
    device: str
    train_loss: Curve = NOTHING
    valid_loss: Curve = NOTHING


class Distil(Protocol):
    """Trains a student by a method with a seed, in a folder of its own.

    Called again with the same folder it continues, or returns what it has. All methods of a seed must have the same
    start, see the same batches and differ in their loss alone: differences are paired by seed. None of the rows and
    texts of the exam may be trained on.
    """

    def __call__(self, method: str, seed: int, folder: Path) -> Distilled: ...


class Found(NamedTuple):
    """A run with all its answers; one that diverged has none."""

    run: DistilRun
    answers: Answers


def run_one(distil: Distil, one: Planned, out: Path, exam: Exam, teacher: Causal) -> Found:
    """The run, judged; from its files if an earlier call has judged it."""
    folder = out / one.folder
    kept = read_kept(folder, exam)
    if kept is not None:
        return Found(read_as(DistilRun, kept["run"], str(folder / JUDGED)), read_answers(folder))
    made = distil(one.method, one.seed, folder)
    judged = None if made.student is None else judge(made.student, exam, teacher)
    run = DistilRun(
        one.method, one.seed, one.folder, "diverged" if judged is None else "finished",
        made.steps, made.seconds, made.device, made.train_loss, made.valid_loss, judged.figures if judged else None,
    )  # fmt: skip
    keep(folder, exam, {"run": plain(run)}, judged.answers if judged else {})
    return Found(run, judged.answers if judged else {})


def judge_once(name: str, one: Causal, out: Path, exam: Exam, teacher: Causal | None) -> Judged:
    """A model that is not trained here, judged; from its files if an earlier call has done it."""
    folder = out / "others" / name.replace(" ", "-")
    kept = read_kept(folder, exam)
    if kept is not None:
        return Judged(read_as(Figures, kept["figures"], str(folder / JUDGED)), read_answers(folder))
    judged = judge(one, exam, teacher)
    keep(folder, exam, {"figures": plain(judged.figures)}, judged.answers)
    return judged


def read_kept(folder: Path, exam: Exam) -> dict[str, Any] | None:
    """What an earlier call found with the same exam; None if there is nothing."""
    file = folder / JUDGED
    if not file.is_file():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    if kept["exam"] != exam.describe():
        raise ValueError(f"{folder} was judged on other rows or with other settings: name a new directory with --out")
    return kept


def keep(folder: Path, exam: Exam, found: dict[str, Any], answers: Answers) -> None:
    """Write what was found, the answers first: figures without answers would not be judged again."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ANSWERS, json.dumps(answers, ensure_ascii=False, indent=1))
    write_atomically(folder / JUDGED, json_text({"exam": exam.describe(), **found}))


def read_answers(folder: Path) -> Answers:
    found = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
    return {name: {int(seed): texts for seed, texts in own.items()} for name, own in found.items()}

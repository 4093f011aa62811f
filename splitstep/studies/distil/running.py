"""Executes planned runs, judges their students, and keeps what was found, so a study that was stopped can continue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...distillation.judging.answers import Answer
from ...distillation.judging.exam import Answers, Exam, Figures, judge
from ...distillation.judging.tokens import Causal
from ...experiments.running import Job, run_left
from ...experiments.trials import Curve
from ...support.documents import read_json
from ...support.files import write_atomically
from ...support.typed import json_text, plain, read_as
from ...training.progress import RunsProgress
from .plan import Planned
from .result import START, TEACHER, DistilRun

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


class DistilRuns(Protocol):
    """Trains students and opens the models that are there before. It is sent to workers, so it must be picklable.

    All methods of a seed must have the same start, see the same batches and differ in their loss alone: differences are
    paired by seed. None of the rows and texts of the exam may be trained on.
    """

    @property
    def steps(self) -> int:
        """The updates of a run."""
        ...

    def teacher(self) -> Causal: ...

    def start(self) -> Causal:
        """The student before it is trained."""
        ...

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        """Train a student; called again with the same folder it continues, or returns what it has."""
        ...


class Found(NamedTuple):
    """A model's answers and figures, and its run unless it was there before. One that diverged has neither."""

    run: DistilRun | None
    figures: Figures | None
    answers: Answers

    def summary(self) -> str:
        """The model in a few words."""
        if self.figures is None:
            return f"diverged after {self.run.steps if self.run else 0} steps"
        return f"ROUGE-L {self.figures.rouge:.2f}, {self.figures.bits_per_byte:.4f} bits per byte"


OTHERS = {name: f"others/{name.replace(' ', '-')}" for name in (TEACHER, START)}  # models that are not trained here


def judge_all(
    runs: DistilRuns, planned: Sequence[Planned], out: Path, exam: Exam, engine: str, watch: RunsProgress
) -> dict[str, Found]:
    """All models by their folders, those of an earlier call first."""
    jobs = [Job(folder, 0, judge_other, (name, runs, out, exam)) for name, folder in OTHERS.items()]
    jobs += [Job(one.folder, runs.steps, run_one, (one, runs, out, exam)) for one in planned]
    return dict(run_left(jobs, lambda job: read_kept(out / job.folder, exam), out, engine, watch))


def run_one(one: Planned, runs: DistilRuns, out: Path, exam: Exam) -> Found:
    """Train a student and judge it, in a worker; from its files if an earlier try has judged it."""
    folder = out / one.folder
    kept = read_kept(folder, exam)
    if kept is not None:
        return kept
    made = runs.train(one.method, one.seed, folder)
    judged = None if made.student is None else judge(made.student, exam, runs.teacher())
    figures, answers = judged or (None, {})
    run = DistilRun(
        one.method, one.seed, one.folder, "diverged" if judged is None else "finished",
        made.steps, made.seconds, made.device, made.train_loss, made.valid_loss, figures,
    )  # fmt: skip
    return keep(folder, exam, Found(run, figures, answers))


def judge_other(name: str, runs: DistilRuns, out: Path, exam: Exam) -> Found:
    """Judge the teacher, or the student before training, in a worker."""
    teacher = runs.teacher()
    judged = judge(teacher, exam) if name == TEACHER else judge(runs.start(), exam, teacher)
    return keep(out / OTHERS[name], exam, Found(None, *judged))


def read_kept(folder: Path, exam: Exam) -> Found | None:
    """What an earlier call found with the same exam; None if there is nothing."""
    file = folder / JUDGED
    if not file.is_file():
        return None
    try:
        kept = read_json(file)
        if kept["exam"] == exam.describe():
            run = read_as(DistilRun, kept["run"], str(file)) if "run" in kept else None
            figures = run.figures if run else read_as(Figures, kept["figures"], str(file))
            return Found(run, figures, read_answers(folder))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{folder}: {JUDGED} or {ANSWERS} is damaged ({type(error).__name__}): delete {JUDGED}, and it is judged "
            "again"
        ) from None
    raise ValueError(f"{folder} was judged on other rows or with other settings: name a new directory with --out")


def keep(folder: Path, exam: Exam, found: Found) -> Found:
    """Write what was found, the answers first: figures without answers would not be judged again."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"run": plain(found.run)} if found.run else {"figures": plain(found.figures)}
    write_atomically(folder / ANSWERS, json.dumps(plain(found.answers), ensure_ascii=False, indent=1))
    write_atomically(folder / JUDGED, json_text({"exam": exam.describe(), **own}))
    return found


def read_answers(folder: Path) -> Answers:
    found = read_json(folder / ANSWERS)
    return {
        name: {int(seed): [read_answer(one, f"{ANSWERS}.{name}") for one in answers] for seed, answers in own.items()}
        for name, own in found.items()
    }


def read_answer(value: Any, where: str) -> Answer:
    """An answer as `keep` writes it, or its text alone, as older versions did."""
    return Answer(value) if isinstance(value, str) else read_as(Answer, value, where)

"""The directory of the study, which belongs to one recipe and two models: its runs, and what was judged there."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...distillation.cache import is_cache
from ...distillation.judging.answers import Answer, Answers
from ...distillation.judging.exam import Exam, Figures
from ...distillation.method import parse_method
from ...support.documents import first_difference, flat, read_json
from ...support.files import is_leftover, write_atomically
from ...support.typed import json_text, plain, read_as
from ...support.words import listed
from ...training import read_recipe
from ...training.directory import refuse_other_files
from .result import START, TEACHER, DistilRun

STUDY, WEIGHTS, RESULT, JUDGED, ANSWERS = "study.json", "weights.json", "result.json", "judged.json", "answers.json"
CACHE = "teacher"  # the folder of what the teacher shows, unless the recipe names another
OWN = ("objective.method", "train.seed")  # in which the runs of a study differ
DAMAGED = "name a new directory with --out, or delete this one"


class Planned(NamedTuple):
    """A run to do: the method as it was given, its seed, and its folder in the study's own. Models that are there
    before are called by their names, and have no seed."""

    method: str
    seed: int
    folder: str


OTHERS = [Planned(name, -1, f"others/{name.replace(' ', '-')}") for name in (TEACHER, START)]


def plan(methods: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """All runs, seed by seed, so that a study that is stopped early has pairs."""
    if not methods or not all(methods):
        raise ValueError(f"--methods {','.join(methods)!r} has an empty entry: write --methods ce,kl,skl,skl+mta")
    written = [str(parse_method(method)) for method in methods]
    for position, method in enumerate(written):
        if method in written[:position]:
            raise ValueError(f"--methods: {methods[position]} is the same as {methods[written.index(method)]}: drop it")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"the study needs different seeds; got {list(seeds)}")
    return [Planned(method, seed, f"runs/{slug(method)}-seed{seed}") for seed in seeds for method in methods]


def slug(method: str) -> str:
    """A folder's name for a method: its text, or as much as a name can have of it and a hash."""
    text = "".join(method.split())
    name = re.sub(r"[^\w.+-]", "_", text)[:40]
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


class Weights(NamedTuple):
    """The hashes of the weights that all runs share: the teacher's, and the student's before training."""

    teacher: str
    student: str


def claim(out: Path, recipe: Mapping[str, Any] | None, weights: Weights | None) -> None:
    """Note in the directory what its runs share, as far as it is known, so that only the same command continues."""
    if recipe is not None:
        check_recipe(out, recipe)
        note(out / STUDY, dict(recipe))
    if weights is not None:
        check_weights(out, weights)
        note(out / WEIGHTS, plain(weights))


def note(file: Path, document: Any) -> None:
    """Write a file unless it is there."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json_text(document))


def check_recipe(out: Path, recipe: Mapping[str, Any]) -> None:
    """Refuse the directory of a run, of another study, and of the same study with another recipe."""
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    file, before = out / STUDY, earlier(out)
    if before and before.get("study") != "distil":
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out")
    if file.is_file():
        if other := first_difference(shared(read_json(file, hint=DAMAGED)), shared(recipe)):
            raise ValueError(f"{out} holds a comparison with {other}: name a new directory with --out")
    elif not any(out.glob(f"*/*/{JUDGED}")):  # an older version, and other programs, judge without a recipe
        refuse_other_files(out, may_precede)


def may_precede(path: Path) -> bool:
    """Whether a killed command may have left this before it noted its recipe: the teacher reads before."""
    return is_leftover(path) or (path.name == CACHE and is_cache(path))


def shared(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs have in common, by names with dots. Entries that an older version did not write have their
    defaults."""
    entries = dict(flat(read_recipe(recipe, STUDY).document()))
    return {name: value for name, value in entries.items() if name not in OWN}


def check_weights(out: Path, now: Weights) -> None:
    """Refuse models whose weights have changed under their names: seeds of two starts would be taken for those of one,
    and students would be judged by two teachers."""
    for which, sha256 in kept_weights(out):
        here = getattr(now, which)
        if sha256 != here:
            raise ValueError(
                f"{out} began with other weights of the {which} (sha256 {sha256[:12]}, here {here[:12]}): restore "
                "those, or name a new directory with --out"
            )


def kept_weights(out: Path) -> Iterator[tuple[str, str]]:
    """The models that the directory began with, by their hashes. Each finished run has that of its start, too."""
    if (out / WEIGHTS).is_file():
        yield from read_as(Weights, read_json(out / WEIGHTS, hint=DAMAGED), str(out / WEIGHTS))._asdict().items()
    for file in sorted(out.glob("runs/*/result.json")):
        start = read_json(file, hint=DAMAGED).get("start")
        if isinstance(start, dict) and "sha256" in start:
            yield "student", start["sha256"]


def earlier(out: Path) -> dict[str, Any]:
    """The result that is in the directory; empty if there is none."""
    return read_json(out / RESULT, hint=DAMAGED) if (out / RESULT).is_file() else {}


def left_out(out: Path, methods: Sequence[str], seeds: Sequence[int]) -> str:
    """The line that says what the result in the directory has and the next one has not; empty if there is nothing."""
    before = earlier(out)
    rows = [row["method"] for row in before.get("rows", ()) if row["method"] not in methods]
    numbers = [f"seed {seed}" for seed in before.get("seeds", ()) if seed not in seeds]
    if not rows and not numbers:
        return ""
    again = f": {before['command']}" if before.get("command") else ""
    return (
        f"{out / RESULT} is now of fewer runs, without {listed([*rows, *numbers])}. What is in the folder stays, and "
        f"the larger command gives it back{again}"
    )


class Found(NamedTuple):
    """A model's figures and answers, and its run unless it was there before. One that diverged has neither."""

    figures: Figures | None
    answers: dict[str, Answers]  # by set
    run: DistilRun | None = None

    def summary(self) -> str:
        """The model in a few words."""
        if self.figures is None:
            return f"diverged after {self.run.steps if self.run else 0} steps"
        return f"ROUGE-L {self.figures.rouge:.2f}, {self.figures.bits_per_byte:.4f} bits per byte"


class Judged(NamedTuple):
    """The file of a model that was judged: with what exam, and its run, or its figures if it was there before."""

    exam: dict[str, Any]
    run: DistilRun | None = None
    figures: Figures | None = None


def read_kept(folder: Path, exam: Exam) -> Found | None:
    """What an earlier call found with the same exam; None if there is nothing."""
    if not (folder / JUDGED).is_file():
        return None
    try:
        kept = read_as(Judged, read_json(folder / JUDGED), JUDGED)
        if kept.exam == exam.describe():
            return Found(kept.run.figures if kept.run else kept.figures, read_answers(folder), kept.run)
    except ValueError as error:
        raise ValueError(
            f"{folder}: {JUDGED} or {ANSWERS} is damaged ({error}): delete {JUDGED}, and it is judged again"
        ) from None
    raise ValueError(f"{folder} was judged on other rows or with other settings: name a new directory with --out")


def read_answers(folder: Path) -> dict[str, Answers]:
    """The answers by set and seed. Older versions kept their texts alone."""
    found = read_as(dict[str, dict[str, list[Answer | str]]], read_json(folder / ANSWERS), ANSWERS)

    def made(given: Sequence[Answer | str]) -> list[Answer]:
        return [Answer(one) if isinstance(one, str) else one for one in given]

    return {name: {int(seed): made(given) for seed, given in own.items()} for name, own in found.items()}


def keep(folder: Path, exam: Exam, found: Found) -> Found:
    """Write what was found, the answers first: figures without answers would not be judged again."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = Judged(exam.describe(), found.run, None if found.run else found.figures)
    write_atomically(folder / ANSWERS, json.dumps(plain(found.answers), ensure_ascii=False, indent=1))
    write_atomically(folder / JUDGED, json_text(plain(kept)))
    return found

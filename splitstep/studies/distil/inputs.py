"""What the command makes of a recipe and of files: runs that differ in their method and seed, and an exam."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, final

from ...distillation.judging.answers import Writing
from ...distillation.judging.exam import WINDOW, Exam
from ...distillation.judging.reading import Causal, answer_tokens, prompt_tokens, release_memory
from ...distillation.objective import write_cache_for
from ...experiments.trials import read_curves
from ...flows.examples import positions
from ...flows.layers import with_layers
from ...opening import open_model
from ...opening.network import PRETRAINED
from ...recipe import objective_options
from ...support.words import counted
from ...tasks.instruct import TEMPLATE, Instruct
from ...text.files import find_own
from ...text.instructions import Row, read_rows, read_text
from ...training import Recipe, train
from ...training.directory import RunDirectory
from .study import Distilled

HELD_OUT = "held out"  # the set of the last rows
PLAIN = 200_000  # characters of the plain text that are read, so judging stays short
Sets = Mapping[str, Sequence[Row]]


@final
@dataclass(frozen=True)
class RecipeRuns:
    """A recipe whose objective has a method; all else is the same for all runs. See `study.DistilRuns`."""

    base: Recipe
    data: Path | None = None

    def recipe(self, method: str, seed: int) -> Recipe:
        """The recipe of a run."""
        return self.base.changed({"objective.method": method, "train.seed": seed}, f"the recipe of {method}")

    @property
    def steps(self) -> int:
        return self.base.train.steps

    def write_cache(self, methods: Sequence[str]) -> None:
        """Let the teacher read the texts once, for all methods: runs then only read its cache."""
        _, options = objective_options(self.base.objective)
        if options.get("cache"):
            task = self.base.load_task(self.data)
            write_cache_for(methods, PRETRAINED.build(self.base, task, inf), task, options)

    def teacher(self) -> Causal:
        return open_causal(objective_options(self.base.objective)[1]["teacher"])

    def start(self) -> Causal:
        assert self.base.start is not None
        return open_causal(self.base.start, self.base.model.get("layers"))

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        """Train a student. When it is done its checkpoints are deleted: there are many students, and each checkpoint
        is three times as large as its model."""
        recipe, directory = self.recipe(method, seed), RunDirectory(folder)
        result = train(recipe, folder, self.data, quiet=True)
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
        release_memory()
        curves = read_curves(directory, result.metric.name, recipe.train)
        student = open_causal(directory.model) if result.status == "finished" else None
        losses = curves["train_loss"], curves["valid_loss"]
        return Distilled(student, result.steps, result.seconds, result.device, *losses)


def open_causal(name: str | Path, layers: int | None = None) -> Causal:
    """A model in float32, or so many of its layers, and its tokenizer."""
    opened = open_model(name)
    model = opened.model.float()
    return Causal(model if layers is None else with_layers(model, layers, str(name)), opened.needs_tokenizer())


class ExamFiles(NamedTuple):
    """The files of an exam: the training texts, whose last rows are held out; sets of other instructions by name; plain
    text; and the folder where files are that are not here."""

    texts: Sequence[Path]
    questions: Mapping[str, Path]
    plain: Path | None = None
    data: Path | None = None

    def rows(self, path: Path, template: str) -> list[Row]:
        found = read_rows(self.find(path), template)
        if not found[0].prompt:
            raise ValueError(f"{path} is plain text, and students answer instructions: give JSON lines, or use --plain")
        return found

    def plain_text(self) -> str:
        """The beginning of the plain text; empty if there is no file."""
        if self.plain is None:
            return ""
        text = read_text(self.find(self.plain))[:PLAIN]
        if not text.strip():
            raise ValueError(f"{self.plain} is empty: give a file with text")
        return text

    def find(self, path: Path) -> Path:
        return find_own(str(path), Instruct.name, self.data)


def make_exam(
    files: ExamFiles, models: Sequence[Causal], writing: Writing, options: Mapping[str, Any]
) -> tuple[Exam, list[str]]:
    """The exam for models, and notes on the rows that were left out: runs train on their prompt, or one of the models
    has no room for them.

    `options` are the recipe's for its data: `test`, how many of the last rows are held out, and `template`.
    """
    template, count = options.get("template", TEMPLATE), options["test"]
    rows = [row for path in files.texts for row in files.rows(path, template)]
    if not 0 < count < len(rows):
        raise ValueError(f"{count} of {len(rows)} rows cannot be held out: set data.test to fewer, or give more rows")
    trained, notes = {row.prompt for row in rows[:-count]}, list[str]()
    others = {name: files.rows(path, template) for name, path in files.questions.items()}
    sets = without(
        {HELD_OUT: rows[-count:], **others}, lambda row: row.prompt in trained,
        "have prompts that are trained on", "give rows with other prompts", notes,
    )  # fmt: skip
    sets = without(
        sets, lambda row: any(is_long(row, one, writing) for one in models),
        "are too long for a model", "lower --answer-tokens, or give shorter rows", notes,
    )  # fmt: skip
    window = min([WINDOW, *(most for one in models if (most := positions(one.model)) is not None)])
    return Exam(sets, writing, files.plain_text(), window), notes


def without(sets: Sets, lost: Callable[[Row], bool], why: str, advice: str, notes: list[str]) -> Sets:
    """The sets without some rows, with a note for each that has lost any; an error if none remain."""
    found = {name: [row for row in rows if not lost(row)] for name, rows in sets.items()}
    for name, rows in found.items():
        before = len(sets[name])
        if not rows:
            raise ValueError(f"{name}: all of the {counted(before, 'row')} {why}: {advice}")
        if len(rows) < before:
            notes.append(f"{name}: {before - len(rows)} of {before} rows {why}, and are left out")
    return found


def is_long(row: Row, one: Causal, writing: Writing) -> bool:
    """Whether a model cannot read the row, or has no room for an answer to it."""
    most = positions(one.model)
    asked = len(prompt_tokens(one.tokenizer, row.prompt)) + writing.max_tokens
    return most is not None and max(asked, len(answer_tokens(one.tokenizer, row).ids)) > most

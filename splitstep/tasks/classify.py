"""A user's own labelled text: a spreadsheet with one or two texts and a class or a number a line."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..options import at_least
from ..support.words import counted
from ..text.files import find_own
from ..text.splits import SPLITS
from ..text.tables import Columns, Example, find_columns, labelled_rows, read_table
from .sequences import Examples, SentenceOptions, Sentences, hold_out
from .task import Data, DataNote, number_classes, task_row

NAME = "classify"
HELD = 0.1  # the share of the training file that is held out for validation, and for the test
FEWEST = 10  # examples, so that something is held out
MOST_CLASSES = 1_000
NEARLY = 0.9  # the share of labels that must be numbers for the others to be mistakes
MOST_NUMBER = 1_000  # labels far from 0 take the squared error too long to reach
GENERATED = "generated verdicts"


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(SentenceOptions):
    """`train`, `valid`, `test`: CSV, TSV or JSONL files. Without the last two, a tenth of each class of the training
    file is held out for each that is missing, by a hash of `seed` and text. `text`, `text2` and `label` name columns;
    `labels`: classes or numbers, or what they look like. Without any file, generated sentences are used."""

    train: str = ""
    valid: str = ""
    test: str = ""
    text: str = ""
    text2: str = ""
    label: str = ""
    labels: Literal["found", "classes", "numbers"] = "found"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("seed", self.seed, 0)
        if not self.train and (given := [name for name in ("valid", "test", "text", "label") if getattr(self, name)]):
            raise ValueError(f"option {given[0]} is given and train is not: add data.train=FILE")


class Source(NamedTuple):
    """The examples of one file, with their lines."""

    path: Path
    examples: list[Example]
    columns: Columns

    def at(self, place: int) -> str:
        return f"{self.path}, line {self.examples[place].line}"

    @property
    def labels(self) -> list[str]:
        return [example.label for example in self.examples]


def read_files(options: ClassifyOptions, data: Path | None) -> dict[str, Source]:
    """The examples of the files that are given. All have the columns of the training file."""
    found: dict[str, Source] = {}
    names = (options.text, options.text2, options.label)
    for split in SPLITS:
        if name := getattr(options, split):
            table, columns = find_columns(read_table(find_own(name, NAME, data)), *names)
            found[split] = Source(table.path, labelled_rows(table, columns), columns)
            if table.named:
                names = (columns.texts[0], columns.texts[1] if len(columns.texts) > 1 else "", columns.label)
    return found


FILMS = ("film", "plot", "music", "cast", "ending", "dialogue", "camera", "story", "acting", "pace")
VERBS = ("is", "was", "seems", "feels")
DEGREES = ("", "really", "quite", "hardly", "never", "not", "not at all", "rather")
GOOD = ("good", "moving", "clever", "funny", "fresh", "lovely")
BAD = ("bad", "dull", "clumsy", "tedious", "stale", "awful")
WORDS = (*GOOD, *BAD)
TURNING = frozenset({"hardly", "never", "not", "not at all"})


def verdicts() -> list[tuple[str, str]]:
    """1,920 sentences, each with "positive" or "negative": half of the possible ones, like the squares of one colour on
    a chess board, so every word is among them."""
    found = []
    for places in product(*(range(len(words)) for words in (FILMS, VERBS, DEGREES, WORDS))):
        film, verb, degree, word = (words[i] for words, i in zip((FILMS, VERBS, DEGREES, WORDS), places, strict=True))
        praise = (word in GOOD) != (degree in TURNING)
        sentence = " ".join(filter(None, ("the", film, verb, degree, word)))
        if sum(places) % 2 == 0:
            found.append((sentence, "positive" if praise else "negative"))
    return found


def generated() -> dict[str, Source]:
    """Verdicts on films, in which "not" turns good into bad. No data needed, none real."""
    rows = [Example(number, (text,), label) for number, (text, label) in enumerate(verdicts(), 1)]
    return {"train": Source(Path(GENERATED), rows, Columns(("text",), "label"))}


def number_of(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if isfinite(value) else None


def numbers_in(source: Source) -> np.ndarray:
    """The labels as numbers."""
    values = list(map(number_of, source.labels))
    if None in values:
        wrong = values.index(None)
        raise ValueError(
            f'{source.at(wrong)}: the label "{source.labels[wrong]}" is not a number: correct it, or add '
            "data.labels=classes"
        )
    if max(map(abs, filter(None, values)), default=0.0) > MOST_NUMBER:
        raise ValueError(
            f"{source.path}: the labels reach beyond {MOST_NUMBER:,}, and numbers are learned unscaled: bring them "
            "to a scale of about 0 to 10, or add data.labels=classes"
        )
    return np.array(values, dtype=np.float32)


def classes_in(sources: Mapping[str, Source]) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The names of the classes, and the numbers of all labels."""
    train = sources["train"]
    if (many := len(set(train.labels))) > MOST_CLASSES:
        raise ValueError(
            f"{train.path}: the labels are {many:,} classes, and at most {MOST_CLASSES:,} are learned: name another "
            "column with data.label=, or add data.labels=numbers"
        )
    labels = {split: source.labels for split, source in sources.items()}
    header = "; if the first line is a header, name the columns (data.text=, data.label=)"
    return number_classes(labels, lambda split, i: sources[split].at(i), header * (train.examples[0].line == 1))


def with_held_out(examples: dict[str, Examples], seed: int) -> dict[str, Examples]:
    """All three splits: those that are given, and the others held out from the training examples."""
    train, found = examples["train"], dict(examples)
    for number, split in enumerate(SPLITS[:0:-1]):  # the test first: it stays as it is if there is a file for valid
        if split not in examples:
            train, found[split] = hold_out(train, HELD / (1 - HELD * number), seed)
    return {"train": train, "valid": found["valid"], "test": found["test"]}


def read_classify(options: ClassifyOptions, data: Path | None = None) -> Data:
    sources = read_files(options, data) if options.train else generated()
    train = sources["train"]
    if len(train.examples) < FEWEST:
        raise ValueError(
            f"{train.path} has {counted(len(train.examples), 'example')}, and at least {FEWEST} are needed: a "
            "tenth is held out"
        )
    values = list(map(number_of, train.labels))
    fractions = any(value is not None and value != int(value) for value in values)
    nearly = values.count(None) <= (1 - NEARLY) * len(values)  # those that are not, such as "n/a", are refused later
    if options.labels == "numbers" or (options.labels == "found" and nearly and fractions):
        names, labels = (), {split: numbers_in(source) for split, source in sources.items()}
    else:
        names, labels = classes_in(sources)
    given = {
        split: Examples([example.texts for example in source.examples], labels[split])
        for split, source in sources.items()
    }
    told = {
        "name": "own labelled text" if options.train else GENERATED,
        "files": {split: source.path.name for split, source in sources.items()} if options.train else {},
        "columns": [*train.columns.texts, train.columns.label],
        "held_out": [split for split in SPLITS if split not in sources],
    }
    return Data(with_held_out(given, options.seed), told, labels=names)


CLASSIFY = task_row(
    NAME, "Your labelled text: classes, or numbers, of one text or of two.", Sentences, ClassifyOptions,
    DataNote("CSV, TSV or JSONL; without a file 1,920 generated sentences", "generated"), read_classify,
)  # fmt: skip

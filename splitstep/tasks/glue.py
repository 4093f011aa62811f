"""GLUE: nine tasks on sentences and pairs of sentences, from the published files.

Rates are chosen on `valid`, a tenth of the training set. `test` is the published dev set, whose labels are known. The
published test sets have no labels: `splitstep predict RUN --submission DIR` writes predictions for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..text.files import data_root, read_text, require
from ..text.tables import Record, tab_records
from .measures import ACCURACY, F1_ACCURACY, LABELS, MATTHEWS, NUMBERS, PEARSON, Metric
from .sequences import Examples, SentenceOptions, Sentences, hold_out
from .task import Data, DataNote, task_row

ORIGIN = "https://gluebenchmark.com/tasks"
NAME = "glue"
HELD = 0.1  # of the training set, for validation


class GlueTask(NamedTuple):
    """One task of GLUE: its folder and columns, its labels in the order of their numbers, and its figures.

    `written`: what stands for each label in the files and in a submission. `counts` are those of the published files.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    written: tuple[str, ...]
    metric: Metric
    counts: Mapping[str, int]
    number: str = "index"  # the column of the test file that a submission repeats
    devs: Mapping[str, str] = {"test": "dev"}  # splits here, and the files that they are; never changed
    tests: Mapping[str, str] = {}  # files of a submission and what they answer; else FOLDER and test


ENTAILED = ("entailment", "not_entailment")
BINARY = ("0", "1")
PAIR = ("sentence1", "sentence2")
PARTS: dict[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA", ("sentence",), "label", ("unacceptable", "acceptable"), BINARY, MATTHEWS,
        {"train": 8551, "dev": 1043, "test": 1063},
    ),
    "sst2": GlueTask(
        "SST-2", ("sentence",), "label", ("negative", "positive"), BINARY, ACCURACY,
        {"train": 67349, "dev": 872, "test": 1821},
    ),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", ("not_equivalent", "equivalent"), BINARY, F1_ACCURACY,
        {"train": 3668, "dev": 408, "test": 1725},
    ),
    "rte": GlueTask("RTE", PAIR, "label", ENTAILED, ENTAILED, ACCURACY, {"train": 2490, "dev": 277, "test": 3000}),
    "stsb": GlueTask("STS-B", PAIR, "score", (), (), PEARSON, {"train": 5749, "dev": 1500, "test": 1379}),
    "wnli": GlueTask(
        "WNLI", PAIR, "label", ("not_entailment", "entailment"), BINARY, ACCURACY,
        {"train": 635, "dev": 71, "test": 146},
    ),
    "mnli": GlueTask(
        "MNLI", PAIR, "gold_label", ("entailment", "neutral", "contradiction"),
        ("entailment", "neutral", "contradiction"), ACCURACY,
        {"train": 392702, "dev_matched": 9815, "dev_mismatched": 9832, "test_matched": 9796, "test_mismatched": 9847},
        devs={"test": "dev_matched", "mismatched": "dev_mismatched"},
        tests={"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"},
    ),
    "qnli": GlueTask(
        "QNLI", ("question", "sentence"), "label", ENTAILED, ENTAILED, ACCURACY,
        {"train": 104743, "dev": 5463, "test": 5463},
    ),
    "qqp": GlueTask(
        "QQP", ("question1", "question2"), "is_duplicate", ("not_duplicate", "duplicate"), BINARY, F1_ACCURACY,
        {"train": 363846, "dev": 40430, "test": 390965}, number="id",
    ),
}  # fmt: skip
HEADLESS = {"CoLA": ("source", "label", "mark", "sentence")}  # its train and dev files name no columns
TORN = frozenset({"QQP"})  # some published rows lack fields; everybody leaves them out


@dataclass(frozen=True, kw_only=True)
class GlueOptions(SentenceOptions):
    """`name`: which of the tasks."""

    name: Literal["cola", "sst2", "mrpc", "rte", "stsb", "wnli", "mnli", "qnli", "qqp"] = "sst2"


class Lines(NamedTuple):
    """The rows of a published file by column."""

    path: Path
    columns: tuple[str, ...]
    rows: list[Record]

    def column(self, name: str) -> list[str]:
        if name not in self.columns:
            raise ValueError(
                f'{self.path} has no column "{name}", but {", ".join(self.columns)}: use the published file'
            )
        place = self.columns.index(name)
        return [row[place] for _, row in self.rows]


def read_lines(root: Path, part: GlueTask, name: str) -> Lines:
    """One file of a task. Quotes are characters like any other; a row that lacks fields is refused."""
    path = require(root, NAME, ORIGIN, f"glue/{part.folder}/{name}.tsv")
    lines = tab_records(read_text(path))
    if len(lines) < 2:
        raise ValueError(f"{path} has no rows: use the published file")
    if part.folder in HEADLESS and not name.startswith("test"):
        columns, rows = HEADLESS[part.folder], lines
    else:
        columns, rows = tuple(lines[0][1]), lines[1:]
    whole = [(number, row) for number, row in rows if len(row) == len(columns)]
    if len(whole) < len(rows) and part.folder not in TORN:
        number, row = next(one for one in rows if len(one[1]) != len(columns))
        raise ValueError(
            f"{path}, line {number} has {len(row)} fields, and needs {len(columns)}: use the published file"
        )
    return Lines(path, columns, whole)


def texts_of(lines: Lines, part: GlueTask) -> list[tuple[str, ...]]:
    return list(zip(*(lines.column(name) for name in part.texts), strict=True))


def labels_of(lines: Lines, part: GlueTask) -> np.ndarray:
    """The labels as numbers of classes, or as they are."""
    read, found = part.written.index if part.labels else float, list[float]()
    for (number, _), label in zip(lines.rows, lines.column(part.label), strict=True):
        try:
            found.append(read(label))
        except ValueError:
            wanted = " or ".join(part.written) or "a number"
            raise ValueError(f'{lines.path}, line {number}: the label is "{label}", and needs to be {wanted}') from None
    return np.array(found, dtype=np.int64 if part.labels else np.float32)


class Submission(NamedTuple):
    """A file of the official submission: its name, the numbers of its rows, and their texts."""

    name: str
    indices: list[str]
    texts: list[tuple[str, ...]]


def submissions(name: str, data: Path | None) -> list[Submission]:
    """What is to be predicted for the official submission of a task."""
    part, found = PARTS[name], []
    for file, test in (part.tests or {part.folder: "test"}).items():
        lines = read_lines(data_root(data), part, test)
        found.append(Submission(f"{file}.tsv", lines.column(part.number), texts_of(lines, part)))
    return found


def submission_text(name: str, indices: Sequence[str], predicted: Sequence[int] | Sequence[float]) -> str:
    """The file of a submission: index and prediction, the numbers of STS-B from 0 to 5."""
    written = PARTS[name].written
    answers = [written[int(one)] if written else f"{min(5.0, max(0.0, one)):.3f}" for one in predicted]
    rows = ("\t".join(row) for row in zip(indices, answers, strict=True))
    return "\n".join(("index\tprediction", *rows)) + "\n"


def read_glue(options: GlueOptions, data: Path | None = None) -> Data:
    part, root = PARTS[options.name], data_root(data)
    files = {name: read_lines(root, part, name) for name in ("train", *part.devs.values())}
    read = {name: Examples(texts_of(lines, part), labels_of(lines, part)) for name, lines in files.items()}
    train, valid = hold_out(read["train"], HELD)
    counts = {name: len(one.labels) for name, one in read.items()}
    published = {name: part.counts[name] for name in counts}
    source = {"name": f"GLUE, {part.folder}", "rows": counts, "published_rows": published}
    examples = {"train": train, "valid": valid} | {split: read[name] for split, name in part.devs.items()}
    measure = (LABELS if part.labels else NUMBERS)._replace(metric=part.metric)
    return Data(examples, source, labels=part.labels, measure=measure)


GLUE = task_row(
    NAME, "One of the nine tasks of GLUE.", Sentences, GlueOptions,
    DataNote(
        "nine tasks of 635 to 392,702 training examples", "by hand",
        tuple(f"glue/{part.folder}/train.tsv" for part in PARTS.values()), ORIGIN,
    ), read_glue,
)  # fmt: skip

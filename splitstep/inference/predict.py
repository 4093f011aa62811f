"""What a run's classifier or regressor says of texts and images, without the run's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..support.documents import read_json
from ..support.words import counted
from ..tasks import TASKS
from ..tasks.glue import submission_text, submissions
from ..tasks.images import Standard, standardised
from ..tasks.own_images import WHITE, Mode, open_image, pixels_of
from ..tasks.pairs.searching import Progress
from ..text.tokenizers import CONFIG, TOKENIZER
from ..training.directory import RunDirectory
from ..training.update import autocast
from .runs import Finished, find_run

BATCH = 64


@dataclass(frozen=True)
class Predictions:
    """For each input the probabilities of all labels, the likeliest and its probability; or a number."""

    run: str
    labels: tuple[str, ...]  # empty: numbers are predicted
    outputs: list[list[float]]  # of each input: probabilities, or one number
    cut: list[int]  # the lines, from 1, that were too long and were cut

    def best(self) -> list[int]:
        """The likeliest label of each input."""
        return [int(np.argmax(one)) for one in self.outputs]

    def lines(self) -> list[str]:
        """One line for each input: label and probability, or the number."""
        if not self.labels:
            return [f"{one[0]:.4f}" for one in self.outputs]
        return [f"{self.labels[i]}\t{one[i]:.4f}" for i, one in zip(self.best(), self.outputs, strict=True)]

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        if not self.labels:
            found: list[dict[str, Any]] = [{"number": one[0]} for one in self.outputs]
        else:
            found = [
                {"label": self.labels[i], "probability": one[i], "probabilities": one}
                for i, one in zip(self.best(), self.outputs, strict=True)
            ]
        return {"run": self.run, "labels": list(self.labels), "predictions": found, "cut": self.cut}


class Inputs(NamedTuple):
    """What a model reads: batches with the numbers of their inputs, and the lines that were cut."""

    batches: Iterator[tuple[list[int], dict[str, Tensor]]]
    cut: list[int]


def predict_run(path: Path, lines: Sequence[str], progress: Progress | None = None) -> Predictions:
    """What a run's model says of each line: a text, two texts with a tab between them, or the path of an image."""
    run = find_run(path)
    kind = TASKS[run.recipe.task].model
    if kind not in ("sequence", "image"):
        verb = {"translation": "translate", "causal": "generate"}.get(kind)
        instead = f"use `splitstep {verb} {path}`" if verb else "name a run of a classifier"
        raise ValueError(f'{path} is a run of task "{run.recipe.task}", which has no labels to predict: {instead}')
    if not lines:
        raise ValueError("there is nothing to predict: give one text, or the path of one image, on each line")
    wanted = RunDirectory(path).environment().data.get("texts", 1)
    texts = [tuple(line.split("\t")) for line in lines]
    if kind == "sequence":
        check_texts(texts, wanted)
    return (
        predict_texts(path, run, texts, progress) if kind == "sequence" else predict_images(path, run, lines, progress)
    )


def check_texts(texts: Sequence[tuple[str, ...]], wanted: int) -> None:
    """Refuse lines with more or fewer texts than the model was trained with."""
    for number, one in enumerate(texts, 1):
        if len(one) != wanted:
            needs = "two, with a tab between them" if wanted == 2 else "one: remove the tabs"
            raise ValueError(f"line {number} has {counted(len(one), 'text')}, and the model reads {needs}")


def predict_texts(
    path: Path, run: Finished, texts: Sequence[tuple[str, ...]], progress: Progress | None = None
) -> Predictions:
    """What the model says of texts, or pairs of texts."""
    model, precision = run.load_model()
    inputs = text_inputs(run.model, model.config, texts)
    return answers(path, model, precision, inputs, len(texts), progress)


def text_inputs(folder: Path, config: Any, texts: Sequence[tuple[str, ...]]) -> Inputs:
    """The texts as the model's own tokenizer reads them, the shortest first, so little is padded."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    settings = read_json(folder / CONFIG)
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(min(settings["model_max_length"], config.max_positions))
    found = tokenizer.encode_batch([one[0] if len(one) == 1 else one for one in texts])
    order = sorted(range(len(found)), key=lambda number: len(found[number].ids))
    padding: int = tokenizer.token_to_id(settings["pad_token"])  # pyright: ignore[reportAssignmentType]  # it has one

    def batches() -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            fields = {
                "input_ids": [found[i].ids for i in rows],
                "attention_mask": [found[i].attention_mask for i in rows],
            }
            if config.token_types:
                fields["token_type_ids"] = [found[i].type_ids for i in rows]
            yield rows, {name: filled(x, padding if name == "input_ids" else 0) for name, x in fields.items()}

    return Inputs(batches(), [number for number, one in enumerate(found, 1) if one.overflowing])


def filled(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Rows of whole numbers, filled up to the longest [B, T]."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])


def predict_images(path: Path, run: Finished, files: Sequence[str], progress: Progress | None = None) -> Predictions:
    """What the model says of image files."""
    for number, name in enumerate(files, 1):
        if not Path(name).is_file():
            raise ValueError(f'line {number}: there is no file "{name}": give the path of one image on each line')
    model, precision = run.load_model()
    settings = read_json(run.model / "preprocessor_config.json")
    standard = Standard(WHITE, settings["image_mean"], settings["image_std"])
    mode: Mode = "L" if model.config.channels == 1 else "RGB"

    def batches() -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        for first in range(0, len(files), BATCH):
            part = files[first : first + BATCH]
            squares = [pixels_of(open_image(Path(name)), mode, model.config.image_size) for name in part]
            rows = list(range(first, first + len(part)))
            yield rows, {"pixel_values": standardised(np.stack(squares), standard)}

    return answers(path, model, precision, Inputs(batches(), []), len(files), progress)


@torch.no_grad()
def answers(
    path: Path, model: Any, precision: torch.dtype, inputs: Inputs, count: int, progress: Progress | None
) -> Predictions:
    """The model's outputs in the order of the inputs."""
    outputs: list[list[float]] = [[]] * count
    device, done = next(model.parameters()).device, 0
    numbers = model.config.num_labels == 1
    for rows, batch in inputs.batches:
        with autocast(precision, device):
            logits = model(**{name: x.to(device) for name, x in batch.items()}).logits.float()
        found = (logits if numbers else logits.softmax(-1)).cpu().tolist()
        for row, one in zip(rows, found, strict=True):
            outputs[row] = one
        done += len(rows)
        if progress is not None:
            progress(done, count)
    names = () if numbers else tuple(model.config.id2label[i] for i in range(model.config.num_labels))
    return Predictions(str(path), names, outputs, inputs.cut)


def submit_run(path: Path, out: Path, data: Path | None = None, progress: Progress | None = None) -> list[Path]:
    """Write the files of GLUE's official submission for a run of one of its tasks."""
    run = find_run(path)
    if run.recipe.task != "glue":
        raise ValueError(f'{path} is a run of task "{run.recipe.task}": --submission is for runs of task "glue"')
    written = []
    for one in submissions(run.recipe.options.name, data):
        found = predict_texts(path, run, one.texts, progress)
        predicted = found.best() if found.labels else [output[0] for output in found.outputs]
        out.mkdir(parents=True, exist_ok=True)
        text = submission_text(run.recipe.options.name, one.indices, predicted)
        (out / one.name).write_text(text, encoding="utf-8")
        written.append(out / one.name)
    return written

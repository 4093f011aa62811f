"""What a run's classifier or regressor says of texts and images, without the run's data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..support.documents import AGAIN, read_json, readable
from ..support.words import counted
from ..tasks import TASKS
from ..tasks.glue import submission_text, submissions
from ..tasks.images import Standard, standardised
from ..tasks.own_images import WHITE, Mode, open_image, pixels_of
from ..tasks.pairs.codec import Progress
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
        found: list[dict[str, Any]] = [{"number": one[0]} for one in self.outputs]
        if self.labels:
            pairs = zip(self.best(), self.outputs, strict=True)
            found = [{"label": self.labels[i], "probability": one[i], "probabilities": one} for i, one in pairs]
        return {"run": self.run, "labels": list(self.labels), "predictions": found, "cut": self.cut}


class Inputs(NamedTuple):
    """What a model reads: the numbers of its inputs in the order to read them, what makes a batch of some of them, and
    the lines that were cut."""

    order: Sequence[int]
    batch: Callable[[Sequence[int]], dict[str, Tensor]]
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
    if kind == "image":
        return predictions(path, run, partial(image_inputs, lines), progress)
    texts = [tuple(line.split("\t")) for line in lines]
    wanted = RunDirectory(path).environment().data.get("texts", 1)  # as many as the model was trained with
    for number, one in enumerate(texts, 1):
        if len(one) != wanted:
            needs = "two, with a tab between them" if wanted == 2 else "one: remove the tabs"
            raise ValueError(f"line {number} has {counted(len(one), 'text')}, and the model reads {needs}")
    return predictions(path, run, partial(text_inputs, texts), progress)


def text_inputs(texts: Sequence[tuple[str, ...]], folder: Path, config: Any) -> Inputs:
    """Texts, or pairs of them, as the model's own tokenizer reads them, the shortest first, so little is padded."""
    from tokenizers import Tokenizer

    with readable(folder / TOKENIZER, AGAIN):
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        settings = read_json(folder / CONFIG)
        if tokenizer.truncation is None:
            tokenizer.enable_truncation(min(settings["model_max_length"], config.max_positions))
        found = tokenizer.encode_batch([one[0] if len(one) == 1 else one for one in texts])
        fills = {"ids": tokenizer.token_to_id(settings["pad_token"]), "attention_mask": 0}
    fills |= {"type_ids": 0} if config.token_types else {}
    names = {"ids": "input_ids", "type_ids": "token_type_ids"}

    def batch(rows: Sequence[int]) -> dict[str, Tensor]:
        return {
            names.get(name, name): pad_sequence([torch.tensor(getattr(found[i], name)) for i in rows], True, fill)
            for name, fill in fills.items()
        }

    order = sorted(range(len(found)), key=lambda number: len(found[number].ids))
    return Inputs(order, batch, [number for number, one in enumerate(found, 1) if one.overflowing])


def image_inputs(files: Sequence[str], folder: Path, config: Any) -> Inputs:
    """Image files as the model was trained on them."""
    for number, name in enumerate(files, 1):
        if not Path(name).is_file():
            raise ValueError(f'line {number}: there is no file "{name}": give the path of one image on each line')
    settings = read_json(folder / "preprocessor_config.json")
    standard = Standard(WHITE, settings["image_mean"], settings["image_std"])
    mode: Mode = "L" if config.channels == 1 else "RGB"

    def batch(rows: Sequence[int]) -> dict[str, Tensor]:
        squares = [pixels_of(open_image(Path(files[i])), mode, config.image_size) for i in rows]
        return {"pixel_values": standardised(np.stack(squares), standard)}

    return Inputs(range(len(files)), batch, [])


@torch.no_grad()
def predictions(
    path: Path, run: Finished, read: Callable[[Path, Any], Inputs], progress: Progress | None
) -> Predictions:
    """What the model of a run says, in the order of the inputs."""
    model, precision = run.load_model()
    inputs, device, numbers = read(run.model, model.config), model.device, model.config.num_labels == 1
    outputs: list[list[float]] = [[]] * len(inputs.order)
    for first in range(0, len(outputs), BATCH):
        rows = inputs.order[first : first + BATCH]
        with autocast(precision, device):
            logits = model(**{name: x.to(device) for name, x in inputs.batch(rows).items()}).logits.float()
        found = (logits if numbers else logits.softmax(-1)).cpu().tolist()
        for row, one in zip(rows, found, strict=True):
            outputs[row] = one
        if progress is not None:
            progress(first + len(rows), len(outputs))
    names = () if numbers else tuple(model.config.id2label[i] for i in range(model.config.num_labels))
    return Predictions(str(path), names, outputs, inputs.cut)


def submit_run(path: Path, out: Path, data: Path | None = None, progress: Progress | None = None) -> list[Path]:
    """Write the files of GLUE's official submission for a run of one of its tasks."""
    run = find_run(path)
    if run.recipe.task != "glue":
        raise ValueError(f'{path} is a run of task "{run.recipe.task}": --submission is for runs of task "glue"')
    written = []
    for one in submissions(run.recipe.options.name, data):
        found = predictions(path, run, partial(text_inputs, one.texts), progress)
        predicted = found.best() if found.labels else [output[0] for output in found.outputs]
        out.mkdir(parents=True, exist_ok=True)
        text = submission_text(run.recipe.options.name, one.indices, predicted)
        (out / one.name).write_text(text, encoding="utf-8")
        written.append(out / one.name)
    return written

"""What can be asked of a run that is done: its figures on a split, and text from a language model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from ..models import MODELS, SplitstepForTranslation, SplitstepModel
from ..models.base import silent
from ..operators.attention import unplanned_attention
from ..tasks import TASKS, Task
from ..tasks.language import Language
from ..tasks.options import holdable, read_options
from ..tasks.task import check_split
from ..tasks.text_pairs.codec import Codec
from ..tasks.text_pairs.search import Progress, Search, decode_lines, longer_than_trained
from ..tasks.translation import PairOptions, Translation
from ..training import Recipe, evaluate, read_recipe
from ..training.directory import RunDirectory
from .translate import Translated, translate_split


class Trained(NamedTuple):
    """A run, loaded."""

    recipe: Recipe
    task: Task
    model: SplitstepModel
    precision: torch.dtype


def open_run(path: Path, data: Path | None = None) -> Trained:
    """The run in a directory: its recipe, its task and its model, on the GPU where there is one."""
    directory = RunDirectory(path)
    recipe = read_recipe(directory.recipe(), str(path / "recipe.yaml"))
    result = directory.result()
    if result is None:
        raise ValueError(f"{path} has not finished: go on with it by `splitstep train {path}/recipe.yaml --out {path}`")
    if result["status"] != "finished" or not directory.model.is_dir():
        raise ValueError(f"{path} has no model: the run {result['status']} at step {result['steps']}")
    task = recipe.load_task(data)
    if isinstance(task, Translation) and not task.codec.same_as(Codec.load(directory.model)):
        raise ValueError(
            f"{path} was trained with other subwords than its data have now: bring back the files and the version of "
            f"tokenizers that its environment.json names; `splitstep translate {path}` needs neither"
        )
    return Trained(recipe, task, *load_model(MODELS[task.model], directory, result))


def load_model(kind: type[SplitstepModel], directory: RunDirectory, result: dict[str, Any]) -> tuple[Any, torch.dtype]:
    """A run's model, on the GPU where there is one, and the precision to run it in."""
    with silent():
        model = kind.from_pretrained(directory.model)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = getattr(torch, result["precision"]) if device.type == "cuda" else torch.float32
    return model.to(device).eval(), precision


@dataclass(frozen=True)
class Figures:
    """The figures of a run on one split; those of a translator are of its translations, too."""

    run: str
    task: str
    scheme: str
    split: str
    metric: dict[str, Any]
    figures: dict[str, float]
    translated: Translated | None = None

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        plain = {name: value for name, value in asdict(self).items() if name != "translated"}
        return plain if self.translated is None else {**plain, "translation": self.translated.document()}


class Wanted(NamedTuple):
    """What somebody asks of a search; None: as the run's recipe says."""

    beams: int | None = None
    length_penalty: float | None = None

    def of(self, search: Search) -> Search:
        found = replace(search, **{name: value for name, value in self._asdict().items() if value is not None})
        if self.length_penalty is not None and found.beams == 1:
            raise ValueError(
                f"--length-penalty {self.length_penalty:g} chooses between beams, and there is one: add --beams 5, or "
                "leave it out"
            )
        return found


AS_TRAINED = Wanted()


def evaluate_run(
    path: Path,
    split: str = "test",
    data: Path | None = None,
    wanted: Wanted = AS_TRAINED,
    progress: Progress | None = None,
) -> Figures:
    """The figures of the run's model on a split, every example once."""
    run = open_run(path, data)
    check_split(run.task, split)
    search: Search | None = None
    if isinstance(run.task, Translation):
        run.task.text(split)  # this and the next refuse what cannot be, before the loss is computed
        search = wanted.of(run.task.search)
    elif wanted != AS_TRAINED:
        raise ValueError(
            f'task "{run.task.name}" has no translations to search for: leave out --beams and --length-penalty'
        )
    size = run.recipe.train.evaluate_batch or run.recipe.train.batch
    found = evaluate(run.model, run.task, split, size, run.precision)
    translated = None
    if isinstance(run.task, Translation) and isinstance(run.model, SplitstepForTranslation):
        translated = translate_split(run.model, run.task, split, search, run.precision, progress)
        found |= {one.key: one.value for one in translated.scores}
    metric, notation = run.task.metric._asdict(), run.model.config.scheme
    return Figures(str(path), run.task.name, notation, split, metric, found, translated)


class Translations(NamedTuple):
    """Lines in the target language, the numbers of those far longer than the model's data, and how they were found."""

    lines: list[str]
    longer: list[int]
    search: Search


def translate_run(
    path: Path, lines: Sequence[str], wanted: Wanted = AS_TRAINED, progress: Progress | None = None
) -> Translations:
    """Lines translated by a run's model, which needs none of its data."""
    directory = RunDirectory(path)
    result = directory.result()
    if result is None or not directory.model.is_dir():
        raise ValueError(f"{path} has no finished model: train one with `splitstep train RECIPE --out {path}`")
    codec = Codec.load(directory.model)
    search = wanted.of(search_of(read_recipe(directory.recipe(), str(path / "recipe.yaml"))))
    model, precision = load_model(SplitstepForTranslation, directory, result)
    prepared = codec.form.prepare(lines, codec.form.source)
    found = codec.form.plain(decode_lines(model, codec, prepared, search, precision, progress), codec.form.target)
    return Translations(found, longer_than_trained(model, codec, prepared), search)


def search_of(recipe: Recipe) -> Search:
    """How a recipe's translations are searched for."""
    options = read_options(TASKS[recipe.task].Options, recipe.data, f'task "{recipe.task}"')
    assert isinstance(options, PairOptions), recipe.task  # its model has a codec
    return options.search


MOST_TOKENS = 1_000_000  # one by one, and nothing is shown before the last


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it."""

    run: str
    prompt: str
    text: str
    tokens: int
    temperature: float
    seed: int

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def generate(
    path: Path, prompt: str, tokens: int = 200, temperature: float = 1.0, seed: int = 0, data: Path | None = None
) -> Sample:
    """Let a run's language model go on from the prompt; a temperature of 0 takes the likeliest token each time."""
    if not 1 <= tokens <= MOST_TOKENS or not 0 <= temperature < math.inf:
        raise ValueError(
            f"generate needs at least one token and at most {MOST_TOKENS:,}, and a temperature of at least 0; got "
            f"{tokens} and {temperature}"
        )
    holdable("the seed", seed)
    run = open_run(path, data)
    if not isinstance(run.task, Language):
        raise ValueError(f'task "{run.task.name}" has no text to go on with: generate needs a run of a language model')
    given = run.task.encode(prompt)
    if not given:
        raise ValueError('the prompt is empty: give some text to go on from, such as --prompt "The "')
    written = sample(run, given, tokens, temperature, seed)
    return Sample(str(path), prompt, run.task.decode(written), tokens, temperature, seed)


@torch.no_grad()
def sample(run: Trained, given: list[int], tokens: int, temperature: float, seed: int) -> list[int]:
    """The tokens that follow. The model sees a window of its task's length; a full one begins again at its half."""
    device, length = next(run.model.parameters()).device, run.task.length
    random = torch.Generator().manual_seed(seed)
    ids, new, cache = list(given), list(given)[-length:], DynamicCache()
    with unplanned_attention():
        for _ in range(tokens):
            if cache.get_seq_length() + len(new) > length:
                new, cache = ids[-(length // 2) :], DynamicCache()
            found = run.model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            new = [int(draw(found.logits[0, -1].float().cpu(), temperature, random))]
            ids += new
    return ids[len(given) :]


def draw(logits: Tensor, temperature: float, random: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax()
    return torch.multinomial(((logits - logits.max()) / temperature).softmax(-1), 1, generator=random)

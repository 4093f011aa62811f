"""The result of a run: a typed record, written as JSON and read back as it was written; and the model card, which is
the README.md of a model's folder, with the front matter that the Hub reads."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from ..models import SplitstepConfig, SplitstepModel
from ..models.config import kind_of
from ..models.cost import Cost
from ..schemes import name_of
from ..support.provenance import Provenance
from ..support.typed import Figure, Inlined, plain
from ..support.words import counted
from ..tasks import Metric, Task
from ..tasks.pairs.scores import Score
from ..text.tokenizers import TOKENIZER

Figures = dict[str, Figure]


class SchemeName(NamedTuple):
    """A scheme: its row's name, if it has one, and its notation; "" for a network that others designed."""

    name: str | None
    notation: str


class Shape(NamedTuple):
    """The shape of a network, as tables print it."""

    layers: int
    width: int
    ffn: int | list[int]
    step: float


class Kept(NamedTuple):
    """Which weights a run ended with: the best by a figure on validation, or the mean over several steps."""

    by: Literal["best", "average"]
    steps: list[int]
    figure: str | None = None


class Matched(NamedTuple):
    """What an equal-cost twin was matched to, both costs, and their relative difference."""

    by: Literal["parameters", "flops"]
    reference: str
    reference_cost: Cost
    cost: Cost
    difference: float


class SplitResult(NamedTuple):
    """What a model wrote for a split: how many lines, their figures, and each score in full."""

    lines: int
    figures: Figures
    scores: tuple[Score, ...]


class Divergence(NamedTuple):
    """Where a run diverged: `layer` is the first whose output is not finite, else the one in which states grow most.
    The norms are those of the states after the embedding and each layer, and of each layer's weights."""

    step: int
    loss: Figure
    gradient_norm: Figure = float("nan")
    layer: int | Literal["embedding"] = "embedding"
    state_norms: tuple[Figure, ...] = ()
    weight_norms: tuple[Figure, ...] = ()
    reason: str = ""  # if it is another than the loss or the gradient


class Start(NamedTuple):
    """What a run started from: a model's folder or run as the recipe names it, the sha256 of its weights, how many of
    them were loaded, and the names of the weights that are new and of those that were not used."""

    path: str
    sha256: str
    loaded: int
    new: list[str]
    left: list[str]

    def summary(self) -> str:
        """Which weights were loaded, in one line."""
        counts = {"new": self.new, "left": self.left}
        names = "".join(f"; {word}: {listed(found)}" for word, found in counts.items() if found)
        return f"starts from {self.path}: {counted(self.loaded, 'tensor')} loaded{names}"


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended, its figures and its cost: what its own result and a comparison's both hold."""

    status: Literal["finished", "diverged"]
    seed: int
    best_step: int | None
    valid: Figures | None
    steps: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    cost: Cost
    matched: Matched | None
    shape: Shape
    device: str
    precision: str
    mode: str
    commit: str | None
    kept: Kept | None = None  # from here on: what older runs, or runs that ended otherwise, do not have
    test: Figures | None = None
    splits: dict[str, SplitResult] | None = None  # scores of what the model wrote for each split
    diverged: Divergence | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult(RunOutcome):
    """What is known of a run that is over, however it ended."""

    task: str
    scheme: SchemeName
    metric: Metric
    made: Inlined[Provenance]
    processes: int = 1
    parallel: str = "none"
    start: Start | None = None
    kind: str | None = None  # the class of a model that is not of this package; its scheme is how its layers are read

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's document."""
        return self.made.recipe or {}

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return plain(self)


def listed(names: list[str], most: int = 4) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


Rows = Sequence[tuple[str, str]]
PIPELINES = {
    "AutoModelForCausalLM": "text-generation",
    "AutoModelForImageClassification": "image-classification",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForSeq2SeqLM": "translation",
    "AutoModelForSequenceClassification": "text-classification",
}  # what the Hub calls the models that each Auto class makes
MARKUP = re.compile(r"([\\`*_\[\]|~$])")  # what can begin or end markup within a line

CARD = """\
---
{front}---

# {title}

{about}

{model}

## Data

{data}
{prompt}
## Figures

{figures}

These figures come from one run, with one seed ({seed}), so they have no interval; other seeds give other figures. The
weights are {kept}.

## How to load

{loading}
"""
PLACE = "path/to/this/folder"
ABOUT = "A Transformer whose layers are steps of a numerical scheme, trained with splitstep on the task {}."
OWN_LOADER = f"""\
In a program that imports splitstep (`pip install splitstep`):

```python
import splitstep as ss

found = ss.load("{PLACE}")  # found.model, and found.tokenizer or found.processor
```

"""
FLAG = """\
In any program with transformers, if splitstep is installed; the flag lets it run the small file `splitstep_models.py`:

"""


def written_card(
    result: RunResult, task: Task, auto: str, *, title: str, about: str, rows: Rows, loading: str, prompt: str = ""
) -> str:
    """The card of a run's model; `rows` describe it, and `auto` is the Auto class that opens it."""
    tags = {"library_name": "transformers", "pipeline_tag": PIPELINES.get(auto), "tags": ["splitstep", result.task]}
    return CARD.format(
        front=yaml.safe_dump({key: value for key, value in tags.items() if value}, sort_keys=False),
        title=escaped(title),
        about=about,
        model=markdown_table(["model", ""], rows),
        data=data_list(task.describe().get("source"), result.recipe.get("data")),
        prompt=prompt,
        figures="\n\n".join(figures_of(result)),
        seed=result.seed,
        kept=kept_as(result),
        loading=loading,
    )


def loading_code(auto: str, reads_text: bool, ours: bool) -> str:
    """How to load a model with transformers alone; `ours`: if its class is of this package."""
    lines = [
        "```python",
        f"from transformers import {auto}{', AutoTokenizer' if reads_text else ''}",
        "",
        f'model = {auto}.from_pretrained("{PLACE}"{", trust_remote_code=True" if ours else ""})',
        *([f'tokenizer = AutoTokenizer.from_pretrained("{PLACE}")'] if reads_text else []),
        "```",
    ]
    return FLAG * ours + "\n".join(lines)


def escaped(value: Any) -> str:
    """Text for one line of Markdown, in which nothing is markup."""
    line = " ".join(str(value).split())
    return MARKUP.sub(r"\\\1", html.escape(line, quote=False))


def model_card(result: RunResult, model: SplitstepModel, task: Task, folder: Path) -> str:
    """The card of a network of a scheme, which is in this folder with what reads its inputs."""
    auto, scheme = kind_of(model.config).auto.__name__, result.scheme.name or result.scheme.notation
    return written_card(
        result,
        task,
        auto,
        title=f"{result.task}, {scheme}",
        about=ABOUT.format(escaped(result.task)),
        rows=model_rows(result, model.config),
        loading=OWN_LOADER + loading_code(auto, (folder / TOKENIZER).is_file(), True),
    )


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def model_rows(result: RunResult, config: SplitstepConfig) -> Rows:
    """What the network is: its schemes with their orders, its shape and its size."""
    stacks = config.stacks()
    names = [""] if len(stacks) == 1 else ["encoder: ", "decoder: "]
    rows = []
    for name, (one, layers) in zip(names, stacks, strict=True):
        known = f" ({escaped(name_of(one))})" if name_of(one) else ""
        order = "none, because a part replaces the state" if one.order is None else str(one.order)
        rows += [(f"{name}scheme", f"`{one}`{known}"), (f"{name}order", order), (f"{name}layers", f"{layers}")]
    ffn = escaped(result.shape.ffn)
    shape = f"width {result.shape.width}, feed-forward width {ffn}, step {result.shape.step:g}"
    trained = f"{counted(result.steps, 'step')}, {counted(result.tokens, 'token')}"
    size = ("parameters", f"{result.cost.parameters:,}")
    return [*rows, ("shape", shape), size, ("trained for", trained)]


def data_list(source: Any, options: Any) -> str:
    """Where the data are from, and the options of the recipe."""
    entries = {"source": source, "options": options}
    return "\n".join(f"- {name}: {escaped(spelt(value))}" for name, value in entries.items() if value)


def spelt(value: Any) -> str:
    """A JSON value in words: the entries of a list with commas between them, those of nested ones with semicolons."""
    if not isinstance(value, dict | list | tuple):
        return str(value)
    entries = {key: one for key, one in value.items() if key != "sha256"} if isinstance(value, dict) else {}
    parts = [f"{key} {spelt(one)}" for key, one in entries.items()] or [spelt(one) for one in value]
    nested = any(isinstance(one, dict | list | tuple) for one in entries.values())
    return ("; " if nested else ", ").join(parts)


def figures_of(result: RunResult) -> list[str]:
    """A table of the figures on valid and test, and one of the scores of what the model wrote, if it did."""
    splits = {"valid": result.valid, "test": result.test}
    splits |= {name: one.figures for name, one in (result.splits or {}).items()}
    found = {name: figures for name, figures in splits.items() if figures}
    names = list(dict.fromkeys([result.metric.name, *(key for figures in found.values() for key in figures)]))
    rows = [
        [escaped(split), *(figure_text(one, name, result.metric) for name in names)] for split, one in found.items()
    ]
    scores = [
        [escaped(split), escaped(score.name), f"{score.value:.2f}", escaped(score.signature)]
        for split, one in (result.splits or {}).items()
        for score in one.scores
    ]
    tables = [markdown_table(["split", *map(escaped, names)], rows)]
    return [*tables, *([markdown_table(["split", "score", "value", "signature"], scores)] if scores else [])]


def figure_text(figures: Figures, name: str, metric: Metric) -> str:
    if name not in figures:
        return ""
    return metric.format.format(figures[name]) if name == metric.name else f"{figures[name]:.4g}"


def kept_as(result: RunResult) -> str:
    """Which weights these are."""
    if result.kept is None or not result.kept.steps:
        return f"those after step {result.steps}"
    if result.kept.by == "average":
        return f"the mean over the steps {', '.join(map(str, result.kept.steps))}"
    return f"those of step {result.kept.steps[0]} of {result.steps}, the best on valid by {escaped(result.kept.figure)}"

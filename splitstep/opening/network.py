"""A pretrained model as the network that a run trains: the one that `start` names, or some of its layers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, final

import torch
import yaml

from ..flows.examples import made_up
from ..flows.foreign import ForeignFlow
from ..flows.layers import check_causal, layers_of, matrix_flops, with_layers
from ..models import SplitstepConfig, SplitstepModel
from ..models.cost import Cost
from ..recipe import Recipe, objective_text
from ..schemes import name_of
from ..tasks import Batch, Task
from ..tasks.instruct import Instruct
from ..training.card import FLAG, data_list, escaped, figures_of, kept_as, table
from ..training.checkpoint import list_checkpoints
from ..training.directory import RunDirectory
from ..training.networks import Network, NetworkSummary, Norms
from ..training.result import RunResult, SchemeName, Shape, Start
from .load import open_model

CARD = """\
---
{front}---

# {title}

{start}, trained further with splitstep on the task {task}.{cut}

{model}

## Data

{data}
{prompt}
## Figures

{figures}

These figures come from one run, with one seed ({seed}), so they have no interval; other seeds give other figures. The
weights are {kept}.

## How to load
{flag}
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("path/to/this/folder"{trust})
tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
```
"""


@final
class PretrainedNetwork(Network):
    """The causal model that `start` names. `model: {layers: 10}` keeps ten of its layers, evenly."""

    def build(self, recipe: Recipe, task: Task, room: float) -> Any:
        assert recipe.start is not None
        opened = open_model(recipe.start)
        check_causal(opened.model, recipe.start)
        model = opened.model.float()
        if "layers" in recipe.model:
            model = with_layers(model, recipe.model["layers"], recipe.start)
        model.config.use_cache = True
        return model.requires_grad_(True)

    def load_start(self, model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
        """The weights are there already; their hash is recorded, so that a run does not continue from others."""
        assert recipe.start is not None
        if list_checkpoints(directory.checkpoints):
            return None
        return Start(recipe.start, sha256_of_weights(model), len(model.state_dict()), [], [])

    def kind(self, model: Any) -> str | None:
        return None if isinstance(model, SplitstepModel) else type(model).__name__

    def about(self, model: Any, task: Task) -> NetworkSummary:
        layers = len(layers_of(model, type(model).__name__))
        around = {
            id(p) for one in (model.get_input_embeddings(), model.get_output_embeddings()) for p in one.parameters()
        }
        width = model.get_output_embeddings().weight.shape[1]
        cost = Cost(
            sum(p.numel() for p in model.parameters()),
            sum(p.numel() for p in model.parameters() if id(p) not in around),
            matrix_flops(model, layers, width, task.length),
            task.length,
        )
        return NetworkSummary(
            scheme_of(model), cost, None, Shape(layers, width, hidden_width(model.config, width), 1.0)
        )

    def norms(self, model: Any, batch: Batch, seed: Any) -> Norms:
        name = type(model).__name__
        output = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], output_hidden_states=True,
            use_cache=False,
        )  # fmt: skip
        states = [float(x.float().norm(dim=-1).mean()) for x in output.hidden_states]
        weights = [
            float(torch.stack([p.detach().float().norm() for p in layer.parameters()]).norm())
            for layer in layers_of(model, name)
        ]
        return Norms(states, weights)

    def card(self, result: RunResult, model: Any, task: Task, folder: Path) -> str:
        tags = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["splitstep", result.task]}
        shape, start = result.shape, result.start.path if result.start else "A model"
        ours = isinstance(model, SplitstepModel)
        rows = [("kind", type(model).__name__), ("layers", f"{shape.layers}"), ("width", f"{shape.width}")]
        rows += [
            ("parameters", f"{result.cost.parameters:,}"),
            ("objective", escaped(objective_text(result.recipe["objective"]))),
        ]
        return CARD.format(
            front=yaml.safe_dump(tags, sort_keys=False),
            title=escaped(f"{result.task}, from {Path(start).name}"),
            start=escaped(start),
            cut=f" It has {shape.layers} of its layers." if result.recipe.get("model", {}).get("layers") else "",
            task=escaped(result.task),
            model=table(["model", ""], rows),
            data=data_list(task.describe().get("source"), result.recipe.get("data")),
            prompt=prompt_of(task),
            figures="\n\n".join(figures_of(result)),
            seed=result.seed,
            kept=kept_as(result),
            flag=f"\n{FLAG}\n" if ours else "",
            trust=", trust_remote_code=True" if ours else "",
        )


def prompt_of(task: Task) -> str:
    """The section on how prompts were written; empty if there were none."""
    if not isinstance(task, Instruct) or not any(row.prompt for row in task.rows["train"]):
        return ""
    lines = "\n".join(f"    {line}".rstrip() for line in task.options.template.splitlines())
    follow = "in a new line" if task.options.template.endswith("\n") else "at once"
    return f"\n## Prompt\n\nPrompts were written like this, and answers follow {follow}:\n\n{lines}\n"


def hidden_width(config: Any, width: int) -> int | list[int]:
    """The width of the feed-forward networks as the config says it; 4 times the model's if it does not."""
    if isinstance(config, SplitstepConfig):
        return config.ffn
    entries = config.get_text_config().to_dict()
    return entries.get("intermediate_size") or entries.get("n_inner") or 4 * width


def scheme_of(model: Any) -> SchemeName:
    """The scheme of a model: our own config's, or what taking a block apart finds."""
    if isinstance(model, SplitstepModel):
        (found, _), *_ = model.config.stacks()
    else:
        name = type(model).__name__
        found = ForeignFlow(model.eval(), made_up(model, name), name).scheme
    return SchemeName(name_of(found), str(found))


def sha256_of_weights(model: Any) -> str:
    """The hash of a model's weights by name, whatever files they came from."""
    total = hashlib.sha256()
    for name, x in sorted(model.state_dict().items()):
        total.update(f"{name} {x.dtype} {list(x.shape)}".encode())
        total.update(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


PRETRAINED = PretrainedNetwork()

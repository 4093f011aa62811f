"""Hints: what somebody may have meant by a word that no recipe has, as they would type it. No torch here."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .options import TrainOptions
from .recipes import recipe_names
from .schemes import SCHEMES
from .shape import Shape
from .support.words import nearest

CALLED = {
    "train.steps": "max_steps num_steps n_steps total_steps iterations iters updates num_train_steps",
    "train.batch": "batch_size batchsize bs per_device_train_batch_size",
    "train.lr": "learning_rate rate max_lr",
    "train.warmup": "warmup_steps num_warmup_steps",
    "train.clip": "grad_clip max_grad_norm gradient_clipping clip_grad",
    "train.weight_decay": "wd decay",
    "train.seed": "random_seed random_state",
    "train.precision": "dtype amp",
    "train.schedule": "scheduler lr_scheduler lr_scheduler_type",
    "train.accumulate": "gradient_accumulation_steps grad_accum accumulation",
    "train.evaluate_every": "eval_every eval_steps eval_interval",
    "model.layers": "depth n_layers num_layers n_layer num_hidden_layers blocks n_blocks",
    "model.width": "dim d_model hidden hidden_size hidden_dim n_embd embed_dim embedding_size model_dim",
    "model.heads": "n_heads num_heads n_head num_attention_heads nhead",
    "model.ffn": "d_ff ffn_dim ffn_size mlp mlp_dim dim_feedforward intermediate_size",
    "model.norm": "normalization normalisation layernorm norm_type",
    "model.positions": "pos positional_encoding position_embedding",
    "data.length": "context seq_len block_size max_length sequence_length context_length max_len max_seq_len",
    "data.train": "path file files text texts corpus train_file input",
    "scheme": "model arch architecture splitting integrator solver",
    "start": "init_from pretrained checkpoint from_pretrained weights",
}  # entries of a recipe, and what other programs call them
DEVICE = "a GPU is used if there is one; to use the CPU, type CUDA_VISIBLE_DEVICES= before the command"
SAID = {
    **dict.fromkeys(("epochs", "num_epochs", "n_epochs", "epoch", "num_train_epochs"),
                    "a run counts steps, not epochs: type train.steps=1000"),
    **dict.fromkeys(("gpu", "gpus", "cuda", "device", "cpu"), DEVICE),
    **dict.fromkeys(("fp16", "bf16"), "did you mean train.precision=bfloat16?"),
    **dict.fromkeys(("optimizer", "optimiser", "optim"), "the optimiser is AdamW: its rate is train.lr=1e-3"),
    **dict.fromkeys(("resume", "continue", "restart", "resume_from"),
                    "the same command continues a run that was stopped: type it again with the same --out"),
    **dict.fromkeys(("config", "yaml", "recipe"), "a recipe has no key: type its name or its file as the first word"),
}  # fmt: skip  # of what is no entry at all
FILES = (".gguf", ".safetensors", ".bin", ".pt", ".txt", ".json", ".jsonl", ".csv")  # no names of folders
OWN = {".csv": "classify", ".tsv": "classify", ".jsonl": "mlm", ".png": "images", ".jpg": "images"}  # else own-text


@cache
def places() -> Mapping[str, str]:
    """Every entry of training and of all models, and what others call entries, with its place in a recipe."""
    sections = {"train": [one.name for one in dataclasses.fields(TrainOptions)], "model": Shape.entries()}
    ours = {name: f"{section}.{name}" for section, names in sections.items() for name in names}
    called = {other: place for place, others in CALLED.items() for other in [place.split(".")[-1], *others.split()]}
    return called | ours | {"scheme": "scheme"}


def place_of(word: str) -> str | None:
    """The entry of a recipe that a word means exactly, such as train.steps of `steps`, `--steps` and `model.steps`."""
    name = plain_name(word)
    return places().get("steps" if name == "step" else name)  # who types train.step=100 does not mean model.step


def plain_name(word: str) -> str:
    """The name in an entry or an option, as entries are written."""
    return word.lower().lstrip("-").rpartition(".")[2].replace("-", "_")


def entry_meant(word: str, value: object = None) -> str | None:
    """What to say of an entry that there is not: where it belongs, with its value."""
    if (said := SAID.get(plain_name(word))) or (place := place_of(word)) is None:
        return said
    text = str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")
    return f"did you mean {place}={'VALUE' if value is None or isinstance(value, Mapping) else text}?"


def refuse_elsewhere(given: Mapping[Any, Any], names: Collection[str], owner: str, sort: str = "entry") -> None:
    """Refuse an entry that is not among the names if it belongs elsewhere, or has another name here."""
    for key, value in given.items():
        if key not in names and (said := entry_meant(str(key), value)):
            raise ValueError(f'{owner} has no {sort} "{key}": {said}')


def word_meant(word: str) -> str:
    """The end of an error about a word between entries of a recipe."""
    if word in SCHEMES or word.lower() in SCHEMES:
        return f": did you mean scheme={word.lower()}?"
    if Path(word).exists():
        return f": did you mean data.train={word}?"
    if word == "=" or place_of(word):
        return ": type an entry without blanks, as in train.steps=100"
    return ""


def recipe_meant(word: str, verb: str = "train") -> str | None:
    """The command for somebody's own file or for a scheme in the place of a recipe."""
    path = Path(word)
    if (path / "recipe.yaml").is_file():
        return f"{word} is the folder of a run: type splitstep {verb} {path / 'recipe.yaml'}"
    if path.is_dir() or (path.is_file() and path.suffix not in (".yaml", ".yml", "") and not is_recipe(path)):
        kind = "a folder" if path.is_dir() else "a file of data"
        recipe = OWN.get(path.suffix.lower(), "own-text")
        return f"{word} is {kind}, not a recipe: type splitstep {verb} {recipe} data.train={word}"
    if not path.exists() and word not in recipe_names() and (known := exact_schemes(word)):
        change = f"--schemes {known}" if verb == "compare" else f"scheme={known.split(',')[0]}"
        return f"{word} names a scheme, not a recipe: type splitstep {verb} digits {change}"
    return None


def exact_schemes(word: str) -> str | None:
    """Names of schemes between commas, whatever their capitals."""
    parts = [one.strip().lower() for one in word.split(",")]
    return ",".join(parts) if all(one in SCHEMES for one in parts) else None


def is_recipe(path: Path) -> bool:
    """Whether a file looks like a recipe, whatever its name ends in."""
    with path.open("rb") as file:
        return re.search(rb"\btask\W{1,3}", file.read(10_000)) is not None


def network_meant(name: str) -> str | None:
    """What to say of a network that is not there: a recipe, or the path of something near."""
    path = Path(name).expanduser()
    if path.exists():
        return None
    if name in recipe_names():
        return (
            f"{name} is a recipe, not a trained network: type splitstep train {name} --out runs/{name}, then name "
            f"runs/{name}"
        )
    if path.is_absolute() or name.startswith(".") or path.parts[:1] == ("runs",):
        near = nearest(path.name, [one.name for one in path.parent.iterdir()]) if path.parent.is_dir() else None
        such = path.parent / near if near else "runs/digits, which splitstep train digits writes"
        kind = "file" if path.suffix.lower() in FILES else "folder"
        return f"there is no {kind} {name}: name one that is there, such as {such}"
    return None

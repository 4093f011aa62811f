"""Checkpoints: what of a run is kept, as safetensors and JSON in a folder that appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..support.files import remove, whole_folder
from .objective import Learner
from .sharding import gathered, scattered

PREFIX = "step-"
Groups = Mapping[str, Mapping[str, Tensor]]


def learned(learner: Learner, optimizer: torch.optim.Optimizer) -> Groups:
    """The tensors that training changes, themselves, by the file that keeps them: a moment is called after its weight.
    The objective's own are in a file of theirs, so that the model's are the same under any objective."""

    def moments(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {f"{name}:{key}": x for name, p in weights.items() for key, x in optimizer.state.get(p, {}).items()}

    weights, own = dict(learner.model.named_parameters()), learner.own()
    groups = {"model": weights, "optimizer": moments(weights)}
    return {**groups, "objective": own | moments(own)} if own else groups


def whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: gathered(x.detach()) for name, x in tensors.items()}


@torch.no_grad()
def fill(targets: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Copy stored tensors, which are whole, into those of a run; copying alone would stretch one of another shape."""
    for name, x in targets.items():
        if stored[name].shape != x.shape:
            raise ValueError(f"{name} has shape {list(stored[name].shape)} in place of {list(x.shape)}")
        x.copy_(scattered(stored[name].to(x.device), x))


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any], tensors: Groups) -> None:
    """Write `step-N` under `folder`, one safetensors file per group and `state.json`; then drop older ones."""
    final = folder / f"{PREFIX}{step:09d}"
    if not final.exists():  # a step's checkpoint is the same however often it is written
        with whole_folder(final) as part:
            for name, group in tensors.items():
                host = {key: value.detach().cpu().contiguous() for key, value in group.items()}
                save_file(host, part / f"{name}.safetensors")
            (part / "state.json").write_text(json.dumps(state, indent=1, allow_nan=False))
    prune(folder)


def prune(folder: Path) -> None:
    """Drop all checkpoints but the newest."""
    for old in list_checkpoints(folder)[:-1]:
        remove(old)


def list_checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*")) if folder.is_dir() else []


@contextmanager
def newest(folder: Path) -> Iterator[tuple[dict[str, Any], Groups] | None]:
    """The newest checkpoint's state and tensors, or None if there is none; what fails with them is put down to it."""
    found = list_checkpoints(folder)
    try:
        yield load_checkpoint(found[-1]) if found else None
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"the checkpoint {found[-1]} is damaged ({type(error).__name__}: {reason}): delete that folder to start "
            "from the beginning, or name a new directory with --out"
        ) from None


def load_checkpoint(checkpoint: Path) -> tuple[dict[str, Any], Groups]:
    """A checkpoint's state and tensors."""
    state = json.loads((checkpoint / "state.json").read_text())
    return state, {file.stem: load_file(file) for file in sorted(checkpoint.glob("*.safetensors"))}


def rng_state() -> dict[str, Tensor]:
    """The generators' states; only a fused attention dropout on a GPU ever draws from them."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_rng_state(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])

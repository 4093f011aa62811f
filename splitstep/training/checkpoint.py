"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..support.files import remove, whole_folder

PREFIX = "step-"
Groups = dict[str, dict[str, Tensor]]


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]
) -> Path:
    """Write `step-N` under `folder`, one safetensors file per group and `state.json`; then drop older ones."""
    final = folder / f"{PREFIX}{step:09d}"
    if not final.exists():  # a step's checkpoint is the same however often it is written
        with whole_folder(final) as part:
            for name, group in tensors.items():
                host = {key: value.detach().cpu().contiguous() for key, value in group.items()}
                save_file(host, part / f"{name}.safetensors")
            (part / "state.json").write_text(json.dumps(state, indent=1, allow_nan=False))
    prune(folder)
    return final


def prune(folder: Path) -> None:
    """Drop all checkpoints but the newest."""
    for old in list_checkpoints(folder)[:-1]:
        remove(old)


def list_checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*")) if folder.is_dir() else []


def load_checkpoint(folder: Path) -> tuple[dict[str, Any], Groups] | None:
    """The newest checkpoint's state and tensors, or None where there is none yet."""
    found = list_checkpoints(folder)
    if not found:
        return None
    try:
        state = json.loads((found[-1] / "state.json").read_text())
        tensors = {file.stem: load_file(file) for file in sorted(found[-1].glob("*.safetensors"))}
    except (OSError, ValueError, SafetensorError) as error:
        raise damaged(found[-1], str(error)) from None
    return state, tensors


def damaged(checkpoint: Path, reason: str) -> ValueError:
    return ValueError(
        f"the checkpoint {checkpoint} is damaged ({reason.splitlines()[0]}): delete that folder to start from the "
        "beginning, or name a new directory with --out"
    )


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

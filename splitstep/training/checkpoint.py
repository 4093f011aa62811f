"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

PREFIX = "step-"
HIDDEN = (".part-", ".old-")  # folders being written and being removed


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]
) -> Path:
    """Write `step-N` under `folder`: one safetensors file per group and `state.json`, in a hidden folder first."""
    folder.mkdir(parents=True, exist_ok=True)
    part, final = folder / f".part-{step}", folder / f"{PREFIX}{step:09d}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        for name, group in tensors.items():
            save_file(
                {key: value.detach().contiguous().cpu() for key, value in group.items()}, part / f"{name}.safetensors"
            )
        (part / "state.json").write_text(json.dumps(state, indent=1))
        for file in part.iterdir():
            fsync(file)
        fsync(part)
        if final.exists():
            remove(final)
        os.rename(part, final)
        fsync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise OSError(getattr(error, "errno", None) or 28, reason(error), str(final)) from None
    for old in list_checkpoints(folder)[:-1]:
        remove(old)
    return final


def reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).splitlines()[0]


def remove(path: Path) -> None:
    """Delete a folder so that a kill half-way leaves no folder that looks whole."""
    hidden = path.with_name(f".old-{path.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def list_checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*")) if folder.is_dir() else []


def load_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]] | None:
    """The newest checkpoint's state and tensors, or None where there is none yet; sweeps up after a kill."""
    if folder.is_dir():
        for left in folder.iterdir():
            if left.name.startswith(HIDDEN):
                shutil.rmtree(left, ignore_errors=True)
    found = list_checkpoints(folder)
    if not found:
        return None
    newest = found[-1]
    try:
        state = json.loads((newest / "state.json").read_text())
        tensors = {file.stem: load_file(file) for file in sorted(newest.glob("*.safetensors"))}
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(
            f"the checkpoint {newest} is damaged ({reason(error)}): delete that folder and start again"
        ) from None
    return state, tensors


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

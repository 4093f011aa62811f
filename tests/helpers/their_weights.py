"""Weights of somebody else's model in one of ours, module by module."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

Table = Mapping[str, Any]  # what a module of ours is made of: their modules, or their names with blanks between them


@torch.no_grad()
def copied(mine: Any, theirs: list[Any]) -> None:
    """The weights and biases of these modules, side by side; biases that they do not have are 0."""
    weights = [one.weight.T if isinstance(one, Conv1D) else one.weight for one in theirs]
    mine.weight.copy_(torch.cat(weights).view_as(mine.weight))
    if getattr(mine, "bias", None) is not None:
        biases = [torch.zeros(len(w)) if one.bias is None else one.bias for one, w in zip(theirs, weights, strict=True)]
        mine.bias.copy_(torch.cat(biases))


def copy_all(ours: nn.Module, theirs: nn.Module, table: Table) -> None:
    """All weights of our model; every module with parameters must be in the table."""
    assert table.keys() == {name.rpartition(".")[0] for name, _ in ours.named_parameters()}
    for name, given in table.items():
        found = map(theirs.get_submodule, given.split()) if isinstance(given, str) else [given]
        copied(ours.get_submodule(name), list(found))


def layers(ours: str, theirs: str, inside: Mapping[str, str], count: int = 2) -> dict[str, str]:
    """The table of all layers of a stack."""
    return {
        f"{ours}.{i}.{name}": " ".join(f"{theirs}.{i}.{one}" for one in given.split())
        for i in range(count)
        for name, given in inside.items()
    }

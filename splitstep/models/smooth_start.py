"""Initial weights that are a smooth function of depth, the same for every number of layers.

At t = phase * T each matrix of a layer is

    W(t) = sum over k < K of (cos(pi k phase) G_k + sin(pi k phase) H_k) / sqrt(K)

with G_k and H_k drawn as the config says. So W(t) has the variance of the usual initialisation at every t, and is a
pure function of the seed, the matrix's name and t. A layer has the weights of its middle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import cos, pi, sin

import torch
from torch import nn

from ..stack import Stack

Draw = Callable[[nn.Module], None]  # draws the weights of a module, as the config says


@torch.no_grad()
def start_smoothly(model: nn.Module, modes: int, draw: Draw) -> None:
    """Draw all weights again: those of layers as functions of depth, the others by name, so that networks of all
    depths share them."""
    seed = torch.initial_seed()
    stacks = {f"{name}.layers.": one for name, one in model.named_modules() if isinstance(one, Stack)}
    seen: set[int] = set()  # a tied weight is drawn once
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if any(name.startswith(path) for path in stacks) or not isinstance(weight, nn.Parameter) or id(weight) in seen:
            continue
        seen.add(id(weight))
        with drawn_from(seed, name):
            draw(module)
    for path, stack in stacks.items():
        for i, layer in enumerate(stack.layers):
            for name, module in layer.named_modules():
                if isinstance(module, nn.Linear):
                    check_shape(stack, name, module)
                    sample(module, (i + 0.5) / len(stack.layers), modes, draw, f"{seed} {path}{name}")


def check_shape(stack: Stack, name: str, module: nn.Linear) -> None:
    first = stack.layers[0].get_submodule(name)
    if first.weight.shape != module.weight.shape:
        raise ValueError("init_modes draws all layers from one function of depth: give all layers the same ffn.")


def sample(module: nn.Linear, phase: float, modes: int, draw: Draw, name: str) -> None:
    """Set a matrix to the value of its random function at t = phase * T."""
    total = torch.zeros_like(module.weight)
    for k in range(modes):
        for wave, factor in (("cos", cos(pi * k * phase)), ("sin", sin(pi * k * phase))):
            with drawn_from(name, k, wave):
                draw(module)
            total += factor * modes**-0.5 * module.weight
    module.weight.copy_(total)


@contextmanager
def drawn_from(*words: object) -> Iterator[None]:
    """Random numbers from a seed that these words give."""
    number = int.from_bytes(hashlib.sha256(" ".join(map(str, words)).encode()).digest()[:7], "big")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        yield

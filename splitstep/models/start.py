"""How weights start: drawn as the config says, each for itself or as a smooth function of depth.

The latter is the same for every number of layers. At t = phase * T each matrix of a layer is

    W(t) = sum over k < K of (cos(pi k phase) G_k + sin(pi k phase) H_k) / sqrt(K)

with G_k and H_k drawn as usual. So W(t) has the variance of the usual initialisation at every t, and is a pure function
of the seed, the matrix's name and t. A layer has the weights of its middle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import cos, pi, sin

import torch
from torch import nn
from transformers import initialization

from ..fields import Diffusion
from ..fields.attention import QueriesKeysValues
from ..shape import Shape
from ..stack import Stack

Draw = Callable[[nn.Module], None]  # draws the weights of a module, as the config says


def draw(module: nn.Module, config: Shape) -> None:
    """Set a module's weights to what the config starts them with."""
    if isinstance(module, nn.Linear):
        draw_matrix(module, config)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=config.width**-0.5 if config.init == "xavier" else config.init_std)
        if module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        if module.weight is not None:
            nn.init.ones_(module.weight)
        if isinstance(module, nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, Diffusion):
        nn.init.constant_(module.a, module.start)


def draw_matrix(layer: nn.Linear, config: Shape) -> None:
    """Draw a matrix as the config says; biases start at 0, or at `rotary_bias` for rotary queries and keys."""
    if config.init == "xavier":
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=config.init_std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
        if isinstance(layer, QueriesKeysValues) and config.rotary_bias:
            starts = torch.tensor((config.rotary_bias, config.rotary_bias, 0.0))
            initialization.copy_(layer.bias, starts.repeat_interleave(torch.tensor(layer.sizes)))


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

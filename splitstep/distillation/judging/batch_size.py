"""How many texts a model reads or answers at once: few on a CPU, on a GPU as many as a part of its memory holds.

The number depends on the model, the texts and the kind of GPU, and not on what else runs there: figures would be
rounded otherwise each time. What is counted here is an upper bound, which a test compares with what PyTorch allocates.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .tokens import device_of, reading

SHARE = 12  # a twelfth of the GPU's memory is taken, so eight workers with their models fit on it
READ_MOST, READ_ON_CPU = 256, 8
WRITE_MOST, WRITE_ON_CPU = 1024, 64
LOGITS = 3 * 4  # bytes for each token and entry of a model's vocabulary: the logits, those chosen, and their logarithms
NOISE = 8 * 8  # bytes for each entry of the vocabulary: the noise of the next token, and what it is computed from
VECTORS = 6  # of a layer's largest width, for each token that is read: five at once in GPT-2's activation, others three
GROWN = 3  # such vectors, for each token before the next one: a layer's keys and values as they grow, and for all heads
MASK = 10  # bytes for each pair of tokens: a mask of truth values, one of numbers, and what they are computed from


def rows_to_read(models: Sequence[Any], tokens: int) -> int:
    """How many texts of so many tokens one or two models read at once."""
    return rows_within(room_on(models[0]), bytes_of_text(models, tokens), READ_MOST) or READ_ON_CPU


def rows_to_write(model: Any) -> Callable[[int, int], int]:
    """How many answers are written at once, as a function of the tokens of the longest prompt and of the new ones."""
    room, needed = room_on(model), bytes_of_answer(model)
    return lambda prompt, new: rows_within(room, needed(prompt, new), WRITE_MOST) or WRITE_ON_CPU


def room_on(model: Any) -> int:
    """The bytes that judging may take on the model's GPU; 0 if it is on none."""
    device = device_of(model)
    return torch.cuda.get_device_properties(device).total_memory // SHARE if device.type == "cuda" else 0


def rows_within(room: int, each: int, most: int) -> int:
    """The largest power of two whose rows fit into the room, at least 1 and at most `most`; 0 without room."""
    return room and min(most, 1 << max(1, room // each).bit_length() - 1)


def bytes_of_text(models: Sequence[Any], tokens: int) -> int:
    """What a text takes while one or two models read it: the logits of both, and what a layer of one computes."""
    logits = sum(vocabulary(model) * LOGITS for model in models)
    return tokens * (logits + VECTORS * max(map(widest, models)) + tokens * MASK)


def bytes_of_answer(model: Any) -> Callable[[int, int], int]:
    """What an answer takes while it is written, as a function of the tokens of its prompt and of the new ones: the keys
    and values of all layers, and the larger of what a layer computes for the prompt and what the next token needs."""
    kept, vector, noise = bytes_kept(model), widest(model), vocabulary(model) * NOISE

    def needed(prompt: int, new: int) -> int:
        first, last = prompt * (VECTORS * vector + prompt * MASK), (prompt + new) * GROWN * vector + noise
        return (prompt + new) * kept + max(first, last)

    return needed


def bytes_kept(model: Any) -> int:
    """The keys and values of one token in all layers, as the model keeps them."""
    with reading(model):
        out = model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device_of(model)), use_cache=True)
    cache = out.get("past_key_values")  # models without attention have none
    kept = [x for layer in cache.layers for x in vars(layer).values()] if cache is not None else []
    return sum(x.numel() * x.element_size() for x in kept if isinstance(x, Tensor))


def widest(model: Any) -> int:
    """The bytes of a layer's largest vector for one token. Attention is taken to be fused, so it has no larger ones."""
    head = model.get_output_embeddings()
    inner = [module for module in model.modules() if module is not head and not isinstance(module, nn.Embedding)]
    weights = [weight for module in inner for weight in module.parameters(recurse=False) if weight.ndim > 1]
    return max(max(weight.shape[-2:]) * weight.element_size() for weight in weights)


def vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])


def release_memory() -> None:
    """Give back what PyTorch keeps of a GPU for later: other workers may be there."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()

"""How many texts a model reads or answers at once: few on a CPU, on a GPU as many as a part of its memory holds.

The number depends on the model, the texts and the kind of GPU, and not on what else runs there: figures would be
rounded otherwise each time.
"""

from __future__ import annotations

from typing import Any

import torch

SHARE = 4  # a fourth of the GPU's memory is taken, so three workers fit on it
READ_MOST, READ_ON_CPU = 256, 8
WRITE_MOST, WRITE_ON_CPU = 1024, 64
LOGITS = 10 * 4  # bytes for each token and entry of the vocabulary: the logits of two models, and copies of them
NOISE = 8 * 8  # bytes for each entry of the vocabulary: the noise of the next token, and what it is computed from


def rows_to_read(models: tuple[Any, ...], tokens: int) -> int:
    """How many texts of so many tokens one or two models read at once."""
    return rows_within(room_on(models[0]), tokens * max(map(vocabulary, models)) * LOGITS, READ_MOST) or READ_ON_CPU


def rows_to_write(model: Any, tokens: int) -> int:
    """How many answers are written at once, of so many tokens with their prompts."""
    return rows_within(room_on(model), bytes_of_answer(model, tokens), WRITE_MOST) or WRITE_ON_CPU


def room_on(model: Any) -> int:
    """The bytes that judging may take on the model's GPU; 0 if it is on none."""
    device = next(model.parameters()).device
    return torch.cuda.get_device_properties(device).total_memory // SHARE if device.type == "cuda" else 0


def rows_within(room: int, each: int, most: int) -> int:
    """The largest power of two whose rows fit into the room, at least 1 and at most `most`; 0 without room."""
    return room and min(most, 1 << max(1, room // each).bit_length() - 1)


def bytes_of_answer(model: Any, tokens: int) -> int:
    """The keys and values of all layers in the precision of the weights, and of two more while one grows; the noise."""
    entries = model.config.get_text_config().to_dict()
    layers = entries.get("num_hidden_layers") or entries.get("n_layer") or entries.get("layers")
    head = model.get_output_embeddings().weight
    heads = entries.get("num_attention_heads") or entries.get("n_head") or entries.get("heads") or 1
    size = entries.get("head_dim") or head.shape[1] // heads
    each = 2 * size * (entries.get("num_key_value_heads") or heads) * head.element_size()
    return tokens * ((layers or 1) + 2) * each + vocabulary(model) * NOISE


def vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])

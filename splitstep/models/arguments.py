"""Arguments of `forward`: which of transformers' own names are let through, and the record or tuple that comes back."""

from __future__ import annotations

from inspect import signature
from typing import Any, TypeVar

from torch import Tensor
from transformers.utils.generic import ModelOutput

from ..support.words import nearest

Output = TypeVar("Output", bound=ModelOutput)

# Names that transformers' own tools pass to every model, and that change nothing here. `cache_position` says what the
# cache knows; `is_first_iteration` and `next_sequence_length` are notes of `generate` to itself; tokenizers write
# `token_type_ids` and `special_tokens_mask` for models without types; the rest switches on kernels that we do not have.
LET_THROUGH = frozenset({
    "cache_position", "is_first_iteration", "next_sequence_length", "special_tokens_mask", "token_type_ids",
    "output_router_logits", "use_cache",
})  # fmt: skip
# Names that mean something in transformers which these models do not do: only None may pass.
PACKED = frozenset({"cu_seq_lens_k", "cu_seq_lens_q", "max_length_k", "max_length_q", "seq_idx"})
ONLY_NONE = PACKED | {
    "cross_attn_head_mask", "decoder_head_mask", "decoder_position_ids", "head_mask", "is_causal", "position_ids",
}  # fmt: skip


def check_arguments(model: Any, others: dict[str, Any], packed: bool = False) -> None:
    """Refuse arguments that `forward` does not know, with the nearest name. If the positions of a packed row say where
    its texts begin, other arguments may say so again."""
    for name, value in others.items():
        if name in LET_THROUGH or (name in ONLY_NONE and value is None) or (packed and name in PACKED):
            continue
        title = type(model).__name__
        if name in ONLY_NONE:
            raise ValueError(f"{title} does nothing with {name}={shape_of(value)}: leave it out.")
        known = [one for one in signature(type(model).forward).parameters if one not in ("self", "others")]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"it takes {', '.join(known)}."
        raise TypeError(f"{title} takes no argument {name!r}: {hint}")


def shape_of(value: Any) -> str:
    return f"tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)


def given_one(ids: Tensor | None, embeds: Tensor | None, prefix: str = "") -> Tensor:
    """The one of the two that is given; it says how many tokens there are, and on which device."""
    if (ids is None) == (embeds is None):
        both = "both" if ids is not None else "neither"
        raise ValueError(f"Pass either {prefix}input_ids or {prefix}inputs_embeds; got {both}.")
    return ids if ids is not None else embeds  # pyright: ignore[reportReturnType]


def answer(config: Any, return_dict: bool | None, output: Output) -> Output:
    """The record, or the tuple of what it holds if the caller or the config wants one."""
    wanted = config.return_dict if return_dict is None else return_dict
    return output if wanted else output.to_tuple()  # pyright: ignore[reportReturnType]


def kept(x: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The states whose logits are wanted: the last few, those at an index, or all if it is 0."""
    if isinstance(logits_to_keep, Tensor):
        return x[:, logits_to_keep]
    return x[:, -logits_to_keep:] if logits_to_keep else x

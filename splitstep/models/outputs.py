"""What a pass returns: what callers ask of it besides its answer (hidden states, attention weights, a record or a
tuple), and the losses of heads: of tokens, of classes as transformers defines them, of numbers."""

from inspect import signature
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.utils.generic import ModelOutput

from ..fields.context import Record
from ..integrate import Event, Observe
from ..kernels.loss import IGNORED, cross_entropy, project, shifted
from ..support.words import nearest
from .inputs import check_labels

Items = Tensor | int | None  # what a sum is divided by; None: a mean
Output = TypeVar("Output", bound=ModelOutput)


class PassOptions(TypedDict, total=False):
    """What `forward` of every model takes besides its inputs."""

    observe: Observe | None
    dropout_seed: Tensor | None
    output_hidden_states: bool | None
    output_attentions: bool | None
    return_dict: bool | None


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


def check_arguments(model: Any, given: PassOptions, packed: bool = False) -> None:
    """Refuse arguments that `forward` does not know, with the nearest name. If the positions of a packed row say where
    its texts begin, other arguments may say so again."""
    for name, value in given.items():
        ours = name in PassOptions.__annotations__ or name in LET_THROUGH
        if ours or (name in ONLY_NONE and value is None) or (packed and name in PACKED):
            continue
        title = type(model).__name__
        if name in ONLY_NONE:
            told = f"tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise ValueError(f"{title} does nothing with {name}={told}: leave it out.")
        own = (one for one in signature(type(model).forward).parameters if one not in ("self", "options"))
        known = [*own, *PassOptions.__annotations__]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"it takes {', '.join(known)}."
        raise TypeError(f"{title} takes no argument {name!r}: {hint}")


class Look:
    """Keeps hidden states and attention weights of one stack, if wanted.

    Hidden states are those at the start of every layer, and the last one; of a doubled state, the mean of the halves,
    as at the end of a stack. Attention weights are those of every evaluation, in order: several in a layer if the
    scheme evaluates attention several times. It holds no method of its own, which would keep it, and all states with
    their graph, in memory until the garbage collector runs.
    """

    def __init__(self, config: Any, options: PassOptions) -> None:
        hidden, looks = options.get("output_hidden_states"), options.get("output_attentions")
        hidden = config.output_hidden_states if hidden is None else hidden
        looks = config.output_attentions if looks is None else looks
        self.kept: list[Tensor] | None = [] if hidden else None
        self.weights: dict[str, list[Tensor]] | None = {"own": [], "cross": []} if looks else None
        self.inner, self.seed, self.substeps = options.get("observe"), options.get("dropout_seed"), config.substeps
        given = options.get("return_dict")
        self.whole: bool = config.return_dict if given is None else given

    @property
    def observe(self) -> Observe | None:
        return self.inner if self.kept is None and self.weights is None else self.see

    @property
    def record(self) -> Record | None:
        return None if self.weights is None else self.look

    def see(self, event: Event) -> None:
        if self.kept is not None and event.site[1:] == (0, 0, 0) and event.site.step % self.substeps == 0:
            self.kept.append(event.before)
        if self.inner is not None:
            self.inner(event)

    def look(self, whose: str, weights: Tensor) -> None:
        assert self.weights is not None
        self.weights[whose].append(weights)

    def attentions(self, whose: str = "own") -> tuple[Tensor, ...] | None:
        """The weights [B, heads, T, S] of every evaluation, of tokens on their "own" sequence or "cross" on another."""
        return None if self.weights is None else tuple(self.weights[whose])

    def seen(self, last: Tensor) -> tuple[Any, Any]:
        """Hidden states and attention weights, as records of transformers hold them."""
        return None if self.kept is None else (*self.kept, last), self.attentions()

    def answer(self, output: Output) -> Output:
        """The record, or the tuple of what it holds if the caller or the config wants one."""
        return output if self.whole else output.to_tuple()  # pyright: ignore[reportReturnType]


def read_tokens(
    head: nn.Module, x: Tensor, labels: Tensor | None, items: Items, smoothing: float = 0.0, ahead: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Logits of the states, and the cross-entropy of their labels; `ahead`: position i predicts token i + 1."""
    logits, wide = project(head, x)
    if labels is None:
        return logits, None
    check_labels(labels, logits)
    return logits, cross_entropy(logits, shifted(labels) if ahead else labels, items, smoothing, wide)


def problem_of(config: Any, labels: Tensor) -> str:
    """What the head does: what the config says, else what transformers would conclude from the labels."""
    if config.problem_type is not None:
        return config.problem_type
    if config.num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def class_loss(config: Any, logits: Tensor, labels: Tensor, items: Items, wide: Tensor | None = None) -> Tensor:
    """Cross-entropy of one label, binary cross-entropy of several (floats, 0 or 1), squared error of numbers: the mean,
    or the sum divided by `items`. The config keeps what the problem was: pipelines read it."""
    problem = problem_of(config, labels)
    if problem == "single_label_classification":
        check_labels(labels.flatten(), logits)
        return cross_entropy(logits, labels.flatten(), items, wide=wide)
    if config.problem_type is None:
        config.problem_type = problem
    if logits.numel() != labels.numel():
        raise ValueError(
            f"labels have shape {list(labels.shape)}: a head of num_labels={config.num_labels} for {problem} needs "
            f"{list(logits.shape)}."
        )
    measure = functional.mse_loss if problem == "regression" else functional.binary_cross_entropy_with_logits
    exact = torch.promote_types(logits.dtype, torch.float32)
    found, wanted = logits.to(exact), labels.to(exact).view(logits.shape)
    return measure(found, wanted) if items is None else measure(found, wanted, reduction="sum") / items


def mean_square(y: Tensor, labels: Tensor, mask: Tensor | None, items: Items) -> Tensor:
    """The mean square of the difference over tokens that are not padding, or the sum divided by `items`."""
    if labels.shape != y.shape:
        raise ValueError(
            f"labels have shape {list(labels.shape)}, and there are logits for {list(y.shape)}: give as many."
        )
    square = (y - labels).square()
    if mask is not None and mask.ndim == 2:
        square = square[mask.bool()]
    return square.mean() if items is None else square.sum() / items


def pair_loss(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of the second head's cross-entropy over labels that count, 0 if none does; or its sum with weights."""
    rows = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    losses = functional.cross_entropy(rows, labels.flatten(), ignore_index=IGNORED, reduction="none")
    if weights is None:
        return losses.sum() / (labels != IGNORED).sum().clamp(min=1)
    return (losses * weights.flatten()).sum()

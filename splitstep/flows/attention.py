"""Find attention in a block's record: whom each token looks at, as a function of the state."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from .layout import Frame
from .replay import needed_again, replay
from .sums import Graph

Function = Callable[[Tensor], Tensor]
FUSED = "scaled_dot_product_attention"
SOFTMAX = ("softmax",)
PRODUCTS = ("matmul", "__matmul__", "bmm", "einsum")
QUIET = (
    "dropout", "to", "type", "type_as", "float", "contiguous", "clone", "detach", "view", "reshape", "expand",
    "__getitem__", "nan_to_num", "where", "masked_fill",
)  # fmt: skip
"""What may stand between a softmax and the product with the values: weights stay, or some of them are left out."""
ROUNDING = 1e-2  # by which weights of half precision may sum to more than 1


def weights_of(graph: Graph, start: int, ends: Sequence[int], frame: Frame) -> Function | None:
    """The attention weights [B, heads, T, S] inside of a field that leads from one node to others, as a function of the
    state. None if it has none, or several."""
    shape = frame.seen(graph.value(start)).shape
    found = {node: one for end in ends for node, one in attentions(graph, start, end, shape)}
    if len(found) != 1:
        return None
    [f] = found.values()
    return lambda x: (w := f(frame.own(x))).reshape(shape[0], -1, *w.shape[-2:])


def attentions(graph: Graph, start: int, end: int, shape: torch.Size) -> Iterator[tuple[int, Function]]:
    order = needed_again(graph, start, end)
    for i in order:
        name = graph.nodes[i].name
        if name == FUSED:
            query = next(one for one, _ in graph.nodes[i].arguments if isinstance(one, Tensor))
            if query.shape[-2] == shape[1]:  # in windows there are fewer queries than tokens
                fused = replay(graph, start, i)
                *before, last = fused.instructions
                yield i, replace(fused, instructions=(*before, last._replace(function=fused_weights)))
        elif name in SOFTMAX:
            node = before_values(graph, order, i)
            if node is not None and is_weights(graph.value(node), shape):
                yield node, replay(graph, start, node)


def before_values(graph: Graph, order: Sequence[int], node: int) -> int | None:
    """The result that a softmax has become when it is multiplied by the values; None if it is not."""
    users = [i for i in order if node in graph.nodes[i].needs]
    for i in users:
        tensors = [ref for one, ref in graph.nodes[i].arguments if isinstance(one, Tensor)]
        if graph.nodes[i].name in PRODUCTS:
            return node if tensors[0] is not None and tensors[0].node == node else None
    if len(users) != 1 or graph.nodes[users[0]].name not in QUIET:
        return None
    return before_values(graph, order, users[0])


def is_weights(w: Tensor, shape: torch.Size) -> bool:
    """Whether these are shares of keys for each query: [.., T, S], at least 0, with sums of at most 1."""
    fits = w.dim() >= 3 and w.shape[-2] == shape[1] and w.numel() % (shape[0] * shape[1] * w.shape[-1]) == 0
    return fits and bool((w >= 0).all()) and bool((w.float().sum(-1) <= 1 + ROUNDING).all())


def fused_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T scale + mask), which `scaled_dot_product_attention` keeps to itself. The arguments are its own. A
    query that may look nowhere looks nowhere: its weights are 0."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.dtype is torch.bool
        scores = scores.masked_fill(~attn_mask, -inf) if hidden else scores + attn_mask
    found = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return found.masked_fill((scores == -inf).all(-1, keepdim=True), 0.0).to(query.dtype)

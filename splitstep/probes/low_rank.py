"""The directions that a layer stretches most: singular values of a linear map that is known only by its products."""

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor
from torch.func import vjp, vmap

from .layer_maps import Layer, LayerBlocks, at_hand, block_of, differentiable
from .probe import Figures, Pass, named_over_texts, rows_of

COUNT, EXTRA, ROUNDS = 4, 2, 12
SETTLED = 1e-2  # how much a round may change a value, if it is to be the last: what is missing then is less
Product = Callable[[Tensor], Tensor]  # of vectors in rows: [k, n] -> [k, m]


class Leading(NamedTuple):
    """The leading singular values s [k] of J, largest first, and v [k, n] with |J v_i| = s_i."""

    s: Tensor
    v: Tensor


def leading_singular(
    jvp: Product, vjp: Product, width: int, count: int, extra: int = 2, rounds: int = 12, like: Tensor | None = None
) -> Leading:
    """The `count` leading singular values and right vectors of J by randomised block Krylov iteration
    (Musco and Musco, 2015).

    jvp(V) = J V and vjp(U) = J^T U for vectors in rows; J has `width` columns. A random block [count + extra, width]
    is multiplied by J and J^T in turn, and every block that comes up is kept: V has them all as orthonormal rows.
    The singular values of J V approach those of J from below, much sooner than those of the last block alone. It ends
    after `rounds` products with J, or when a round changes no value by more than 1/100. `like` gives type and device.
    """
    like = torch.empty(0) if like is None else like
    drawn = torch.randn(width, min(count + extra, width), generator=torch.Generator().manual_seed(15))
    v = orthonormal(drawn.mT.to(like).double())
    basis, images = v, jvp(v.to(like)).double()
    before = singular_from_gram(images)[:count]
    for _ in range(rounds - 1):
        v = new_directions(vjp(orthonormal(images[-len(v) :]).to(like)).double(), basis)
        if not len(v):
            break  # the basis is everything
        basis, images = torch.cat((basis, v)), torch.cat((images, jvp(v.to(like)).double()))
        after = singular_from_gram(images)[:count]
        if bool(((after - before).abs() <= SETTLED * after).all()):
            break
        before = after
    if not bool(images.isfinite().all()):
        return Leading(torch.full_like(before, torch.nan), torch.full_like(basis[:count], torch.nan))
    _, s, inner = torch.linalg.svd(torch.linalg.qr(images.mT, mode="r").R, full_matrices=False)
    return Leading(s[:count], inner[:count] @ basis)


def new_directions(rows: Tensor, basis: Tensor) -> Tensor:
    """Orthonormal rows at right angles to a basis, as many as there is room for. Twice is enough."""
    rows = rows[: min(len(rows), basis.shape[1] - len(basis))]
    for _ in range(2):
        rows = orthonormal(rows - (rows @ basis.mT) @ basis)
    return rows


def singular_from_gram(rows: Tensor) -> Tensor:
    """The singular values of a wide matrix, largest first, from that times its transpose: good to eight digits."""
    gram = rows @ rows.mT
    if not bool(gram.isfinite().all()):
        return torch.full_like(gram[0], torch.nan)
    return torch.linalg.eigvalsh(gram).flip(-1).clamp(min=0).sqrt()


def orthonormal(rows: Tensor) -> Tensor:
    """An orthonormal basis of the rows' span, in rows."""
    return torch.linalg.qr(rows.mT).Q.mT


@final
class LeadingSingular(LayerBlocks):
    """The 4 leading singular values s of the Jacobian of each layer on the whole sequence, [T width, T width], without
    ever having this matrix: randomised block Krylov iteration on products (`leading_singular`).

    Series "s 1" .. "s 4" by layer, means over the first 2 texts with their spread; "tokens": of the vector v of s 1,
    the participation ratio 1 / sum_t |v_t|^4 of the tokens, |v| = 1, so 1 means that a single token is stretched.
    Padding neither moves nor counts.
    """

    def figures(self, passed: Pass) -> Figures:
        values = torch.stack([self.measured(layer, self.real(passed)) for layer in self.layers(passed)])
        return named_over_texts([*(f"s {i + 1}" for i in range(values.shape[-1] - 1)), "tokens"], values)

    def measured(self, layer: Layer, real: Tensor | None) -> Tensor:
        """The numbers of one layer, [texts, 4 + 1]."""
        rows = list[Tensor]()
        for text, mask in enumerate([None] * len(layer.x) if real is None else real.unbind()):
            found = leading_of(*self.row(layer, text), mask)
            tokens = found.v[0].view(-1, layer.x.shape[-1]).square().sum(-1)
            rows.append(torch.cat((found.s, 1 / tokens.square().sum()[None])))
        return torch.stack(rows)

    def row(self, layer: Layer, text: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """The layer as a map of one text's states [1, T, width], and these states."""
        block, context = block_of(layer), at_hand(rows_of(layer.context, len(layer.x), [text]))
        return lambda x: block(x, context), layer.x[text : text + 1]


def leading_of(block: Callable[[Tensor], Tensor], x: Tensor, real: Tensor | None = None, count: int = COUNT) -> Leading:
    """The leading singular values and vectors of the Jacobian of a block at x [1, T, width]. Tokens that are not `real`
    [T] neither move nor count.

    u -> J^T u is linear, so its own derivative, transposed, is v -> J v: the block runs once for all products.
    """
    kept = torch.ones_like(x) if real is None else real[None, :, None].to(x).expand_as(x)
    with differentiable(x):
        _, pulled = vjp(block, x)  # pyright: ignore[reportAssignmentType]
        with torch.enable_grad():
            _, pushed = vjp(lambda u: pulled(u)[0], torch.zeros_like(x))  # pyright: ignore[reportAssignmentType]
        backward, forward = (on_rows(one, kept) for one in (pulled, pushed))
        return leading_singular(forward, backward, x.numel(), count, EXTRA, ROUNDS, x)


def on_rows(product: Callable[[Tensor], tuple[Tensor, ...]], kept: Tensor) -> Product:
    """A product with states of the shape of `kept` as one with vectors in rows; what is not kept stays 0."""
    return vmap(lambda v: (product(v.view_as(kept) * kept)[0] * kept).flatten())

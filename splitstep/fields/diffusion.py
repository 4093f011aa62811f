"""Diffusion along the tokens, D(x) = alpha d2x/ds2 on a grid of spacing 1, and its exact flow.

Two-sided models have the second difference x_(i-1) - 2 x_i + x_(i+1). Its exact flow is a cosine transform if the ends
reflect (nothing leaves the document) and a sine transform if the end tokens are fixed. Causal models may not look at
the next token, and a second difference of earlier tokens alone amplifies noise; they have the upwind relaxation
x_(i-1) - x_i, which is advection plus diffusion (1/2 d2x/ds2 - dx/ds and higher terms); the weights of its exact flow
are those of a Poisson distribution. alpha = softplus(a) > 0 is learnt, one a for each field.

Transforms are products with dense matrices: they cost no more than attention, and every document of a batch has a
length, hence a basis, of its own. They run in float32 or better; the state keeps its type.
"""

from math import expm1, log, pi
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..letters import DiffusionOptions
from .context import EMPTY, Context, FieldSpec, WithoutProducts, earlier, states_of, together


def diffusion(spec: FieldSpec) -> "Diffusion":
    """The field D of this place: on a grid of patches, along tokens, or along earlier tokens only."""
    if spec.causal:
        return UpwindDiffusion(spec)
    return GridDiffusion(spec) if spec.grid else TokenDiffusion(spec)


class Diffusion(WithoutProducts):
    """What the kinds of diffusion share: alpha = softplus(a), and float32 or better for the transforms."""

    axes = 1  # along which it acts

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        options = spec.options or DiffusionOptions()
        self.width, self.ends = spec.width, "upwind" if spec.causal else options.boundary
        self.start = options.alpha + log(-expm1(-options.alpha))  # the inverse of softplus
        self.a = nn.Parameter(torch.full((1,), self.start))  # not a scalar: sharding needs a dimension

    def alpha(self, like: Tensor) -> Tensor:
        """The coefficient, [1], in the type of `like` or float32, whichever is wider."""
        return functional.softplus(self.a.to(torch.promote_types(like.dtype, torch.float32)))

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        """alpha times the stencil of x."""
        return self.alpha(x).to(x.dtype) * self.stencil(x, EMPTY if context is None else context)

    def flow(self, t: Any, h: float, x: Tensor, context: Context | None = None) -> Tensor:
        """x(t + h) of x' = D(x)."""
        with torch.autocast(x.device.type, enabled=False):  # which would narrow products
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            return self.solve(h * self.alpha(x), wide, EMPTY if context is None else context).to(x.dtype)

    def stencil(self, x: Tensor, context: Context) -> Tensor:
        """The difference that alpha multiplies."""
        raise NotImplementedError

    def solve(self, s: Tensor, x: Tensor, context: Context) -> Tensor:
        """x after alpha h = s."""
        raise NotImplementedError

    def flow_flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one exact flow on `length` tokens: there and back by a dense matrix."""
        return 4 * length * length * self.width


class Line(NamedTuple):
    """Where tokens stand in their documents: [B or 1, S] each, or [B or 1, S, S]. Padding is a document of one."""

    same: Tensor  # whether two tokens are of one document
    rank: Tensor  # how many tokens of the document come before
    length: Tensor  # of the document


def line_of(x: Tensor, documents: Tensor | None) -> Line:
    """The places of the tokens of x in their documents."""
    n = x.shape[1]
    tokens = torch.arange(n, device=x.device)
    if documents is None:
        return Line(
            torch.ones(1, n, n, dtype=torch.bool, device=x.device), tokens[None], torch.full_like(tokens, n)[None]
        )
    same = together(documents, x)
    return Line(same, same.tril(-1).sum(-1, dtype=torch.int), same.sum(-1, dtype=torch.int))


def sine(m: Tensor, period: Tensor, dtype: torch.dtype) -> Tensor:
    """sin(2 pi m / period) for whole numbers and an even period. They are folded to a quarter of the period first: in
    float32 the large angles of long documents would be off."""
    half = period // 2
    m = (m + half) % period - half
    m = torch.where(2 * m.abs() > half, m.sign() * half - m, m)
    return (m.to(dtype) / half * pi).sin()


def straight(x: Tensor, line: Line) -> Tensor:
    """The straight line between the first and the last token of each document."""
    reverse = line.same.shape[-1] - 1
    first, last = line.same.int().argmax(-1), reverse - line.same.flip(-1).int().argmax(-1)
    a, b = (picked(x, index) for index in (first, last))
    share = line.rank.to(x.dtype) / (line.length - 1).clamp(min=1)
    return a + share[..., None] * (b - a)


def picked(x: Tensor, index: Tensor) -> Tensor:
    """The tokens of x [B, S, width] at these indices [B or 1, T]."""
    return x.gather(1, index[..., None].expand(x.shape[0], -1, x.shape[-1]))


class Modes(NamedTuple):
    """The modes of the documents of a batch: vectors [B or 1, S, S], one in each column, their rates, and the line."""

    vectors: Tensor
    rates: Tensor
    line: Line


def modes_of(x: Tensor, documents: Tensor | None, ends: str) -> Modes:
    """The modes of the tokens of x, in float32 or better. They are the same in every layer.

    The token of rank k holds mode k of its document. With reflecting ends it is cos(pi k (i + 1/2) / n), whose rate is
    4 sin^2(pi k / 2n); with fixed ends sin(pi k i / (n - 1)) between them, and the rate 4 sin^2(pi k / 2(n - 1)).
    """
    line, dtype = line_of(x, documents), torch.promote_types(x.dtype, torch.float32)
    spans = line.length if ends == "reflecting" else (line.length - 1).clamp(min=1)
    i, k, n = line.rank[:, :, None], line.rank[:, None, :], spans[:, :, None]
    if ends == "reflecting":
        size = torch.where(k == 0, 1.0, 2.0).to(dtype) / n
        inner, vectors = line.same, size.sqrt() * sine(k * (2 * i + 1) + n, 4 * n, dtype)
    else:
        inner = line.same & (k > 0) & (k < n) & (i > 0) & (i < n)
        vectors = (2.0 / n.to(dtype)).sqrt() * sine(k * i, 2 * n, dtype)
    rates = 4 * (line.rank.to(dtype) / (2 * spans) * pi).sin().square()
    return Modes(torch.where(inner, vectors, 0.0), rates, line)


def heat(s: Tensor, x: Tensor, modes: Modes, ends: str) -> Tensor:
    """x [.., S, width] after alpha h = s. Only what changes is transformed, so a constant stays as it is."""
    y = x if ends == "reflecting" else x - straight(x, modes.line)
    return x + modes.vectors @ (torch.expm1(-s * modes.rates)[..., None] * (modes.vectors.mT @ y))


def earlier_neighbours(documents: Tensor) -> Tensor:
    """The index of the token before each one in its document [B, S]; a first token, or padding, is its own."""
    tokens = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    latest = torch.where(documents > 0, tokens, -1).cummax(-1).values  # the last real token up to each
    before = functional.pad(latest[:, :-1], (1, 0), value=-1).clamp(min=0)
    linked = (documents > 0) & (documents.gather(1, before) == documents)
    return torch.where(linked, before, tokens)


def neighbours(x: Tensor, documents: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The indices of the tokens before and after each one, itself if there is none, and its own; [B or 1, S] each."""
    if documents is None:
        documents = torch.ones(1, x.shape[1], dtype=torch.long, device=x.device)
    documents = documents.to(x.device)
    tokens = torch.arange(documents.shape[1], device=x.device)
    after = documents.shape[1] - 1 - earlier_neighbours(documents.flip(-1)).flip(-1)
    return earlier_neighbours(documents), after, tokens


def second_difference(x: Tensor, documents: Tensor | None, ends: str) -> Tensor:
    """x_(i-1) - 2 x_i + x_(i+1) in each document: nothing passes a reflecting end, fixed ones have no rate."""
    before, after, own = neighbours(x, documents)
    y = picked(x, before) - 2 * x + picked(x, after)
    return y if ends == "reflecting" else torch.where(((before != own) & (after != own))[..., None], y, 0.0)


@final
class TokenDiffusion(Diffusion):
    """D(t, x) = alpha (x_(i-1) - 2 x_i + x_(i+1)) along the tokens of a document."""

    def stencil(self, x: Tensor, context: Context) -> Tensor:
        return second_difference(x, context.documents, self.ends)

    def solve(self, s: Tensor, x: Tensor, context: Context) -> Tensor:
        known = (context.shared or {}).get(self.ends)
        return heat(s, x, modes_of(x, context.documents, self.ends) if known is None else known, self.ends)

    def prepared(self, x: Tensor, context: Context) -> Context:
        """The context with the modes of its documents, which are the same in every layer."""
        shared = context.shared or {}
        return context._replace(shared={**shared, self.ends: modes_of(x, context.documents, self.ends)})


@final
class GridDiffusion(Diffusion):
    """D along the rows and along the columns of a grid of patches; the two commute, so its flow is one after the other.

    With fixed ends every row and every column keeps its ends, so corners stay and edges diffuse along themselves.
    """

    axes = 2

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        assert spec.grid is not None
        self.grid = spec.grid

    def lines(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x as its rows [B * height, width of the grid, d] and as its columns."""
        cells = x.unflatten(1, self.grid)
        return cells.flatten(0, 1), cells.transpose(1, 2).flatten(0, 1)

    def from_columns(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, self.grid[1])).transpose(1, 2).flatten(1, 2)

    def stencil(self, x: Tensor, context: Context) -> Tensor:
        rows, columns = (second_difference(y, None, self.ends) for y in self.lines(x))
        return rows.view_as(x) + self.from_columns(columns)

    def solve(self, s: Tensor, x: Tensor, context: Context) -> Tensor:
        rows, _ = self.lines(x)
        y = heat(s, rows, modes_of(rows, None, self.ends), self.ends).view_as(x)
        _, columns = self.lines(y)
        return self.from_columns(heat(s, columns, modes_of(columns, None, self.ends), self.ends))

    def flow_flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one exact flow: every row and every column, there and back."""
        return 4 * length * sum(self.grid) * self.width


@final
class UpwindDiffusion(Diffusion):
    """D(t, x) = alpha (x_(i-1) - x_i): every token relaxes towards the one before it; the first one stays."""

    def stencil(self, x: Tensor, context: Context) -> Tensor:
        states, new = states_of(x, context)
        if context.documents is None:
            return picked(states, (new - 1).clamp(min=0)[None]) - x
        everywhere = torch.arange(states.shape[1], device=x.device)
        others = earlier(context.documents, new, states.shape[1]) & (everywhere < new[:, None])
        before = torch.where(others, everywhere, -1).amax(-1)
        return picked(states, torch.where(before < 0, new, before)) - x

    def solve(self, s: Tensor, x: Tensor, context: Context) -> Tensor:
        """sum_k p_k x_(i-k) with p_k = e^-s s^k / k!; what would come from before the first token comes from it."""
        states, new = states_of(x, context)
        sees = earlier(context.documents, new, states.shape[1])
        k = (sees.flip(-1).cumsum(-1).flip(-1) - 1).clamp(min=0).to(x.dtype)  # how many tokens back
        p = torch.where(sees, (torch.xlogy(k, s) - s - torch.lgamma(k + 1)).exp(), 0.0)
        first = sees.int().argmax(-1, keepdim=True)
        p = p.scatter_add(-1, first, 1 - p.sum(-1, keepdim=True))
        return p @ states.to(x.dtype)

    def flow_flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one exact flow: one product with the weights."""
        return 2 * length * length * self.width

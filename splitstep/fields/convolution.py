"""The local interaction between neighbours, V(x) = W2 silu(norm(depthwise(GLU(W1 norm(x))))): a gated convolution."""

from functools import reduce
from operator import add
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..kernels.dropout import dropout
from ..letters import ConvolutionOptions
from .context import EMPTY, Context, FieldSpec, states_of
from .pointwise import norm


@final
class Convolution(nn.Module):
    """V(t, x): a gate, a convolution of `kernel` taps whose weights differ from channel to channel, a linear map.

    It runs along the tokens of a document, in causal models along earlier ones only, and on images over the grid of
    patches. Beyond the ends of a document there are zeros; so are padding and tokens of other documents.
    """

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        options = spec.options or ConvolutionOptions()
        width, self.kernel, self.grid = spec.width, options.kernel, spec.grid
        causal = spec.causal or options.window == "causal"
        assert causal or self.kernel % 2
        self.before = self.kernel - 1 if causal else self.kernel // 2  # taps before a token's own
        self.norm, self.inner_norm, self.output_norm = spec.norm(), norm(options.norm, width), spec.output_norm()
        self.up = nn.Linear(width, 2 * width, spec.bias)
        if self.grid:
            self.depthwise = nn.Conv2d(width, width, self.kernel, padding=self.before, groups=width, bias=spec.bias)
        else:
            self.depthwise = nn.Conv1d(width, width, self.kernel, groups=width, bias=spec.bias)
        self.down = nn.Linear(width, width, spec.bias)
        self.p, self.salt = spec.dropout, spec.salt

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        c = EMPTY if context is None else context
        u = functional.glu(self.up(self.norm(x)), -1)
        y = self.depthwise(u.mT.unflatten(-1, self.grid)).flatten(2).mT if self.grid else self.along_tokens(u, c)
        y = self.output_norm(self.down(functional.silu(self.inner_norm(y))))
        return dropout(y, self.p, c.seed, 4 * self.salt + 1)

    def along_tokens(self, u: Tensor, context: Context) -> Tensor:
        """The convolution along tokens; without documents by PyTorch's own, otherwise tap by tap."""
        states, new = states_of(u, context)
        window = self.window(states, new) if context.cache is not None else self.padded(u)
        if context.documents is None:
            return self.depthwise(window.mT).mT
        return self.by_taps(window, self.seen(context.documents, new))

    def padded(self, u: Tensor) -> Tensor:
        """All tokens of a pass, [B, T + kernel - 1, width], with zeros before and after them."""
        return functional.pad(u, (0, 0, self.before, self.kernel - 1 - self.before))

    def window(self, states: Tensor, new: Tensor) -> Tensor:
        """The same of new tokens, with the last ones that a cache has of earlier calls before them."""
        index = new[0] - self.before + torch.arange(new.shape[0] + self.kernel - 1, device=new.device)
        rows = states.index_select(1, index.clamp(min=0))
        return torch.where((index >= 0)[:, None], rows, 0.0)

    def seen(self, documents: Tensor, new: Tensor) -> Tensor:
        """Which taps of new tokens meet their own document, [B or 1, T, kernel]; beyond the ends are zeros anyway."""
        documents, taps = documents.to(new.device), torch.arange(self.kernel, device=new.device)
        index = (new[:, None] - self.before + taps).clamp(0, documents.shape[-1] - 1)
        if documents.ndim == 2:
            return documents[:, index] == documents.index_select(1, new)[:, :, None]
        looks = documents.expand(-1, new.shape[0], -1)
        return looks.gather(2, index.expand(looks.shape[0], -1, -1))

    def by_taps(self, window: Tensor, seen: Tensor) -> Tensor:
        """The sum of the taps that are seen. Backward passes keep views of the window, not a copy for each tap."""
        weight, bias, length = self.depthwise.weight[:, 0], self.depthwise.bias, seen.shape[1]
        terms = (
            torch.where(tap[..., None], window[:, k : k + length] * weight[:, k], 0.0)
            for k, tap in enumerate(seen.unbind(-1))
        )
        y = reduce(add, terms)
        return (y if bias is None else y + bias).to(window.dtype)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens."""
        return 2 * length * sum(part.weight.numel() for part in (self.up, self.depthwise, self.down))

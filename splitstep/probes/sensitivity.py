"""How much a small perturbation grows over depth."""

from typing import Any, final

import torch
from torch import Tensor

from ..integrate import Event, State, integrate
from .layer_maps import quiet
from .probe import Figures, Pass, Probe, numbers, rows_of, wide

EXAMPLES, DIRECTIONS, SEED = 8, 4, 15
SIZE = 1e-3  # of a perturbation, relative to the state


@final
class Sensitivity(Probe):
    """The finite-time Lyapunov exponent: the mean logarithm of the growth of small random perturbations.

    "growth": mean log(|d_{l+1}| / |d_l|) for each layer; "exponent": their sum divided by the time that the stack
    takes, layers * step. The mean is over the first 8 examples and 4 random directions of the stack's input each, the
    norm over the tokens that are not padding. d is the difference of two passes in the state's own precision, without
    autocast; at each step it is made 1/1000 as long as the state again, as Benettin's method does, so it stays small.
    Of a doubled state both halves are perturbed alike, and the norm is that of the pair. In a decoder the encoder's
    states are not perturbed.
    """

    def __init__(self) -> None:
        self.begun: Event | None = None

    def __call__(self, event: Event) -> None:
        self.begun = self.begun or event

    def figures(self, passed: Pass) -> Figures:
        assert self.begun is not None
        stack, start = passed.stack, self.begun.before.detach()[:EXAMPLES]
        real = None if passed.real is None else passed.real[:EXAMPLES]
        with torch.no_grad(), torch.autocast(start.device.type, enabled=False):
            context, copies = quiet(self.begun.context, start), [*range(len(start))] * (1 + DIRECTIONS)
            found = exponents(stack, start, rows_of(context, len(passed.x), copies), real)
        growth = found.unflatten(0, (-1, stack.substeps)).sum(1)
        time = stack.step * len(stack.layers)
        *layers, total = numbers(torch.cat((growth, growth.sum(0, keepdim=True) / time)))
        return {"growth": tuple(layers), "exponent": (total,)}


def exponents(stack: Any, x: Tensor, context: Any, real: Tensor | None) -> Tensor:
    """The mean logarithm of the growth in each step."""
    n, halves = len(x), 2 if stack.scheme.doubled else 1
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.randn(DIRECTIONS, 1, *x.shape, generator=generator).to(x).expand(-1, halves, *x.shape)
    state = x.expand(halves, *x.shape)  # [halves, n, T, width]
    away, found = masked(noise, real), list[Tensor]()
    for step in stack.steps():
        away = away * (SIZE * norm(masked(state, real)) / norm(away))[:, None, :, None, None]
        before = norm(away)
        together = torch.cat((state[None], state + away)).transpose(0, 1).flatten(1, 2)  # [halves, (1 + K) n, T, width]
        given: State = (together[0], together[1]) if halves == 2 else together[0]
        out = integrate(stack.scheme, [step], given, context)
        ends = torch.stack(out) if halves == 2 else out[None]
        after = ends.unflatten(1, (1 + DIRECTIONS, n)).transpose(0, 1)
        state, away = after[0], masked(after[1:] - after[0], real)
        found.append((norm(away) / before).log().mean())
    return torch.stack(found)


def masked(x: Tensor, real: Tensor | None) -> Tensor:
    """x [.., n, T, width] with zeros in place of padding."""
    return x if real is None else torch.where(real[..., None], x, 0)


def norm(x: Tensor) -> Tensor:
    """The norm [.., n] of each example of x [.., halves, n, T, width]."""
    return torch.linalg.vector_norm(x, dim=(-4, -2, -1), dtype=wide(x)).to(x.dtype)

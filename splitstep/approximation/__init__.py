"""Transformers of one layer that are built and certified instead of trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log10
from typing import Any, Literal

import numpy as np

from ..models.vectors import SplitstepVectorsModel
from ..support.words import counted
from .certificate import BUDGET, BoundTerm, Certificate, certify, outputs, report_only
from .fitting import SHARPNESSES, fit_means, fit_outputs
from .network import BETA, build, build_equivariant, build_from_means
from .ridges import Fit
from .targets import TARGETS, Array, Map, Target, check_equivariant, known_or_typed, read_target

__all__ = ["TARGETS", "BoundTerm", "Built", "Certificate", "Say", "approximate", "certify", "nothing", "read_target"]
Say = Callable[[str], None]
"""Called with what begins now."""
SHARE_OF_REPORTED = 0.8  # no proof needs the rest, but other points may have larger errors
MOST_VARIABLES = 6


@dataclass(frozen=True)
class Built:
    """A network that was built for a target, and what is proved about it."""

    model: SplitstepVectorsModel
    target: Target
    certificate: Certificate
    fits: list[Fit]  # of the outputs that are not equal to others up to a symmetry
    beta: float

    def __call__(self, x: Any) -> Array:
        """The network's map, (..., n, d) -> (..., n, d)."""
        given = np.ascontiguousarray(x, float)
        if given.shape[-2:] != (self.target.tokens, self.target.dim):
            raise ValueError(f"x has shape {given.shape}: it must be (..., {self.target.tokens}, {self.target.dim}).")
        return outputs(self.model, given.reshape(-1, self.target.variables), self.target.tokens).reshape(given.shape)

    @property
    def units(self) -> int:
        return self.model.config.ffn

    @property
    def parameters(self) -> int:
        return sum(one.numel() for one in self.model.parameters())


def nothing(text: str) -> None:
    """Say nothing."""


def approximate(
    f: Map | str,
    tokens: int,
    dim: int = 1,
    eps: float = 0.05,
    lipschitz: float | None = None,
    beta: float = BETA,
    budget: int = BUDGET,
    positions: Literal["learned", "none"] = "learned",
    say: Say = nothing,
) -> Built:
    """A Transformer of one layer within `eps` of f on [0, 1]^(tokens x dim), with a certificate.

    `f` takes and returns arrays (..., tokens, dim), or is the name of a target. Its Lipschitz constant in the sup norm
    is an assumption of the certificate; without one there is only a sampled error. If eps cannot be reached, the
    certificate says what was reached. Without positions only equivariant maps can be built: of two tokens, certified,
    or of three numbers, with a sampled error.
    """
    for name, value in (("beta", beta), ("budget", budget)):
        if not (value > 0 and isfinite(value)):
            raise ValueError(f"{name}={value:g} must be a positive number.")
    target = target_within(f, tokens, dim, [eps], lipschitz, budget, positions)
    if positions == "none" and tokens > 2:
        return report_means(target, eps, say)
    say(f"eps {eps:g}: building")
    functions, fits = fit_outputs(target, eps)
    model = build(functions, tokens, dim, beta) if positions == "learned" else build_equivariant(functions[:dim], dim)
    say(f"eps {eps:g}: certifying a network of {counted(model.config.ffn, 'unit')}")
    return Built(model, target, certify(model, target, eps, budget), fits, beta)


def target_within(
    f: Map | str,
    tokens: int,
    dim: int,
    many_eps: Sequence[float],
    lipschitz: float | None,
    budget: int,
    positions: Literal["learned", "none"],
) -> Target:
    """The target, if each eps can be reached for it as far as is known before any work."""
    for eps in many_eps:
        if not (eps > 0 and isfinite(eps)):
            raise ValueError(f"eps={eps:g} must be a positive number.")
    map, known = (f, None) if callable(f) else known_or_typed(f)
    constant = known if lipschitz is None else lipschitz
    target = read_target(f if isinstance(f, str) else getattr(f, "__name__", "f"), map, tokens, dim, constant)
    if positions == "none":
        check_equivariant(target)
    if positions == "learned" or tokens <= 2:
        for eps in many_eps:
            check_variables(target, eps, budget)
    return target


def report_means(target: Target, eps: float, say: Say) -> Built:
    """The network of three tokens without positions; its error is sampled."""
    say(f"eps {eps:g}: building")
    one = fit_means(target, SHARE_OF_REPORTED * eps)
    model = build_from_means(one.function, target.tokens, SHARPNESSES)
    say(f"eps {eps:g}: sampling the error of a network of {counted(model.config.ffn, 'unit')}")
    found = report_only(model, target, eps, "for three tokens without positions")
    return Built(model, target, found, [one], max(SHARPNESSES))


def check_variables(target: Target, eps: float, budget: int) -> None:
    """Refuse what the budget cannot reach even if the network were exact."""
    m = target.variables
    across = (target.lipschitz or 0.0) / (2 * eps)
    cells = inf if m * log10(max(across, 1.0)) > 300 else across**m * target.tokens
    if cells > budget:
        raise ValueError(
            f"{target.tokens} tokens of dimension {target.dim} are {m} variables: a proof of eps={eps:g} with "
            f"lipschitz={target.lipschitz:g} needs at least {cells:.1e} cells, and the budget is {budget:.1e}: use "
            "fewer tokens or a larger eps."
        )
    if m > MOST_VARIABLES:
        raise ValueError(
            f"{target.tokens} tokens of dimension {target.dim} are {m} variables: profiles of {3**m // 2:,} directions "
            f"or more would have to be fitted. Use at most {MOST_VARIABLES} variables."
        )

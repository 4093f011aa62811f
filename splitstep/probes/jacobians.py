"""Jacobians of layers at one token: their full spectra, and their products through depth."""

import warnings
from collections.abc import Iterable
from math import log
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from .layer_maps import LayerBlocks, SingleToken, jacobian, last_real, token_block_of, token_context
from .probe import Figures, Pass, over_texts
from .spectra import (
    asymmetry,
    complex_share,
    effective_rank,
    henrici_departure,
    participation_ratio,
    real_schur,
    singular_values,
)

LEADING = 10


def lyapunov_spectrum(jacobians: Iterable[Tensor], time: float, count: int | None = None, seed: int = 15) -> Tensor:
    """The finite-time exponents sum_l log |R_l,ii| / time, largest first, [count] (default: all).

    Q_l R_l = J_l Q_{l-1}, from a random orthogonal Q_0 [n, count] (Benettin's method with all directions). `jacobians`
    are J_1, J_2, ... in the order in which they act, [n, n] each, and `time` is how long they take together. Over a
    long time the exponents do not depend on Q_0; over the depth of a network they do a little, hence the fixed seed.
    """
    logs: Tensor | None = None
    q = torch.empty(0)
    for one in jacobians:
        j = one.detach().double().cpu()
        if logs is None:
            shape, generator = (len(j), count or len(j)), torch.Generator().manual_seed(seed)
            q = torch.linalg.qr(torch.randn(shape, generator=generator, dtype=torch.float64)).Q
            logs = torch.zeros(q.shape[1], dtype=torch.float64)
        q, r = torch.linalg.qr(j @ q)
        logs = logs + r.diagonal().abs().log()
    if logs is None:
        raise ValueError("lyapunov_spectrum got no Jacobians: give at least one, in the order in which they act.")
    return logs.sort(descending=True).values / time


class Linearised(NamedTuple):
    """A layer's Jacobian at one token, its eigenvalues, and its normal form (`RealSchur`); float64."""

    j: Tensor
    eigenvalues: Tensor
    normal_form: Tensor


class TokenJacobians(LayerBlocks):
    """A probe of the Jacobians of single-token blocks at the last real token of the first 2 texts."""

    def linearised(self, passed: Pass) -> list[list[Linearised]]:
        """By layer and text; none, and a warning, if layers do not run on a single token. They are worked out once for
        all probes of a pass."""
        shared: dict[str, Any] = {} if passed.shared is None else passed.shared
        if "token jacobians" not in shared:
            try:
                shared["token jacobians"] = self.computed(passed)
            except SingleToken as error:
                warnings.warn(f"{passed.name} has no Jacobians of single tokens: {error}", stacklevel=2)
                shared["token jacobians"] = []
        return shared["token jacobians"]

    def computed(self, passed: Pass) -> list[list[Linearised]]:
        layers = self.layers(passed)
        places = last_real(self.real(passed), layers[0].x)
        states = [[layer.x[text, place] for layer in layers] for text, place in enumerate(places)]  # by text
        contexts = [
            token_context(self.context, text, place, own)
            for text, (place, own) in enumerate(zip(places, states, strict=True))
        ]
        return [
            [linearise(jacobian(token_block_of(layer, c), own[i])) for c, own in zip(contexts, states, strict=True)]
            for i, layer in enumerate(layers)
        ]


def linearise(j: Tensor) -> Linearised:
    """A Jacobian with its Schur form."""
    wide = j.double().cpu()
    form = real_schur(wide)
    return Linearised(wide, form.eigenvalues, form.normal_form)


@final
class JacobianSpectra(TokenJacobians):
    """Eigenvalues and singular values of J = dx_{l+1} / dx_l of each layer, and of J - I, which leaves out the residual
    connection.

    The layer is evaluated on a sequence of one token, with the state of the last real token of the first 2 texts; the
    product is in the model's precision, the linear algebra in float64. Series "J ..." and "J - I ...", with means over
    texts and their spread: "departure" sqrt(|J|_F^2 - sum |lambda|^2) / |J|_F (Henrici); "asymmetry"
    |J - J^T|_F / |J|_F; "complex", the share of complex eigenvalues (the same for both); "effective rank"
    exp(-sum p log p), p = s / sum s; "participation ratio" (sum s^2)^2 / sum s^4; "largest", the largest singular
    value; "radius", the largest |lambda|. Tensors "J eigenvalues" [L, texts, width, 2] (real and imaginary part; those
    of J - I are less by 1), "J singular values" and "J - I singular values" [L, texts, width].
    """

    def figures(self, passed: Pass) -> Figures:
        if not (found := self.linearised(passed)):
            return {}
        j = torch.stack([torch.stack([one.j for one in layer]) for layer in found])  # [L, texts, width, width]
        eigen = torch.stack([torch.stack([one.eigenvalues for one in layer]) for layer in found])
        out: dict[str, Any] = over_texts("complex", complex_share(eigen))
        for name, shift in (("J", 0.0), ("J - I", 1.0)):
            matrix = j - shift * torch.eye(j.shape[-1], dtype=j.dtype)
            s = singular_values(matrix)
            for key, values in spectra(matrix, eigen - shift, s).items():
                out |= over_texts(f"{name} {key}", values)
            out[f"{name} singular values"] = s.float()
        return out | {"J eigenvalues": torch.view_as_real(eigen).float()}


def spectra(matrix: Tensor, eigen: Tensor, singular: Tensor) -> dict[str, Tensor]:
    """What is said of matrices [.., n, n] with these eigenvalues and singular values [.., n], by name."""
    return {
        "departure": henrici_departure(matrix, eigen),
        "asymmetry": asymmetry(matrix),
        "effective rank": effective_rank(singular),
        "participation ratio": participation_ratio(singular),
        "largest": singular[..., 0],
        "radius": eigen.abs().amax(-1),
    }


@final
class JacobianProducts(TokenJacobians):
    """Products P_l = J_l .. J_1 of the single-token Jacobians of the probe `jacobian`, l = 1 .. L.

    "effective rank" of P_l; "amplification": log(|P_l|_F / sqrt(width)), the growth of a random perturbation in nats;
    "normal effective rank" and "normal amplification": of the same product with each J replaced by its normal form,
    which has the eigenvalues of J and no non-normality (`RealSchur`; the network itself is unchanged); "exponents": the
    10 largest Lyapunov exponents sum_l log |R_ii| / (L h), by QR. The tensor "all exponents" [texts, width]. Means over
    2 texts, with their spread.
    """

    def figures(self, passed: Pass) -> Figures:
        if not (found := self.linearised(passed)):
            return {}
        time = passed.stack.step * len(found)
        out: dict[str, tuple[float, ...] | Tensor] = {}
        for prefix, chosen in (("", 0), ("normal ", 2)):
            products = [cumulative([layer[text][chosen] for layer in found]) for text in range(len(found[0]))]
            ranks, growth = (torch.stack(one, 1) for one in zip(*products, strict=True))
            out |= over_texts(f"{prefix}effective rank", ranks) | over_texts(f"{prefix}amplification", growth)
        exponents = [lyapunov_spectrum((layer[text].j for layer in found), time) for text in range(len(found[0]))]
        spectrum = torch.stack(exponents)
        return out | over_texts("exponents", spectrum.T[:LEADING]) | {"all exponents": spectrum.float()}


def cumulative(factors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The effective rank of P_l = J_l .. J_1 and log(|P_l|_F / sqrt(n)) for each l [L]. The product is scaled at every
    step, so it stays finite."""
    product, grown = torch.eye(len(factors[0]), dtype=torch.float64), -0.5 * log(len(factors[0]))
    ranks, growth = list[Tensor](), list[Tensor]()
    scale = torch.tensor(0.0, dtype=torch.float64)
    for j in factors:
        product = j @ product
        norm = torch.linalg.matrix_norm(product)
        product, scale = product / norm, scale + norm.log()
        ranks.append(effective_rank(singular_values(product)))
        growth.append(scale + grown)
    return torch.stack(ranks), torch.stack(growth)

"""The full spectrum of each layer's Jacobian, at one token."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from .blocks import LayerBlocks, SingleToken, jacobian, last_real, token_block_of, token_context
from .probe import Figures, Pass, over_texts
from .schur import real_schur
from .spectra import (
    asymmetry,
    complex_share,
    effective_rank,
    henrici_departure,
    participation_ratio,
    singular_values,
)


class Linearised(NamedTuple):
    """A layer's Jacobian at one token, its eigenvalues, and its normal form (`schur.py`); float64."""

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

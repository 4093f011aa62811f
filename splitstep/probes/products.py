"""What all layers up to one do to a small perturbation, with and without the non-normality of each."""

from __future__ import annotations

from math import log
from typing import final

import torch
from torch import Tensor

from .jacobian import TokenJacobians
from .lyapunov import lyapunov_spectrum
from .probe import Figures, Pass, over_texts
from .spectra import effective_rank, singular_values

LEADING = 10


@final
class JacobianProducts(TokenJacobians):
    """Products P_l = J_l .. J_1 of the single-token Jacobians of the probe `jacobian`, l = 1 .. L.

    "effective rank" of P_l; "amplification": log(|P_l|_F / sqrt(width)), the growth of a random perturbation in nats;
    "normal effective rank" and "normal amplification": of the same product with each J replaced by its normal form,
    which has the eigenvalues of J and no non-normality (`schur.py`; the network itself is unchanged); "exponents": the
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

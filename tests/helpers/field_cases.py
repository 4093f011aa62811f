"""Numbers and fields at random in float64, for the tests of fields."""

from typing import Any

import torch
from torch import Tensor, nn

DOCUMENTS = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 2, 2, 3, 0], [1, 1, 0, 0, 1, 1, 0]])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def fresh(module: nn.Module) -> Any:
    """In float64, with every parameter and statistic at random; variances are positive."""
    for i, (name, p) in enumerate(module.double().state_dict().items()):
        drawn = 0.5 * normal(*p.shape, seed=i + 1)
        p.copy_(drawn.abs() + 0.5 if name.endswith("var") else drawn)
    return module.eval()


def close(found: Any, expected: Any, within: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=within, atol=within)

"""A package that adds the letters G and H through entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitstep.letters import LETTERS

PACKAGE = '''
import torch
from torch import nn
from splitstep.fields import FieldSpec
from splitstep.letters import Letter

class Drift(nn.Module):
    """G(x) = W norm(x) - half its mean over the tokens so far, which a cache keeps."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.spec, self.norm = spec, spec.norm()
        self.weight = nn.Linear(spec.width, spec.width, spec.bias)

    def forward(self, t, x, context=None):
        y = self.weight(self.norm(x))
        if context is None or not (context.causal or context.cache is not None):
            return y - y.mean(1, keepdim=True) / 2
        keys = y[:, None]
        if context.cache is not None:
            keys, _ = context.cache.update(keys, keys, context.slot)
        past = keys.shape[2] - x.shape[1]
        sums = keys[:, 0].cumsum(1)[:, past:]
        return y - sums / torch.arange(past + 1, keys.shape[2] + 1)[:, None] / 2

    def flops(self, length, memory):
        return 2 * length * self.weight.weight.numel()

DRIFT = Letter("drift", "#123456", field=Drift, mixes=True, state="all inputs")
BY_PATH = Letter("drift", "#123456", field="stranger:Drift", mixes=True)
'''


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package on the path that adds the letters G and H through entry points."""
    (tmp_path / "stranger.py").write_text(PACKAGE)
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[splitstep.letters]\nG = stranger:DRIFT\nH = stranger:BY_PATH\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(LETTERS, "own", dict(LETTERS.own))
    monkeypatch.setattr(LETTERS, "_found", None)
    yield
    sys.modules.pop("stranger", None)

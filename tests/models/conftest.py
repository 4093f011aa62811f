"""A package that adds the letters G and H through entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitstep.letters import LETTERS

PACKAGE = '''
from torch import nn
from splitstep.fields import FieldSpec, visible
from splitstep.letters import Letter

class Pull(nn.Module):
    """H(x) = W norm(x), which mixes nothing."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.spec, self.norm = spec, spec.norm()
        self.weight = nn.Linear(spec.width, spec.width, spec.bias)

    def forward(self, t, x, context=None):
        return self.weight(self.norm(x))

    def flops(self, length, memory):
        return 2 * length * self.weight.weight.numel()

class Drift(Pull):
    """G(x) = W norm(x) - half its mean over the document, in causal models over what a cache keeps of it."""

    def forward(self, t, x, context=None):
        y = super().forward(t, x)
        states, sees = visible(y, context, self.spec.causal)
        return y - (sees / sees.sum(-1, keepdim=True) / 2).to(y.dtype) @ states

    def flops(self, length, memory):
        return super().flops(length, memory) + 2 * length * length * self.spec.width

DRIFT = Letter("drift", "#123456", field=Drift, mixes=True, state="all inputs", documents=True)
BY_PATH = Letter("pull", "#123456", field="stranger:Pull")
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

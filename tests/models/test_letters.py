"""Letters: a stranger's joins every model, and an unknown one is one clear line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache

import splitstep as ss
from splitstep.fields import exact_attention
from splitstep.letters import LETTERS
from splitstep.models import KINDS, cost, twin
from splitstep.models.cost import sketch
from splitstep.report.diagram import draw

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

DRIFT = Letter("drift", "#123456", field=Drift, cache="self")
BY_PATH = Letter("drift", "#123456", field="stranger:Drift")
'''
SMALL: dict[str, Any] = dict(layers=2, width=16, heads=4, ffn=24, max_positions=16, init_std=0.3)
TEXT: dict[str, Any] = {**SMALL, "vocab_size": 20}


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


def test_the_rows_of_the_table() -> None:
    assert list(LETTERS) == ["A", "F", "C", "D", "S"]
    assert [letter for letter, row in LETTERS.items() if not row.backwards] == ["D"]
    assert [letter for letter, row in LETTERS.items() if row.free] == ["A", "F", "D", "S"]


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("scheme", ["A F G", "F0/2 A G+H F1/2 @heun", "A N F M G P H"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_strangers_letter_trains_in_every_model(kind: str, scheme: str) -> None:
    shape = {"image": {**SMALL, "image_size": 8}, "vectors": SMALL}.get(kind, TEXT)
    torch.manual_seed(0)
    model: Any = KINDS[kind].model(KINDS[kind].config(scheme=scheme, dropout=0.1, **shape))
    given = {"pixel_values": torch.randn(2, 1, 8, 8)} if kind == "image" else {"input_ids": torch.ones(2, 5).long()}
    labels = torch.tensor([0, 1]) if kind in ("image", "sequence") else torch.randint(3, 20, (2, 5))
    if kind == "vectors":
        given, labels = {"values": torch.randn(2, 5, 1)}, torch.randn(2, 5, 1)
    model(**given, labels=labels).loss.backward()
    drifts = [module for module in model.modules() if type(module).__name__ == "Drift"]
    letters = sum(name[0] in "GH" for name in ss.scheme(scheme).fields)
    assert len(drifts) == letters * (8 if kind == "translation" else 2)
    assert all(drift.weight.weight.grad.abs().max() > 0 for drift in drifts)
    assert {drift.spec.name for drift in drifts} <= {"G", "H"}
    assert len({drift.spec.salt for drift in drifts}) == len(drifts)


@pytest.mark.usefixtures("stranger")
def test_a_strangers_letter_is_counted_and_has_twins() -> None:
    config = ss.CausalConfig(**TEXT, scheme="A F G @heun")
    with FlopCounterMode(display=False) as counter, exact_attention(), torch.no_grad():
        sketch(config).to_empty(device="cpu").eval()(torch.zeros(1, 8, dtype=torch.long))
    assert counter.get_total_flops() == 8 * cost(config, 8).flops
    reference = ss.CausalConfig(layers=4, width=64, heads=4, ffn=512)
    other = twin(reference, "A F G")
    assert other.scheme == "A F G"
    assert abs(cost(other).body / cost(reference).body - 1) < 1e-3


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("scheme", ["A F G", "A/2 G F A/2 @midpoint"])
def test_a_strangers_keys_have_cache_slots_of_their_own(scheme: str) -> None:
    torch.manual_seed(0)
    model = ss.SplitstepForCausalLM(ss.CausalConfig(**TEXT, scheme=scheme)).eval()
    tokens = torch.randint(3, 20, (2, 6))
    whole = model(tokens, use_cache=False).logits
    cache = DynamicCache()
    pieces = [model(tokens[:, i : i + 1], past_key_values=cache).logits for i in range(6)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-5, rtol=1e-5)
    assert len(cache.layers) == 2 * (ss.scheme(scheme).count("A") + ss.scheme(scheme).count("G"))
    with pytest.raises(ValueError, match=r"A\+G of 'A\+G F' sums several fields that look at earlier tokens"):
        ss.SplitstepForCausalLM(ss.CausalConfig(**TEXT, scheme="A+G F"))


@pytest.mark.usefixtures("stranger")
def test_a_strangers_letter_is_drawn_in_its_colour() -> None:
    assert 'fill="#123456"' in draw(ss.scheme("A F G"))
    assert 'fill="#8a93a3"' in draw(ss.scheme("A F Z"))  # nobody's letter is grey


UNKNOWN = [
    ("A F Z", "it has A (attention), F (feed-forward), D (diffusion), S (stabiliser) and the"),
    ("A C F", "a decoder adds C (cross-attention) by itself"),
]


@pytest.mark.parametrize(("scheme", "says"), UNKNOWN)
@pytest.mark.parametrize("kind", list(KINDS))
def test_an_unknown_letter_is_one_clear_line_in_configs_and_twins(kind: str, scheme: str, says: str) -> None:
    config = KINDS[kind].config
    twins = (lambda: twin(config(), scheme), lambda: twin(config(), scheme, "flops"))
    for wrong in (lambda: config(scheme=scheme), *twins):
        with pytest.raises(ValueError, match=r"^The scheme ") as error:
            wrong()
        assert says in str(error.value)
        assert "\n" not in str(error.value)

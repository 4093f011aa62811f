"""torch.export and ONNX: the exported program gives the logits of the model, at other lengths too."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import EACH, inputs, tiny, tokens
from torch.export import Dim

from splitstep.models import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


class Logits(torch.nn.Module):
    """A model as a function from tensors to logits."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, tensors, strict=True)), use_cache=False).logits


def program(kind: str, scheme: str, positions: str) -> tuple[Any, dict[str, torch.Tensor]]:
    model = tiny(kind, scheme, positions=positions, sharp=False)
    return Logits(model, list(inputs(kind))).eval(), inputs(kind)


def longer(kind: str) -> dict[str, torch.Tensor]:
    """A batch of two, eleven tokens each."""
    given = {name: tokens(5, 2, 11) for name in inputs(kind)}
    given["attention_mask"] = torch.ones(2, 11, dtype=torch.long)
    given["attention_mask"][1, 7:] = 0
    return given


@pytest.mark.parametrize(("kind", "scheme"), EACH)
def test_an_exported_program_gives_the_same_logits(kind: str, scheme: str) -> None:
    module, given = program(kind, scheme, "rotary")
    with torch.no_grad():
        exported = torch.export.export(module, tuple(given.values()), strict=False)
        assert torch.equal(exported.module()(*given.values()), module(*given.values()))
    assert not [node for node in exported.graph.nodes if "splitstep" in str(node.target)]  # no operation of our own


@pytest.mark.parametrize(("kind", "positions"), [("causal", "learned"), ("causal", "rotary"), ("sequence", "rotary")])
def test_an_exported_program_takes_any_batch_and_length(kind: str, positions: str) -> None:
    module, given = program(kind, "macaron", positions)
    batch, length = Dim("batch", min=2, max=64), Dim("length", min=2, max=32)
    with torch.no_grad():
        shapes = (tuple({0: batch, 1: length} for _ in given),)
        exported = torch.export.export(module, tuple(given.values()), dynamic_shapes=shapes, strict=False)
        other = longer(kind)
        torch.testing.assert_close(exported.module()(*other.values()), module(*other.values()))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scheme", "positions"), [
    ("translation", "macaron", "rotary"),
    ("causal", "strang-midpoint", "learned"),
    *(pytest.param(kind, "macaron", "learned", marks=pytest.mark.nightly) for kind in KINDS),
])  # fmt: skip
def test_onnxruntime_gives_the_same_logits(kind: str, scheme: str, positions: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    module, given = program(kind, scheme, positions)
    file = tmp_path / "model.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(given.values()), file, dynamo=True, verbose=False, input_names=list(given))
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {name: x.numpy() for name, x in given.items()})
    torch.testing.assert_close(torch.from_numpy(found), module(*given.values()).detach(), atol=1e-5, rtol=1e-4)

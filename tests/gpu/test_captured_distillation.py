"""Captured updates of a distillation against eager ones: the same losses and weights, with a cache or a teacher."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from distil_pairs import bpe, recipe, saved, three_models
from safetensors.torch import load_file
from tiny import tiny
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

from splitstep.training import read_recipe, train

METHODS = [
    ("student", "ce"), ("student", "kl"), ("student", "skl + mta"), ("student", "js + hidden"), ("student", "sra"),
    ("other", "sra"), ("other", "ce + 1.5 uld"), ("other", "ce + uld(at=ends)"), ("ours", "srkl + mta"),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = three_models(tmp_path_factory.mktemp("pairs"))
    saved(tiny("causal", vocab_size=len(bpe()), max_positions=256), bpe(), folder / "ours")
    return folder


class Ended:
    """The losses of a run's updates, and the weights that it ends with."""

    def __init__(self, place: Path, student: str, method: str, out: Path, mode: str, online: bool, **more: Any) -> None:
        given = recipe(place, method, student, **({} if online else {"cache": str(out / "cache")}))
        given["train"] |= {"steps": 24, "log_every": 1, "evaluate_every": 24, "mode": mode, **more}
        train(read_recipe(given, "the test"), out / "run", quiet=True)
        lines = (out / "run" / "metrics.jsonl").read_text().splitlines()
        self.losses = [one["loss"] for one in map(json.loads, lines) if one["split"] == "train"]
        self.weights = load_file(out / "run" / "model" / "model.safetensors")


@pytest.mark.parametrize("online", [False, True], ids=["cache", "online"])
@pytest.mark.parametrize(("student", "method"), METHODS)
def test_captured_updates_do_what_eager_ones_do(
    place: Path, tmp_path: Path, student: str, method: str, online: bool
) -> None:
    eager, captured = (
        Ended(place, student, method, tmp_path / mode, mode, online, precision="float32")
        for mode in ("eager", "capture")
    )
    assert len(eager.losses) == 24
    assert captured.losses == pytest.approx(eager.losses, rel=1e-4)
    for name, x in eager.weights.items():
        torch.testing.assert_close(captured.weights[name], x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("student", ["student", "ours"])
def test_updates_are_captured_unless_told_otherwise(place: Path, tmp_path: Path, student: str) -> None:
    Ended(place, student, "kl", tmp_path, "auto", False)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["mode"] == "capture"


def test_a_model_that_waits_for_the_device_is_updated_eagerly(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = GPT2MLP.forward

    def waiting(self: GPT2MLP, x: torch.Tensor) -> torch.Tensor:
        return forward(self, x) + 0 * x.sum().item()

    monkeypatch.setattr(GPT2MLP, "forward", waiting)
    eager = Ended(place, "student", "kl", tmp_path / "eager", "eager", False, precision="float32")
    with pytest.warns(UserWarning, match="updates are eager: this model waits"):
        found = Ended(place, "student", "kl", tmp_path / "auto", "auto", False, precision="float32")
    assert json.loads((tmp_path / "auto" / "run" / "result.json").read_text())["mode"] == "eager"
    assert found.losses == pytest.approx(eager.losses, rel=1e-4)
    for name, x in eager.weights.items():
        torch.testing.assert_close(found.weights[name], x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("student", "method"), METHODS[2:6:3])
def test_so_they_do_in_half_precision(place: Path, tmp_path: Path, student: str, method: str) -> None:
    eager, captured = (
        Ended(place, student, method, tmp_path / mode, mode, False, precision="bfloat16")
        for mode in ("eager", "capture")
    )
    assert captured.losses[:8] == pytest.approx(eager.losses[:8], rel=1e-2)  # later ones amplify roundings

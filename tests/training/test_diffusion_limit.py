"""Explicit diffusion whose learnt alpha passes its limit ends a run, with the limit and what to type."""

from pathlib import Path
from typing import Any

import pytest
import torch

from splitstep.training import Recipe, read_recipe, train
from splitstep.training.run import Run

SHAPE: dict[str, Any] = dict(layers=2, width=16, heads=2, ffn=32, diffusion=0.2)


def recipe(scheme: str, **model: Any) -> Recipe:
    options = dict(steps=20, batch=16, lr=1e-3, log_every=5, evaluate_every=20, mode="eager")
    return read_recipe({"task": "digits", "scheme": scheme, "model": {**SHAPE, **model}, "train": options}, "r")


def growing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """From step `at` on, alpha of layer 1 is 0.3, above 1/4."""
    advance = Run.advance

    def grown(self: Run, *given: Any) -> None:
        advance(self, *given)
        if self.state.step >= at:
            self.model.get_parameter("body.stack.layers.1.D.a").detach().copy_(torch.tensor(0.3).expm1().log())

    monkeypatch.setattr(Run, "advance", grown)


def test_a_run_ends_when_alpha_passes_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing(monkeypatch, 12)
    result = train(recipe("A F D"), tmp_path / "run", quiet=True)
    assert result.status == "diverged"
    assert result.diverged.step == 15  # the next look
    assert result.diverged.reason.startswith("layer 1: alpha * h = 0.3 * 1 = 0.3 is above 0.25, the limit of explicit")
    assert "write D@exact" in result.diverged.reason
    assert train(recipe("A F D"), tmp_path / "run", quiet=True).document() == result.document()


def test_an_exact_flow_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing(monkeypatch, 12)
    assert train(recipe("A F D@exact"), tmp_path / "run", quiet=True).status == "finished"

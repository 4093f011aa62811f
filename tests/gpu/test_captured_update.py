"""The captured update, the default on a GPU, against the eager one: the same weights bit for bit."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from splitstep.training import read_recipe, train

DIGITS: dict[str, Any] = {
    "task": "digits",
    "model": {"layers": 2, "width": 64, "heads": 2, "ffn": 128, "dropout": 0.1},
    "train": {"steps": 30, "batch": 32, "warmup": 5, "log_every": 7, "evaluate_every": 10, "checkpoint_seconds": 0.0},
}
NUMBERS: dict[str, Any] = {  # batches of several shapes, a graph each
    "task": "numbers",
    "data": {"highest": 99999, "train": 2000, "valid": 20, "test": 20, "beams": 1},
    "model": {"layers": 1, "decoder_layers": 1, "width": 64, "heads": 2, "ffn": 64, "dropout": 0.1},
    "train": {"steps": 40, "batch": 512, "warmup": 5, "keep": "average", "average": 3, "average_every": 4},
}
STDLIB: dict[str, Any] = {
    "task": "stdlib",
    "data": {"length": 64, "limit": 200_000, "valid_limit": 2_000},
    "model": {"layers": 2, "width": 64, "heads": 2, "ffn": 128, "positions": "rotary"},
    "train": {"steps": 20, "batch": 8, "warmup": 5},
}

MLM: dict[str, Any] = {  # packed rows, masked positions
    "task": "mlm",
    "data": {"vocab_size": 1000, "length": 64, "valid_limit": 2_000},
    "model": {"layers": 2, "width": 64, "heads": 2, "ffn": 128, "dropout": 0.1},
    "train": {"steps": 20, "batch": 32, "warmup": 5},
}


PAIRS: dict[str, Any] = {  # and pairs of texts
    **MLM,
    "data": {**MLM["data"], "next_sentence": True},
    "model": {**MLM["model"], "token_types": 2},
}


def weights(recipe: dict[str, Any], out: Path, mode: str, **options: Any) -> dict[str, Tensor]:
    """What a run of this mode ends with."""
    scheme = options.pop("scheme", "lie")
    document = {**recipe, "scheme": scheme, "train": {**recipe["train"], "mode": mode, **options}}
    train(read_recipe(document, "the test"), out, quiet=True)
    return load_file(out / "model" / "model.safetensors")


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize(
    ("recipe", "precision"),
    [*((recipe, "float32") for recipe in (DIGITS, NUMBERS, STDLIB, MLM, PAIRS)), (DIGITS, "bfloat16")],
)
def test_a_captured_run_ends_with_the_weights_of_the_eager_one(
    recipe: dict[str, Any], precision: str, tmp_path: Path
) -> None:
    """In half precision too, where a captured run makes the narrow weights all at once, and autocast one by one."""
    found = [weights(recipe, tmp_path / mode, mode, precision=precision) for mode in ("eager", "capture")]
    assert_same(*found)


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"clip": 0.0}, {"schedule": "constant"}], ids=str)
@pytest.mark.parametrize("scheme", ["lie", "macaron", "strang-midpoint", "reversible"])
def test_so_it_does_with_every_kind_of_step(scheme: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = [
        weights(DIGITS, tmp_path / mode, mode, precision="float32", scheme=scheme, **options)
        for mode in ("eager", "capture")
    ]
    assert_same(*found)


@pytest.mark.filterwarnings("ignore:TensorFloat32")  # PyTorch advises it while it compiles for float32
def test_compiled_and_captured_runs_agree_closely(tmp_path: Path) -> None:
    eager, compiled = (
        weights(DIGITS, tmp_path / mode.replace("+", "-"), mode, precision="float32", steps=10)
        for mode in ("eager", "compile+capture")
    )
    for name in eager:
        torch.testing.assert_close(eager[name], compiled[name], rtol=1e-3, atol=1e-4)


def test_a_captured_run_goes_on_from_a_checkpoint_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from splitstep.training import run

    whole = weights(DIGITS, tmp_path / "whole", "capture")
    advance, left = run.Run.advance, [17]

    def stop_after(self: Any, *arguments: Any) -> None:
        if not left[0]:
            raise InterruptedError
        left[0] -= 1
        advance(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(run.Run, "advance", stop_after)
        with pytest.raises(InterruptedError):
            weights(DIGITS, tmp_path / "cut", "capture")
    assert list((tmp_path / "cut" / "checkpoints").iterdir())
    assert_same(whole, weights(DIGITS, tmp_path / "cut", "capture"))


def test_the_garbage_collector_does_not_disturb_a_capture(tmp_path: Path) -> None:
    """It would run at every other object here, and free what eager runs have left in cycles."""
    eager, usual = weights(DIGITS, tmp_path / "eager", "eager", precision="float32"), gc.get_threshold()
    gc.set_threshold(2, 1, 1)
    try:
        captured = weights(DIGITS, tmp_path / "capture", "capture", precision="float32", steps=30)
    finally:
        gc.set_threshold(*usual)
    assert_same(eager, captured)


def test_a_captured_run_that_blows_up_says_when_and_where(tmp_path: Path) -> None:
    document = {**DIGITS, "train": {**DIGITS["train"], "mode": "capture", "lr": 1e30, "warmup": 0, "clip": 0.0}}
    result = train(read_recipe(document, "the test"), tmp_path / "run", quiet=True)
    found = result if isinstance(result, dict) else result.document()
    assert found["status"] == "diverged"
    assert found["diverged"]["step"] <= 10

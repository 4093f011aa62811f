"""Gumbel noise as one kernel on a GPU is that of the formula, and so are the answers."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gpu import kernels
from gumbel_cases import KEYS, agree
from tiny_causal import ROWS, llama
from torch import Tensor

from splitstep.distillation.judging.answers import Writing, write_answers
from splitstep.kernels.gumbel import add_gumbel, formula, kernel


def test_a_kernel_that_differs_or_fails_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(scores: Tensor, keys: Tensor, step: int, temperature: float) -> Tensor:
        return formula(scores, keys, step + 1, temperature)

    def broken(scores: Tensor, keys: Tensor, step: int, temperature: float) -> Tensor:
        raise OSError("no compiler")

    for add, used in ((wrong, False), (broken, False), (formula, True)):
        monkeypatch.setitem(sys.modules, "splitstep.kernels.gumbel_kernel", SimpleNamespace(add=add))
        with nullcontext() if used else pytest.warns(UserWarning, match="runs without its kernel"):
            assert (kernel.checked("cuda") is not None) == used


def test_a_gpu_does_as_the_formula_does() -> None:
    add = kernel("cuda")
    assert add is not None
    agree(add, "cuda")


def test_a_gpu_and_a_cpu_have_the_same_noise() -> None:
    keys, scores = torch.tensor(KEYS), torch.randn(len(KEYS), 1000)
    found = add_gumbel(scores.cuda(), keys.cuda(), 255)
    torch.testing.assert_close(found.cpu(), formula(scores, keys, 255, 1.0), rtol=1e-12, atol=1e-12)


def test_the_noise_of_a_token_is_one_kernel_at_all_steps(tmp_path: Path) -> None:
    scores, keys, trace = torch.randn(64, 16_001, device="cuda"), torch.arange(64, device="cuda"), tmp_path / "t.json"
    if not kernels(lambda: scores * 2, trace):
        pytest.skip("the profiler sees no kernels here")
    assert kernels(lambda: [add_gumbel(scores, keys, step) for step in (0, 1, 16, 100)], trace) == ["_add"] * 4


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_answers_on_a_gpu_do_not_depend_on_the_kernel(top_p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    one, prompts = llama(), [row.prompt for row in ROWS]
    one.model.cuda()
    writing = Writing(seeds=(1, 2), max_tokens=80, top_p=top_p)
    found = write_answers(*one, prompts, writing)
    monkeypatch.setattr(importlib.import_module("splitstep.kernels.gumbel"), "kernel", lambda kind: None)
    assert write_answers(*one, prompts, writing) == found

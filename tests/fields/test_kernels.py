"""One contract for all kernels: they are their formulas, their checks notice others, and formulas serve elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu import TRITON, interpret
from kernel_cases import CASES

from splitstep.kernels.fusing import FastKernel

names = pytest.mark.parametrize("name", CASES)


@TRITON
@names
def test_in_the_interpreter_of_triton_a_kernel_is_its_formula(name: str) -> None:
    interpret(f"from kernel_cases import in_interpreter; in_interpreter({name!r})")


@names
def test_the_check_notices_kernels_that_differ(name: str) -> None:
    case = CASES[name]
    with torch.inference_mode():
        case.kernel.check(case.right, "cpu")
    for wrong in case.wrong:
        with pytest.raises(AssertionError, match=r"not close|not equal"):
            case.kernel.check(wrong, "cpu")


@names
def test_other_devices_have_no_kernel(name: str) -> None:
    assert CASES[name].kernel("cpu") is None
    if not torch.cuda.is_available():
        assert CASES[name].kernel("cuda") is None


def test_a_kernel_that_fails_is_reported_and_one_that_is_missing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(kind: str, path: str = "fusing:plain", wrong: Exception | None = None) -> Any:
        def check(function: Any, kind: str) -> None:
            if wrong is not None:
                raise wrong

        return FastKernel[Any]("dropout", path, check)(kind)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert found("cuda") is FastKernel[Any]("", "fusing", found).load().plain
    assert found("cpu") is None
    assert found("cuda", "no_such_module:multiply") is None
    for how in ({"path": "fusing:nothing"}, {"wrong": OSError("no compiler\nand more")}):
        with pytest.warns(
            UserWarning, match="^dropout runs without its kernel, which fails: .*(nothing'|no compiler)$"
        ):
            assert found("cuda", **how) is None

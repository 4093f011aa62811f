"""The mask that one kernel makes is the mask of the formula, entry by entry."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess

import pytest
import torch
from torch.cuda.jiterator import _CodeParser

from splitstep.operators import dropout as dropped
from splitstep.operators.dropout import CODE, _floor, _offset, keep, kernel, weights

CASES = [(0, 0, 0.1), (1, 5, 0.3), (2**31 - 2, 41, 0.5), (123456789, 3, 0.9)]
LOOP = """
extern "C" void fill(int *out, int n, int seed, int offset, int floor, int kept) {
  for (int i = 0; i < n; ++i) out[i] = weight<int>(i, seed, offset, floor, kept);
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("kernel")
    source, library = folder / "weight.cpp", folder / "weight.so"
    source.write_text(CODE + LOOP)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(("seed", "salt", "p"), CASES)
def test_the_code_of_the_kernel_is_the_formula(compiled: ctypes.CDLL, seed: int, salt: int, p: float) -> None:
    n = 10_000
    out = torch.empty(n, dtype=torch.int32)
    [kept] = struct.unpack("i", struct.pack("f", 1 / (1 - p)))
    compiled.fill(ctypes.c_void_p(out.data_ptr()), n, seed, _offset(salt), _floor(p), kept)
    expected = weights(torch.empty(n), p, torch.tensor(seed), salt)
    assert torch.equal(out.view(torch.float32), expected)
    assert abs(float((expected > 0).float().mean()) - (1 - p)) < 0.02


def test_the_kernel_is_found_under_its_name() -> None:
    assert _CodeParser(CODE).function_name == "weight"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_mask_does_not_depend_on_the_type_of_its_seed(dtype: torch.dtype) -> None:
    x = torch.ones(7, 9, dtype=dtype)
    found = [dropped(x, 0.3, torch.tensor(5, dtype=kind), 2) for kind in (torch.int32, torch.int64)]
    assert torch.equal(*found)
    assert torch.equal(found[0], keep(torch.tensor(5), 2, (7, 9), 0.3).to(dtype) * (1 / 0.7))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_gpu_makes_the_masks_of_the_formula_in_one_kernel(dtype: torch.dtype) -> None:
    assert kernel() is not None
    for seed, salt, p in CASES:
        there = torch.tensor(seed, device="cuda")
        x = torch.randn(3, 5, 70, device="cuda", dtype=dtype, requires_grad=True)
        y = dropped(x, p, there, salt)
        mask = keep(there, salt, x.shape, p).to(dtype) * (1 / (1 - p))
        assert torch.equal(y, x * mask)
        assert torch.equal(mask.cpu(), weights(x.detach().cpu(), p, torch.tensor(seed), salt))
        [slope] = torch.autograd.grad(y.sum(), x)
        assert torch.equal(slope, mask)


def test_only_the_formula_is_compiled() -> None:
    x, seed = torch.randn(4, 6), torch.tensor(3)
    compiled = torch.compile(lambda x, seed: dropped(x, 0.2, seed, 1), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, seed), dropped(x, 0.2, seed, 1))

"""Files of tensors are what safetensors reads, and any rows can be read from any cut."""

from itertools import pairwise
from pathlib import Path
from zlib import crc32

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from splitstep.training.checkpoint import NAMES, checksum_of, rows_of, whole_shape, write_tensors
from splitstep.training.weights import LocalShard


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    """Every type, scalars, nothing at all, tensors that are not contiguous, odd sizes before wide types."""
    torch.manual_seed(0)
    tensors = {f"odd {i} {name}": torch.randn(3, 5).mul(9).to(kind) for i, (kind, name) in enumerate(NAMES.items())}
    tensors |= {"scalar": torch.tensor(2.5), "none": torch.empty(0, 4), "é": torch.randn(4, 6).T}
    checksum = write_tensors(tmp_path / "x.safetensors", tensors)
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, x in tensors.items():
        assert found[name].dtype == x.dtype
        assert torch.equal(found[name], x), name
    assert checksum == checksum_of(tmp_path / "x.safetensors") == crc32((tmp_path / "x.safetensors").read_bytes())


def cut(x: Tensor, ends: list[int]) -> list[tuple[int, Tensor]]:
    edges = [0, *sorted(ends), len(x)]
    return [(a, x[a:b]) for a, b in pairwise(edges)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 9), data=st.data())
def test_any_rows_are_read_from_any_cut(rows: int, data: st.DataObject, tmp_path: Path) -> None:
    """Against slices of the whole tensor."""
    whole = torch.arange(rows * 6.0).view(rows, 2, 3)
    index = st.integers(0, rows)
    parts = cut(whole, data.draw(st.lists(index, max_size=3)))
    found = []
    for number, (start, part) in enumerate(parts):
        write_tensors(tmp_path / f"{number}.safetensors", {"x": part})
        found += rows_of(tmp_path / f"{number}.safetensors", {"x": start})
    assert whole_shape(found) == [rows, 2, 3]
    for begin, wanted in cut(whole, data.draw(st.lists(index, max_size=3))):
        target = LocalShard(torch.full_like(wanted, -1), begin, whole.shape, True)
        for one in found:
            one.copy_to(target)
        assert torch.equal(target.local, wanted)

"""The batches of a translation task against a brute-force version: the same pairs in the same order, padded by hand."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from splitstep.tasks import task
from splitstep.tasks.batching import ORDER, ROWS, generator, rows_of
from splitstep.training import TrainOptions
from splitstep.training.objective import dropout_seed, prefetched, work_for
from splitstep.training.processes import Processes

SIZE, STEPS = 96, 40


def made() -> Any:
    return task("numbers", {"train": 3000, "valid": 20, "test": 20, "merges": 60, "buckets": [10, 12, 14, 20]})


def brute_force(data: Any, seed: int) -> Iterator[tuple[list[list[int]], list[list[int]], int]]:
    """Rows of source and target tokens, and their padded width, batch by batch, by walking from the first one."""
    pairs = data.prepared.pairs["train"]
    sides = [
        [side.tokens[a:b].tolist() for a, b in zip(side.offsets[:-1], side.offsets[1:], strict=True)] for side in pairs
    ]
    widths = data.batching.trained
    members = [[] for _ in widths]
    for row, both in enumerate(zip(*sides, strict=True)):
        members[next(b for b, width in enumerate(widths) if max(map(len, both)) <= width)].append(row)

    def stream(bucket: int) -> Iterator[int]:
        epoch = 0
        while True:
            yield from (
                members[bucket][i] for i in generator(seed, epoch, ROWS, bucket).permutation(len(members[bucket]))
            )
            epoch += 1

    streams, many, epoch = [stream(b) for b in range(len(widths))], [rows_of(SIZE, width) for width in widths], 0
    while True:
        batches = [(epoch + 1) * len(m) // r - epoch * len(m) // r for m, r in zip(members, many, strict=True)]
        for bucket in generator(seed, epoch, ORDER).permutation(np.repeat(np.arange(len(widths)), batches)):
            rows = list(islice(streams[bucket], many[bucket]))
            yield [sides[0][row] for row in rows], [sides[1][row] for row in rows], widths[bucket]
        epoch += 1


def test_batches_are_those_of_a_walk_from_the_first() -> None:
    seed, data = 7, made()
    options, alone = TrainOptions(steps=STEPS, batch=SIZE, seed=seed), Processes(0, 1, torch.device("cpu"))
    shapes = set()
    with prefetched(lambda step: work_for(data, options, step, alone), 0, STEPS) as works:
        for step, (work, (source, target, width)) in enumerate(zip(works, brute_force(data, seed), strict=False)):
            [part] = work.parts
            expected = {
                "input_ids": [row + [0] * (width - len(row)) for row in source],
                "attention_mask": [[1] * len(row) + [0] * (width - len(row)) for row in source],
                "labels": [row + [-100] * (width - len(row)) for row in target],
            }
            assert {name: x.tolist() for name, x in part.items()} == expected
            assert all(x.dtype == torch.int64 for x in part.values())
            assert work.items.item() == work.tokens == sum(map(len, target))
            assert torch.equal(work.seeds[0], dropout_seed(seed, step, 0, 0))
            shapes.add(work.shape)
    assert len(shapes) >= 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_for_a_gpu_are_the_same_in_pinned_memory() -> None:
    data, options = made(), TrainOptions(steps=STEPS, batch=SIZE)
    for step in range(5):
        here, there = (work_for(data, options, step, Processes(0, 1, torch.device(kind))) for kind in ("cpu", "cuda"))
        for one, two in zip(here.tensors(), there.tensors(), strict=True):
            assert two.is_pinned()
            assert torch.equal(one, two)

"""Records of inspections with figures that are typed in, for tests of what is said about them."""

from typing import Any

import torch
from torch import Tensor

from splitstep.probes.watching import watch_texts
from splitstep.studies.inspect.cuts import Passed
from splitstep.studies.inspect.own_probes import Sizes
from splitstep.studies.inspect.result import Along, Inspection, ModelFindings, Series
from splitstep.support.provenance import Provenance, made_by_study


def findings(layers: int = 4, width: int = 100, **more: Any) -> ModelFindings:
    """What was found in a model: nothing but what is given."""
    empty = dict.fromkeys(("losses", "series", "matrices", "spectra", "paths", "skipped", "missing"), ())
    fixed = {"model": "mine", "scheme": "A F", "stack": "stack", "parameters": 1, "random": False, "notes": ()}
    return ModelFindings(layers=layers, width=width, **{**fixed, **empty, **more})


def inspected(model: ModelFindings, other: ModelFindings | None = None, texts: int = 4) -> Inspection:
    """A result of this model and another one."""
    made: Provenance = made_by_study()
    return Inspection(
        model=model, other=other, seed=None, texts=texts, tokens=12, source="tests", probes=(), differentiated=0,
        listed=tuple(range(model.layers)), made=made,
    )  # fmt: skip


def series(probe: str, name: str, along: Along, rows: Any) -> Series:
    """A series with a row of figures for each text."""
    n = len(rows[0])
    return Series(probe, name, along, tuple(range(n)), tuple(map(float, range(n))), tuple(map(tuple, rows)))


def shares_of(passed: Passed) -> Tensor:
    """The shares of coordinates [texts, 2, L + 1, width] of a batch."""
    probes = {"sizes": {i: Sizes() for i in range(len(passed.inputs["input_ids"]))}}
    [(_, found)] = watch_texts(passed.flow, passed.inputs, probes)
    return torch.stack([torch.as_tensor(one["shares"]) for one in found.values()])

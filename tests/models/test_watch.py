"""What a pass returns is freed with it: the states and attention weights that were asked for, and their graph."""

from __future__ import annotations

import gc
import weakref

import pytest
from tiny import inputs, tiny

from splitstep.models import KINDS


@pytest.mark.parametrize("wanted", ["output_hidden_states", "output_attentions"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_what_was_asked_for_is_freed_without_the_garbage_collector(kind: str, wanted: str) -> None:
    model = tiny(kind)
    gc.collect()
    gc.disable()
    try:
        output = model(**inputs(kind), **{wanted: True})
        found = [x for name, kept in output.items() if name.endswith(wanted.removeprefix("output_")) for x in kept]
        assert found
        alive = [weakref.ref(x) for x in found]
        assert all(x.grad_fn is not None for x in found)
        del output, found
        assert not [one for one in alive if one() is not None]
    finally:
        gc.enable()

"""Garbage waits where it must not be collected."""

import gc

import pytest

from splitstep.support.memory import no_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_inside(enabled: bool) -> None:
    """A collector that was off stays off."""
    usual = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with no_collection():
            inside = gc.isenabled()
        assert (inside, gc.isenabled()) == (False, enabled)
    finally:
        (gc.enable if usual else gc.disable)()

"""The meter counts a process that its parent did not wait for."""

import sys

import meter
import pytest

ORPHAN = """
import os, time
end, held = os.pipe()
if os.fork() == 0:
    os.setsid()
    while time.process_time() < .3: pass
    os._exit(0)
os.close(held)
os.read(end, 1)  # returns as soon as the child has ended
os._exit(3)
"""


def test_orphans_are_counted() -> None:
    code, seconds, how = meter.metered([sys.executable, "-c", ORPHAN])
    assert code == 3
    if how != "cgroup":
        pytest.skip(how)
    assert seconds > 0.28

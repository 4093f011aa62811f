"""The meter counts a process that its parent did not wait for."""

import sys

import meter
import pytest

ORPHAN = """
import os, time
if os.fork() == 0:
    os.setsid()
    while time.process_time() < .5: pass
    os._exit(0)
time.sleep(1.2)
os._exit(3)
"""


def test_orphans_are_counted() -> None:
    code, seconds, how = meter.metered([sys.executable, "-c", ORPHAN])
    assert code == 3
    if how != "cgroup":
        pytest.skip(how)
    assert seconds > 0.45

"""The processor time of a command with all its descendants, also those that outlive their parents.

    python tests/helpers/meter.py python -m pytest tests/models

`time` misses the children of fork servers and other processes that nobody waits for. A cgroup counts them.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

ROOT = Path("/sys/fs/cgroup")
PARENTS = (ROOT / "cpuacct", ROOT / "cpu,cpuacct", ROOT)  # version 1, and version 2 at last


def seconds_in(group: Path) -> float:
    """The processor seconds that a cgroup has counted, by either version's file."""
    if (group / "cpuacct.usage").exists():
        return int((group / "cpuacct.usage").read_text()) / 1e9
    entries = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(entries["usage_usec"]) / 1e6


def new_group() -> Path | None:
    """A cgroup that counts processor time, or None where none can be made."""
    for parent in PARENTS:
        group = parent / f"meter-{os.getpid()}"
        try:
            group.mkdir()
            seconds_in(group)
            return group
        except (OSError, KeyError):
            continue
    return None


def metered(words: Sequence[str]) -> tuple[int, float, str]:
    """Run a command: its exit code, its processor seconds, and how they were counted."""
    group = new_group()
    if group is None:
        code = subprocess.run(words).returncode
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return code, used.ru_utime + used.ru_stime, "resource usage: no cgroup can be made, orphans are missing"
    join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
    code = subprocess.run(words, preexec_fn=join).returncode
    seconds = seconds_in(group)
    try:
        group.rmdir()
    except OSError:
        print(f"meter: processes are left in {group}", file=sys.stderr)
    return code, seconds, "cgroup"


if __name__ == "__main__":
    begun = perf_counter()
    code, seconds, how = metered(sys.argv[1:])
    clock = f"{perf_counter() - begun:.1f} s by the clock"
    print(f"meter: {seconds:.1f} processor seconds, {clock} ({how})", file=sys.stderr)
    sys.exit(code)

"""What befalls a command: a full disk, an end at any moment, a folder that cannot be written, a second command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from children import MOMENT, SERVER, count_and_kill
from safetensors.torch import load_file

OUT = Path("out")  # of every command, in the folder where it runs
OWN = {*MOMENT, "command", "tokens_per_second", "folders"}  # what may differ between two equal runs
LIMIT = 200  # seconds that a command may take on a machine with other work


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None
    told: list[str]  # on standard error
    operations: int  # on files below OUT
    seconds: float  # of processor time


class Command:
    """`splitstep` with these words in a folder, in a process of its own that has imported everything; its studies run
    there too. It gets a signal right before the file operation `at`."""

    def __init__(
        self, words: list[str], folder: Path, notes: Path, at: int = 0, number: int = signal.SIGKILL, lines: str = ""
    ) -> None:
        notes.mkdir(parents=True, exist_ok=True)
        self.notes = notes
        (notes / "stdin").write_text(lines)
        self.process = SERVER.Process(target=command, args=(words, folder, notes, at, number))
        self.process.start()

    def ended(self) -> Ended:
        self.process.join(LIMIT)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError(f"it still runs: {(self.notes / 'stderr').read_text()[-2000:]}")
        counts = self.notes / "counts"
        operations, seconds = json.loads(counts.read_text()) if counts.exists() else (0, 0.0)
        told = (self.notes / "stderr").read_text(errors="replace").splitlines()
        return Ended(self.process.exitcode, told, operations, seconds)


def command(words: list[str], folder: Path, notes: Path, at: int, number: int) -> None:
    from inline import here

    from splitstep.__main__ import main
    from splitstep.experiments import running

    os.setsid()
    os.chdir(folder)
    os.environ["SPLITSTEP_CACHE"] = str(folder.parent / "cache")
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(notes / name, os.O_RDWR | os.O_CREAT), place)
    sys.stdin = open(0)  # noqa: SIM115
    running.open_engine = here
    counter, begin = count_and_kill(OUT, at, number), time.process_time()
    sys.argv = ["splitstep", *words]
    code = main()
    (notes / "counts").write_text(json.dumps([counter[0], time.process_time() - begin]))
    sys.exit(code)


def mounted(disk: Path, options: str) -> None:
    """Mount memory as a disk; a test that may not is skipped."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("only root can mount a small disk")


@contextmanager
def small_disk(disk: Path, options: str) -> Iterator[Path]:
    """A disk with these options of mount, such as size=64k or ro."""
    disk.mkdir()
    mounted(disk, options)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes what room is left."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        room = os.statvfs(disk)
        file.write(bytes(room.f_bavail * room.f_frsize))
    return ballast


def bytes_of(folder: Path) -> int:
    """The room that files take on a disk; in memory folders take none."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def left_by(out: Path) -> dict[str, Any]:
    """What a command leaves, without times and checkpoints: figures, weights, and the names of other files."""
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and "checkpoints" not in p.parts]
    timed = "plan.json"  # how long runs take here
    return {str(p.relative_to(out)): content(p) for p in files if not p.name.startswith(".lock-") and p.name != timed}


def content(file: Path) -> Any:
    if file.suffix == ".json":
        return lasting(json.loads(file.read_text()))
    if file.suffix == ".jsonl":
        return [lasting(json.loads(line)) for line in file.read_text().splitlines()]
    if file.suffix == ".safetensors":
        return {name: (x.shape, x.numpy().tobytes()) for name, x in load_file(file).items()}
    return None


def lasting(value: Any) -> Any:
    """The value without what differs between two equal runs."""
    if isinstance(value, Mapping):
        return {key: lasting(one) for key, one in value.items() if key not in OWN}
    return [lasting(one) for one in value] if isinstance(value, list) else value


def kept_results(out: Path) -> dict[Path, int]:
    """When the results of finished runs were written."""
    return {file: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")}

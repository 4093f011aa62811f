"""How long `splitstep translate` takes on a CPU: to its first word, and for the lines of a file.

    splitstep train multi30k-en-de --out runs/m30k
    python benchmarks/translate_start.py runs/m30k --lines captions.en --out results/translate_start.json

Each call is a new process with its default number of threads. "First word" is the time to the first byte of the
translation of one short line, which includes all imports, loading the model and that translation; "lines" is the time
of the whole command on the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.training.directory import RunDirectory

FIRST_BAR, LINES_BAR = 5.0, 30.0  # seconds, the second for a hundred lines of Multi30k on two cores


def seconds(run: Path, text: bytes) -> tuple[float, float]:
    """One call: until the first byte, and until its end."""
    begun = time.perf_counter()
    words = [sys.executable, "-m", "splitstep", "translate", str(run)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdout.read(1)
        first = time.perf_counter() - begun
        process.stdout.read()
    if process.returncode:
        raise SystemExit(f"Error: `splitstep translate {run}` failed: try it by hand.")
    return first, time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="a finished run of a translation recipe")
    parser.add_argument("--lines", type=Path, required=True, metavar="FILE", help="a text; its first 100 lines count")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    result = RunDirectory(options.run).result()
    if result is None:
        print(f"Error: {options.run} is not a finished run.", file=sys.stderr)
        return 2
    lines = options.lines.read_bytes().splitlines(keepends=True)[:100]
    seconds(options.run, lines[0])  # not timed: reads files from the disk
    first = [seconds(options.run, b"A man sleeps.\n")[0] for _ in range(options.times)]
    whole = [seconds(options.run, b"".join(lines))[1] for _ in range(options.times)]
    for name, found, bar in (("first word", first, FIRST_BAR), (f"{len(lines)} lines", whole, LINES_BAR)):
        print(f"{name:<12} median {median(found):5.2f} s, least {min(found):5.2f}, most {max(found):5.2f}; bar {bar}")
    document = {
        "command": f"python benchmarks/translate_start.py {options.run} --lines {options.lines.name} "
        f"--times {options.times}",
        "first_word_seconds": [round(x, 3) for x in first],
        "lines": len(lines),
        "lines_seconds": [round(x, 3) for x in whole],
        "shape": result["shape"],
        "task": result["task"],
        "trained_steps": result["steps"],
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        **stamp(),
    }
    write_atomically(options.out, json.dumps(document, indent=1) + "\n")
    return 0 if median(first) < FIRST_BAR and median(whole) < LINES_BAR else 1


if __name__ == "__main__":
    sys.exit(main())

"""Whether `splitstep compare --minutes 10` takes ten minutes: the shell's command on texts of three sizes, and the time
left that it tells on the way.

    python benchmarks/compare_minutes.py --size 1000000 --out results/compare/minutes.json

The texts are this Python's library. One size at a time; what the file has of others stays. Nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from splitstep.support.provenance import stamp

SIZES = (50_000, 1_000_000, 20_000_000)
LEFT = re.compile(r"^compare .*  ([\d,]+) s left$")  # of the runs themselves


def write_text(file: Path, size: int) -> None:
    """So many bytes of the library, its tests included."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts]
    content = b"".join(path.read_bytes() for path in files)
    if len(content) < size:
        raise SystemExit(f"The library of this Python has {len(content):,} bytes only.")
    file.write_bytes(content[:size])


def measured(size: int, minutes: float) -> dict[str, Any]:
    """The command on a text of this size: how long it took and should have taken, and the time left by its own word,
    each with the seconds since it began."""
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder, "text.txt"), size)
        words = ["compare", "--text", "text.txt", "--arms", "lie,macaron", "--minutes", f"{minutes:g}"]
        words += ["--engine", "local=2", "--out", "out"]
        begun, left, told = time.monotonic(), list[tuple[float, float]](), list[str]()
        command = [sys.executable, "-m", "splitstep", *words]
        with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            for line in run.stderr or ():
                told.append(line.rstrip())
                if found := LEFT.match(line.rstrip()):
                    left.append((round(time.monotonic() - begun, 1), float(found[1].replace(",", ""))))
        if run.returncode:
            raise SystemExit("\n".join(told))
        seconds, plan = time.monotonic() - begun, json.loads(Path(folder, "out", "plan.json").read_text())
    kept = {name: plan[name] for name in ("runs", "steps", "seeds", "text", "seconds")}
    said = [line for line in told if " seeds detect " in line or "used up" in line]
    return {"size": size, "minutes": minutes, "wall": round(seconds, 1), "plan": kept, "said": said, "left": left}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, required=True, help=f"bytes of the text: {', '.join(map(str, SIZES))}")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("results/compare/minutes.json"))
    given = parser.parse_args()
    before = json.loads(given.out.read_text())["texts"] if given.out.exists() else []
    texts = [one for one in before if one["size"] != given.size] + [measured(given.size, given.minutes) | stamp()]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"texts": sorted(texts, key=lambda one: one["size"])}
    given.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""From a spreadsheet of 2,000 lines to predictions: seconds of wall clock and of the processor, in new processes.

    python benchmarks/own_csv.py --out results/own_csv

The lines are reviews put together from the generated verdicts of the task `classify`, five with the same label each.
The load of the machine is recorded, too: on a busy one the wall clock says little.
"""

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from splitstep.support.provenance import stamp
from splitstep.tasks.classify import TURNING, verdicts

LINES, EACH = 2_000, 5


def reviews(lines: int) -> list[tuple[str, str]]:
    """Reviews of five verdicts with one label, without negations."""
    chance, found = random.Random(0), []
    known = [(text, label) for text, label in verdicts() if not TURNING & set(text.split())]
    for number in range(lines):
        label = ("positive", "negative")[number % 2]
        chosen = chance.sample([text for text, its in known if its == label], EACH)
        found.append((", and ".join(chosen), label))
    return found


def timed(words: list[str], given: str, folder: Path) -> tuple[dict[str, float], str]:
    """Seconds of a command, and what it printed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "SPLITSTEP_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "splitstep", *words]
    done = subprocess.run(command, input=given, text=True, check=True, stdout=subprocess.PIPE, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - begun, 1), "processor_seconds": round(used, 1)}, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    rows, loads = reviews(LINES), [os.getloadavg()[0]]
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("review", "label"), *rows])
        run = str(folder / "run")
        trained, printed = timed(
            ["train", "classify", f"data.train={folder / 'reviews.csv'}", "--out", run, "--json"], "", folder
        )
        predicted, lines = timed(["predict", run], "".join(f"{text}\n" for text, _ in rows), folder)
    loads.append(os.getloadavg()[0])
    correct = sum(line.split("\t")[0] == label for line, (_, label) in zip(lines.splitlines(), rows, strict=True))
    document = {
        "lines": LINES, "train": trained, "predict_all_lines": predicted, "test": json.loads(printed)["test"],
        "correct_of_all": correct, "threads": torch.get_num_threads(), "cores": os.cpu_count(), "load": loads,
        **stamp(),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

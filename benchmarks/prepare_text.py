"""How fast text becomes rows of tokens, and in how much memory.

    python benchmarks/prepare_text.py --megabytes 100 --out results/prepare_text      # text made here, of this size
    python benchmarks/prepare_text.py --text FOLDER --out results/prepare_text        # your own
    python benchmarks/prepare_text.py --next-sentence --out results/prepare_pairs     # as pairs of texts

Everything is done that a first run on a text does: hashes, counts, subwords, rows. The bar is 1 GB in 15 minutes and 2
GiB on two cores: 1.11 MB/s. Memory is the highest of the process, with Python and its packages. On a machine that does
other things as well, look at the processor time: two cores that do nothing else have 1.8 s for a megabyte.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from splitstep.support.provenance import stamp
from splitstep.tasks.masked.mlm import MlmOptions, prepare_text

BAR_SPEED, BAR_MEMORY = 1000 / (15 * 60), 2 << 30  # MB/s, bytes
WORDS = 200_000
TEXTS = 64  # files


def write_text(folder: Path, megabytes: float) -> None:
    """Files of words whose frequencies fall as those of English do, in lines of ten sentences of 20 words."""
    random = np.random.default_rng(0)
    letters, sizes = np.array(list("etaoinshrdlcumwfgypbvk")), 2 + random.poisson(4, WORDS)
    words = np.array(["".join(random.choice(letters, size)) for size in sizes])
    chances = 1 / np.arange(10, WORDS + 10)
    chances /= chances.sum()
    for number in range(TEXTS):
        with (folder / f"{number:02}.txt").open("w") as file:
            while file.tell() < megabytes * 1e6 / TEXTS:
                chosen = random.choice(words, (20, 10, 20), p=chances)
                lines = (" ".join(f"{' '.join(sentence)}." for sentence in line) for line in chosen)
                file.write("\n".join(lines) + "\n")


def measure(text: Path, options: MlmOptions) -> dict[str, Any]:
    """One preparation with an empty cache."""
    size = (
        sum(file.stat().st_size for file in text.rglob("*") if file.is_file()) if text.is_dir() else text.stat().st_size
    )
    before = resource.getrusage(resource.RUSAGE_SELF)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SPLITSTEP_CACHE"] = cache
        begun = time.monotonic()
        found = prepare_text(replace(options, train=(str(text),)))
        seconds = time.monotonic() - begun
        manifest = found.manifest
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "bytes": size, "documents": manifest["documents"], "splits": manifest["splits"],
        "vocab_size": options.vocab_size, "next_sentence": options.next_sentence,
        "seconds": seconds, "megabytes_per_second": size / 1e6 / seconds, "cpu_seconds": cpu,
        "cpu_seconds_per_megabyte": cpu / (size / 1e6), "cores_used": cpu / seconds,
        "memory": used.ru_maxrss << 10, "cores": os.cpu_count(), "load_at_the_end": os.getloadavg()[0],
        "bars": {"megabytes_per_second": BAR_SPEED, "memory": BAR_MEMORY},
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a file or a folder; by default text is made")
    parser.add_argument("--documents", choices=("file", "blank", "line"), default="file")
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--next-sentence", action="store_true", help="prepare pairs of texts")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    options = MlmOptions(documents=given.documents, vocab_size=given.vocab_size, next_sentence=given.next_sentence)
    with tempfile.TemporaryDirectory() as folder:
        if given.text is None:
            write_text(Path(folder), given.megabytes)
        result = measure(given.text or Path(folder), options)
    made = "made here" if given.text is None else given.text.name
    document = {"text": made, **result, "machine": platform.machine(), **stamp()}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "result.json").write_text(json.dumps(document, indent=2) + "\n")
    speed, memory = result["megabytes_per_second"], result["memory"]
    print(f"{speed:.2f} MB/s (bar {BAR_SPEED:.2f}), {memory / 2**20:,.0f} MiB (bar {BAR_MEMORY >> 20:,})")
    print(
        f"{result['cpu_seconds_per_megabyte']:.2f} s of processor time for a megabyte, {result['cores_used']:.1f} cores"
    )
    return 0 if speed >= BAR_SPEED and memory <= BAR_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())

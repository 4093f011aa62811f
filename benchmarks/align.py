"""How long a million characters take to align: two tokenizers, their bytes, spans, words and phrases.

    python benchmarks/align.py --out results/align

The text is made up, in six scripts, with words as frequent as Zipf's law has them. The tokenizers, a byte-level BPE and
a lower-cased WordPiece, are learnt from its beginning. What they need themselves is timed apart. Each figure is the
least of three; the load of the machine is recorded, too.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from splitstep.support.provenance import stamp
from splitstep.text.alignment import align, phrases, tokens_of, words
from splitstep.text.pieces import pieces_of
from splitstep.text.subwords import learn_bpe, learn_wordpiece
from splitstep.text.token_bytes import encode, placed, token_bytes, utf8

CHARACTERS, REPEATS, WORDS, VOCABULARY = 1_000_000, 3, 20_000, 8_000
SCRIPTS = [(0x61, 0x7A), (0x430, 0x44F), (0x627, 0x63A), (0x905, 0x939), (0x4E00, 0x5000), (0xAC00, 0xAD00)]
ENDS = [" "] * 8 + [", ", ".\n"]


def made_up_text(characters: int) -> str:
    """Words of random letters, each in one script, by Zipf's law."""
    chance = random.Random(0)
    known = ["".join(chr(chance.randint(*SCRIPTS[n % 6])) for _ in range(chance.randint(1, 9))) for n in range(WORDS)]
    chosen = chance.choices(known, [1 / (rank + 1) for rank in range(WORDS)], k=characters)
    return "".join(word + chance.choice(ENDS) for word in chosen)[:characters]


def seconds(work: Callable[[], Any]) -> dict[str, float]:
    """The least wall clock of several runs, and the least time of the processor."""
    found = []
    for _ in range(REPEATS):
        begun, used = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - begun, time.process_time() - used))
    wall, processor = (round(min(column), 3) for column in zip(*found, strict=True))
    return {"wall": wall, "processor": processor}


def measured(text: str) -> dict[str, Any]:
    lines = text[:100_000].splitlines()
    tokenizers = learn_bpe(lines, VOCABULARY), learn_wordpiece(lines, VOCABULARY)
    raw, units = utf8(text), words(text)
    known = [(encode(side, text, True), pieces_of(side)) for side in tokenizers]
    teacher, student = (token_bytes(side, text) for side in tokenizers)
    work: dict[str, Callable[[], Any]] = {
        "tokenizers_alone": lambda: [encode(side, text, True) for side in tokenizers],
        "bytes_of_tokens": lambda: [placed(text, raw, encoded, pieces) for encoded, pieces in known],
        "spans": lambda: align(teacher, student),
        "words": lambda: words(text),
        "phrases": lambda: phrases(text),
        "tokens_of_words": lambda: tokens_of(units, teacher),
    }
    return {
        "characters": len(text),
        "bytes": len(raw),
        "teacher_tokens": len(teacher.ids),
        "student_tokens": len(student.ids),
        "spans": len(align(teacher, student)),
        "words": len(units),
        "seconds": {name: seconds(part) for name, part in work.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    load = os.getloadavg()[0]
    found = {**measured(made_up_text(CHARACTERS)), "load": [load, os.getloadavg()[0]], **stamp()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

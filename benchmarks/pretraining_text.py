"""The text of the runs in docs/results/pretrain.md, as JSON lines with one document each, and of distil.md beside it.

    python benchmarks/pretraining_text.py DATA OUT

DATA holds enwik8/enwik8.gz, europarl-de-en/train.en.xz and wikitext-2/train*.txt.xz. OUT gets enwik8.jsonl (cleaned by
the rules of `splitstep.text.wiki_text`), europarl.jsonl (the first 250,000 lines, each a document of its own,
for the lines are shuffled), wikitext2.jsonl (the articles of the training set) and enwik8.txt (the articles of
enwik8.jsonl, with a blank line between them).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from splitstep.support.files import whole_file
from splitstep.text.documents import lines_of
from splitstep.text.wiki_text import main as write_articles

SPEECHES = 250_000
TITLE = re.compile(r" = [^=].* = \n")


def wikitext_articles(file: Path) -> Iterator[str]:
    """The articles of a file of WikiText, each with its title."""
    lines: list[str] = []
    for line in lines_of(file):
        if TITLE.fullmatch(line) and lines:
            yield "".join(lines).strip()
            lines = []
        lines.append(line)
    yield "".join(lines).strip()


def write(file: Path, texts: Iterable[str]) -> None:
    documents = characters = 0
    with whole_file(file) as out:
        for text in filter(None, texts):
            out.write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n")
            documents, characters = documents + 1, characters + len(text)
    print(f"{file.name}: {documents:,} documents, {characters:,} characters")


def write_plain(articles: Path, file: Path) -> None:
    """The texts of JSON lines, with a blank line between them."""
    with whole_file(file) as out:
        for line in lines_of(articles):
            out.write(json.loads(line)["text"].encode() + b"\n\n")


def main(data: str, out: str) -> None:
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    speeches = islice(lines_of(Path(data, "europarl-de-en", "train.en.xz")), SPEECHES)
    write(folder / "europarl.jsonl", (line.strip() for line in speeches))
    write_articles(Path(data, "enwik8", "enwik8.gz"), folder / "enwik8.jsonl")
    write_plain(folder / "enwik8.jsonl", folder / "enwik8.txt")
    (train,) = Path(data, "wikitext-2").glob("train*.txt.xz")
    write(folder / "wikitext2.jsonl", wikitext_articles(train))


if __name__ == "__main__":
    main(*sys.argv[1:])

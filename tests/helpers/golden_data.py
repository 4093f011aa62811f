"""Made-up files for tasks that read the user's own, and the options with which tasks are frozen."""

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import made_up_glue
import numpy as np
from distil_pairs import bpe, instructions
from PIL import Image

Options = tuple[str, dict[str, object]]
WORDS = {
    "de": "der die das ein Haus Hund Mann geht läuft sieht schnell heute nicht und aber Straße grün .",
    "en": "the a this one house dog man goes runs sees fast today not and but street green .",
    "none": " ".join(
        first + middle + last
        for first in ("ba", "ki", "tro", "gla", "mu", "ste", "fo", "wy")
        for middle in ("len", "mu", "sar", "vi", "po", "ket")
        for last in ("dor", "e", "n", "sh", "lia", "xt")
    ),
}
GLUE = ("cola", "sst2", "mrpc", "rte", "wnli", "stsb", "mnli", "qqp", "qnli")
TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

OWN: dict[str, Options] = {
    "digits": ("digits", {}),
    "digits shifted": ("digits", {"shift": 1}),
    "listops": ("listops", {"train": 500, "valid": 60, "test": 60}),
    "numbers": ("numbers", {"train": 700, "valid": 40, "test": 40, "highest": 9999}),
    "numbers backwards": ("numbers", {"train": 700, "valid": 40, "test": 40, "highest": 9999, "direction": "de-en"}),
    "stdlib": ("stdlib", {"length": 64, "limit": 100_000}),
    "text bytes": ("text", {"path": ["book.txt"], "length": 32}),
    "text subwords": ("text", {"path": ["book.txt", "more.txt.gz"], "length": 32, "tokens": "bpe", "vocab_size": 300}),
    "classify": ("classify", {}),
    "classify csv": ("classify", {"train": "reviews.csv", "vocab": 300}),
    "classify numbers": (
        "classify",
        {"train": "marks.jsonl", "vocab": 300, "seed": 3, "text": "first", "text2": "second"},
    ),
    "images": ("images", {}),
    "images own": ("images", {"train": "photos"}),
    "mlm docstrings": ("mlm", {"vocab_size": 600, "length": 32, "valid_limit": 3200}),
    "mlm own": ("mlm", {"train": ["book.txt", "more.txt.gz"], "documents": "line", "vocab_size": 300, "length": 32}),
    "mlm pairs": (
        "mlm",
        {"train": ["book.txt"], "vocab_size": 300, "length": 48, "next_sentence": True, "documents": "blank"},
    ),
    "mlm whole words": ("mlm", {"train": ["book.txt"], "vocab_size": 300, "length": 32, "mask": "words"}),
    "mlm bpe": ("mlm", {"train": ["book.txt"], "vocab_size": 300, "length": 32, "subwords": "bpe"}),
    "parallel": ("parallel", {"train": ["own.de", "own.en"], "merges": 60}),
    "instruct": ("instruct", {"path": ["text.jsonl"], "tokenizer": "tokenizer", "template": "Q: {prompt}\nA: "}),
    "instruct plain": ("instruct", {"path": ["notes.txt"], "tokenizer": "tokenizer"}),
    "tatoeba": ("tatoeba", {"held": 20, "merges": 60}),
    "ted": ("ted", {"merges": 60}),
    "europarl": ("europarl", {"held": 40, "merges": 60}),
    "iwslt14": ("iwslt14", {"merges": 60}),
    "wmt14": ("wmt14", {"merges": 60}),
} | {f"glue {name}": ("glue", {"name": name, "vocab": 300}) for name in GLUE}

PUBLISHED: dict[str, Options] = {
    "mnist": ("mnist", {}),
    "newsgroups": ("newsgroups", {"vocab": 2000, "buckets": [128, 512]}),
    "enwik8": ("enwik8", {}),
    "wikitext2": ("wikitext2", {}),
    "wikitext2 bytes": ("wikitext2", {"level": "byte"}),
    "multi30k": ("multi30k", {"merges": 2000}),
    "tatoeba": ("tatoeba", {"merges": 2000, "limit": 30_000}),
    "ted": ("ted", {"merges": 2000}),
    "glue rte": ("glue", {"name": "rte", "vocab": 1000}),
    "glue stsb": ("glue", {"name": "stsb", "vocab": 1000}),
}


def data_folder() -> Path | None:
    """The folder of real data: $SPLITSTEP_DATA, else shared/data beside the checkout, if there is one."""
    given = os.environ.get("SPLITSTEP_DATA")
    beside = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    return next((path for path in ([Path(given)] if given else beside) if path.is_dir()), None)


@contextmanager
def own_data() -> Iterator[Path]:
    """A folder with made-up files, and a cache of its own, until the end of the block. The folder is the working
    directory, so that paths in results do not say where it is."""
    with TemporaryDirectory() as folder:
        root = Path(folder, "data")
        root.mkdir()
        with patch.dict("os.environ", {"SPLITSTEP_CACHE": f"{folder}/cache"}), chdir(root):
            write_texts(root)
            write_pairs(root)
            write_archives(root)
            for name in GLUE:
                made_up_glue.made_up(root, name)
            yield root


def sentences(language: str, count: int, seed: int) -> list[str]:
    """Different sentences of 3 to 12 words."""
    random = np.random.default_rng(seed)
    return [" ".join([*random.choice(WORDS[language].split(), random.integers(3, 12)), str(i)]) for i in range(count)]


def write_texts(root: Path) -> None:
    lines = sentences("none", 600, 1)
    paragraphs = ["".join(f"{line.capitalize()}. " for line in lines[k : k + 5]) for k in range(0, 600, 5)]
    (root / "book.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    (root / "notes.txt").write_text("A line of text that is learnt.\n" * 500, encoding="utf-8")
    (root / "more.txt.gz").write_bytes(gzip.compress("\n".join(sentences("de", 200, 2)).encode(), mtime=0))
    rows = [f'"film {i} was, as they say, {word}",{word}\n' for i in range(20) for word in ("good", "bad")]
    (root / "reviews.csv").write_text("".join(["review,label\n", *rows]), encoding="utf-8")
    marks = [{"first": a, "second": b, "score": i % 7 / 2} for i, (a, b) in enumerate(pairwise(lines))]
    (root / "marks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in marks[:60]), encoding="utf-8")
    instructions(root / "text.jsonl", 40)
    bpe().save_pretrained(root / "tokenizer")
    for name, grey in (("dark", 20), ("light", 200)):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (8, 8), grey + i).save(root / "photos" / name / f"{i}.png")


def write_pairs(root: Path) -> None:
    """Pairs of lines under the names that tasks of translation look for."""
    stems = {"own": 200, "ted-de-en/train": 300, "europarl-de-en/train": 300}
    stems |= {f"iwslt14-de-en-valid-test/{split}": 30 for split in ("valid", "test")}
    stems |= {f"wmt14/{name}.de-en": 80 for name in ("europarl-v7", "commoncrawl", "news-commentary-v12")}
    stems |= {f"wmt14/newstest{year}": 20 for year in (2013, 2014)}
    for number, (stem, count) in enumerate(stems.items()):
        for language in ("de", "en"):
            file = root / f"{stem}.{language}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in sentences(language, count, 10 + number)), encoding="utf-8")


def write_archives(root: Path) -> None:
    """The talks of IWSLT14 as they are published, and the sentences of Tatoeba."""
    pairs = list(zip(sentences("en", 200, 31), sentences("de", 200, 31), strict=True))
    (root / "tatoeba-deu-eng").mkdir()
    rows = [f"{english}\t{german}\tCC-BY {i}\n" for i, (english, german) in enumerate(pairs)]
    (root / "tatoeba-deu-eng" / "deu.txt").write_text("".join(rows), encoding="utf-8")
    (root / "iwslt14").mkdir()
    with (
        gzip.GzipFile(root / "iwslt14" / "de-en.tgz", "wb", mtime=0) as file,
        tarfile.open(fileobj=file, mode="w") as archive,
    ):
        for k, language in enumerate(("en", "de")):
            lines = ["<url>http://x</url>\n", *(f"{pair[k]}\n" for pair in pairs), f"<title>{pairs[0][k]}</title>\n"]
            add(archive, f"de-en/train.tags.de-en.{language}", "".join(lines))
            for talk in TALKS:
                text = "".join(f'<seg id="{i}"> {pair[k]} </seg>\n' for i, pair in enumerate(pairs[:6], 1))
                add(archive, f"de-en/IWSLT14.{talk}.de-en.{language}.xml", text)


def add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, BytesIO(text.encode()))

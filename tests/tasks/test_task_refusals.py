"""What tasks refuse, in one line that says what to type."""

import gzip
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_up_words import sentences

from splitstep.tasks import task

MINI = {"train": 300, "valid": 5, "test": 5}
TWO = {"train": ["short.txt", "short.txt"]}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("digit", {}, 'did you mean "digits"'),
    ("zzz", {}, "the tasks are digits, listops"),
    ("digits", {"pach": 2}, 'did you mean "patch"'),
    ("digits", {"patch": "2"}, "'2', and needs a whole number"),
    ("digits", {"patch": True}, "True, and needs a whole number"),
    ("digits", {"patch": 3}, "does not divide images of 8 pixels"),
    ("digits", {"patch": 0}, "needs at least 1"),
    ("text", {}, "train: notes.txt"),
    ("text", {"path": "no-such-file.txt"}, "no-such-file.txt"),
    ("text", {"path": [3]}, "option train[0] is 3, and needs text"),
    ("text", {"path": "short.txt"}, "too few for windows of 256"),
    ("stdlib", {"stride": 256}, "stride: 128"),
    ("stdlib", {"length": 1}, "needs at least 2"),
    ("stdlib", {"valid_limit": None, "length": None}, "None, and needs a whole number"),
    ("listops", {**MINI, "buckets": [8, 16]}, "add a bucket of at least"),
    ("listops", {"buckets": [32, 16]}, "increasing lengths"),
    ("listops", {"variant": "longest"}, '"short" or "original" or "lra" or "long"'),
    ("mnist", {}, "holds 4 bytes and should hold 47,040,016"),
    ("newsgroups", {}, "20news-bydate.tar.gz (22 bytes) is damaged"),
    ("iwslt14", {}, "de-en.tgz (22 bytes) is damaged"),
    ("classify", {"test": "a.csv"}, "train is not: add data.train=FILE"),
    ("classify", {"train": "nowhere.csv"}, 'there is no file "nowhere.csv"'),
    ("mlm", {"train": "short.txt", "masked": 0.9}, "option masked is 0.9, and needs a share"),
    ("mlm", {"train": "short.txt", "documents": "page"}, 'needs "file" or "blank" or "line"'),
    ("mlm", {"valid": "short.txt"}, "option valid is given without train: add data.train=FILES"),
    ("mlm", {"prepared": "x", "train": "a", "test": "b"}, "and train, test are given, too: leave one or the other out"),
    ("mlm", {"prepared": "x", "valid": "a"}, "option prepared is x, and valid is given, too: leave one or the other"),
    ("parallel", {}, "option train is missing; name the source file and the target file: train: [my.en, my.de]"),
    ("parallel", {"train": "my.en"}, "names 1 file, my.en; it needs two"),
    ("parallel", {"train": ["nowhere.en", "nowhere.de"]}, 'there is no file "nowhere.en"'),
    ("parallel", {**TWO, "direction": "english"}, "needs two languages such as en-de"),
    ("parallel", {**TWO, "buckets": [32, 16]}, "increasing lengths"),
    ("parallel", {**TWO, "beams": 0}, "beams is 0"),
    ("parallel", {**TWO, "length_penalty": math.inf}, "length_penalty is inf"),
    ("tatoeba", {}, "deu-eng.zip is missing. It comes from https://www.manythings.org"),
    ("ted", {}, "train.de is missing"),
    ("europarl", {}, "train.de is missing, also as .gz and .xz. It comes from https://www.statmt.org"),
    ("wmt14", {}, "europarl-v7.de-en.en is missing, also as .gz and .xz. It comes from http://www.statmt.org/wmt13"),
    ("enwik8", {}, "enwik8.zip is missing and could not be fetched from http://127.0.0.1:9"),
    ("wikitext2", {}, "Put the file there by hand (it is published at https://s3.amazonaws.com"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data whose files are not what they should be."""
    found = tmp_path_factory.mktemp("data")
    packed = {
        "mnist/train-images-idx3-ubyte.gz": gzip.compress(b"0123", mtime=0),
        "20newsgroups/20news-bydate.tar.gz": b"no archive, 22 bytes..",
        "iwslt14/de-en.tgz": b"no archive, 22 bytes..",
        "short.txt": b"short",
    }
    for name, content in packed.items():
        (found / name).parent.mkdir(exist_ok=True)
        (found / name).write_bytes(content)
    return found


@pytest.mark.parametrize(("name", "options", "says"), REFUSED)
def test_what_is_wrong_is_one_line_that_says_what_to_type(
    name: str, options: dict[str, Any], says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITSTEP_MIRROR", "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        task(name, options, folder)
    assert "\n" not in str(refused.value)


REVIEWS = [(f"review {i}", ("good", "bad", "so-so")[i % 3]) for i in range(12)]
RIGHT = {"text": "x", "label": "a"}


def table(rows: Sequence[Sequence[object]], header: str = "text,label") -> bytes:
    """Rows as comma-separated values."""
    return "".join(f"{line}\n" for line in (header, *(",".join(map(str, row)) for row in rows))).encode()


def lines(*rows: dict[str, Any]) -> bytes:
    """Rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


LABELLED: list[tuple[dict[str, bytes], dict[str, Any], str]] = [
    ({"train": table(REVIEWS), "test": table([("x", "good"), ("y", "strange")])}, {},
     'test.csv, line 3: the class "strange" is not in the training data'),
    ({"train": table(REVIEWS), "valid": table([("x", "strange")])}, {}, 'valid.csv, line 2: the class "strange"'),
    ({"train": table([("", "a"), ("", "b")] * 10)}, {}, 'train.csv: the column "text" is empty'),
    ({"train": table([*REVIEWS, (" ", "good")])}, {}, "train.csv, line 14: text is empty"),
    ({"train": table([*REVIEWS, ("x", "alone")])}, {}, 'train.csv, line 14: the class "alone" has only this example'),
    ({"train": table([("x", "a")] * 12)}, {}, 'all examples have the label "a"'),
    ({"train": table(REVIEWS[:6])}, {}, "has 6 examples, and at least 10 are needed"),
    ({"train": table(REVIEWS)}, {"text": "txt"}, 'no column "txt" .. did you mean "text"'),
    ({"train": table(REVIEWS)}, {"labels": "numbers"}, 'train.csv, line 2: the label "good" is not a number'),
    ({"train": table([(f"text {i}", "n/a" if i == 7 else i / 4) for i in range(12)])}, {},
     'train.csv, line 9: the label "n/a" is not a number: correct it, or add data.labels=classes'),
    ({"train": table([(f"house {i}", 1e5 + i / 2) for i in range(12)])}, {}, "the labels reach beyond 1,000"),
    ({"train": table(REVIEWS)}, {"length": 4}, "option length is 4, and needs at least 8"),
    ({"train": table(REVIEWS)}, {"tokenizer": "nowhere"}, "nowhere holds no tokenizer.json"),
    ({"train": table(REVIEWS, "what they wrote,how")}, {},
     'line 1: the class "how" .. if the first line is a header, name the columns (data.text='),
    ({"a.csv": b"text,label\nx,a\ny\n"}, {}, "a.csv, line 3 has 1 fields, and the first line has 2"),
    ({"a.csv": b'text,label\nx,a\n"never closed,b\nz,c\n'}, {}, "a.csv, line 3: the quotes are not those of CSV"),
    ({"a.csv": b"text,label\nx,a\n\xff,b\n"}, {}, "a.csv .. line 3"),
    ({"a.csv": b"text,label\n"}, {}, "a.csv has no rows"),
    ({"a.xlsx": b"PK"}, {}, 'a.xlsx ends in ".xlsx"'),
    ({"a.jsonl": b'{"text": "x", "label": 1}\n{"text": \n'}, {}, "a.jsonl, line 2 is not JSON"),
    ({"a.jsonl": b'["x", 1]\n'}, {}, "a.jsonl, line 1 is not a JSON object"),
    ({"a.jsonl": b'{"text": "x"}\n' + b"[" * 100_000}, {}, "a.jsonl, line 2 is not JSON (it is nested too deeply"),
    ({"a.jsonl": b'{"text": "x"}\n{"text": "y\\ud83d"}\n'}, {}, "a.jsonl, line 2 is not JSON .. half of a character"),
    ({"a.csv": b"text,label,label\nx,a,b\n"}, {}, 'a.csv, line 1 names the column "label" twice'),
    ({"a.csv": table(["ab"], "text,lable")}, {"label": "label"}, 'no column "label" .. did you mean "lable"'),
    ({"a.csv": table(["abc"], "text,x,y")}, {}, "none is known as the label: add data.label=COLUMN"),
    ({"a.csv": table(["abc"], "x,y,label")}, {}, "none is known as the text: add data.text=COLUMN"),
    ({"a.csv": table(["abc"], "text,review,label")}, {}, "several columns that may be the text, text, review"),
    ({"a.csv": table(["abc"], "text,label,rating")}, {}, "several columns that may be the label, label, rating"),
    ({"a.csv": table(["abc"], "a,b,label")}, {"text2": "b"}, "option text is missing"),
    ({"a.jsonl": lines(RIGHT, {"text": "y"})}, {}, 'line 2 has no "label", which other lines have'),
    ({"a.jsonl": lines(RIGHT, {"label": "a"})}, {}, 'line 2 has no "text", which other lines have'),
    ({"a.jsonl": lines(RIGHT, {"text": " ", "label": "a"})}, {}, "line 2: text is empty"),
    ({"a.jsonl": lines(RIGHT, {"text": 5, "label": "a"})}, {}, "line 2: text is 5, and needs to be text"),
    ({"a.jsonl": lines({"text": "x", "label": None})}, {}, "line 1: label is empty"),
    ({"a.jsonl": lines({"text": "x", "label": ["a"]})}, {}, "line 1: label is ['a'], and needs"),
]  # fmt: skip
MASKED: list[tuple[dict[str, bytes], dict[str, Any], str]] = [
    ({"a.txt": b""}, {}, "is empty; name a file or a folder with text"),
    ({"a.txt": b" \n \n"}, {}, "hold 0 characters of text; give more"),
    ({"a.txt": b"two words"}, {}, "subwords that occur twice; give more text"),
    ({"a.txt": "one\ncaf\u00e9".encode("latin1")}, {}, "a.txt, line 2: byte 0xe9 is not UTF-8 text"),
    ({"a.txt": "one".encode("utf-16")}, {}, "text; convert the file, e.g. with `iconv -f utf-16"),
    ({"a.txt": b"one\n\ntw\0o"}, {}, "a.txt, line 3: byte 0x00 is not UTF-8 text"),
    ({"a.jsonl": b'{"text": "x"}\n\n{"body": "y"}\n'}, {}, "a.jsonl, line 3 needs a field"),
    ({"a.jsonl": b'{"text": "x"}\n{"text": null}\n'}, {}, 'a.jsonl, line 2 needs a field "text" that holds text; its'),
    ({"a.jsonl": b'{"text": "x"}\n{"text": "\\uD800"}\n'}, {}, "a.jsonl, line 2 is not JSON ('\\ud800' is half"),
    ({"a.jsonl": b"[" * 100_000}, {}, "a.jsonl, line 1 is not JSON (it is nested too deeply)"),
    ({"a.jsonl": b'{"text": "x"\n'}, {}, "a.jsonl, line 1 is not JSON"),
    ({"a.txt.gz": b"no"}, {}, "a.txt.gz (2 bytes) is damaged"),
    ({"a.png": b"x"}, {}, "has no text files; those of a folder end in .md"),
    ({"dataset_info.json": b"{}"}, {}, "has no readable state.json, which names its files"),
    ({"a.txt": "\n".join(sentences(300)).encode()}, {"vocab_size": 5000}, "use at most vocab_size: "),
    ({"a.txt": "\n".join(sentences(300)).encode()}, {"length": 16_000}, "do not fill a row of 16000; give more"),
    ({"a.txt": b"x"}, {"train": "nowhere"}, 'there is no file or folder "nowhere"'),
    *(({name: b'[{"text": "x"}]'}, {"train": name}, "which is not read as text: write an object")
      for name in ("a.json", "a.CSV", "a.tsv.gz")),
]  # fmt: skip
SPLITS = ("train", "valid", "test")


def named(files: dict[str, bytes]) -> dict[str, str]:
    """The option for each file of labelled text."""
    return {name if "." not in name else "train": name if "." in name else f"{name}.csv" for name in files}


OVER_FILES: list[tuple[str, dict[str, bytes], dict[str, Any], str]] = [
    ("newsgroups", {f"20newsgroups/20news-bydate-{split}.jsonl": b"{}\n" for split in SPLITS}, {},
     "train.jsonl, line 1 has no group"),
    ("wikitext2", {f"wikitext-2/{split}.txt": b"a b\nc \xff\n" for split in SPLITS}, {},
     "train.txt, line 2: byte 0xff is not UTF-8 text"),
    *(("mlm", files, {"vocab_size": 400, "length": 32, "train": ".", **more}, says) for files, more, says in MASKED),
    *(("classify", files, named(files) | more, says) for files, more, says in LABELLED),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "options", "says"), OVER_FILES)
def test_a_wrong_file_is_one_line_that_names_it(
    name: str,
    files: dict[str, bytes],
    options: dict[str, Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parts of what is said have .. between them."""
    for file, content in files.items():
        path = tmp_path / (f"{file}.csv" if "." not in file else file)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
        task(name, options, tmp_path)
    assert all(part in str(refused.value) for part in says.split(" .. "))

"""What tasks refuse, in one line that says what to type."""

import gzip
import math
import re
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize(("name", "files", "content", "says"), [
    ("newsgroups", "20newsgroups/20news-bydate-{}.jsonl", b"{}\n", "train.jsonl, line 1 has no group"),
    ("wikitext2", "wikitext-2/{}.txt", b"a b\nc \xff\n", "train.txt, line 2: byte 0xff is not UTF-8 text"),
])  # fmt: skip
def test_a_damaged_file_of_a_published_task_is_named(
    name: str, files: str, content: bytes, says: str, tmp_path: Path
) -> None:
    for split in ("train", "valid", "test"):
        file = tmp_path / files.format(split)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        task(name, {}, tmp_path)
    assert "\n" not in str(refused.value)

"""20 Newsgroups, split by date, headers kept: which group was a message posted to?"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..options import at_least
from ..support.documents import json_lines, split_lines
from ..support.typed import read_as
from ..text.files import Source, data_root, find, locate, read_tar, read_text
from ..text.subwords import learn_bpe
from .batching import check_buckets
from .cache import Arrays, derived
from .sequences import CLS, PAD, SPECIAL, SequenceTask, TokenRows
from .task import Data, DataNote, task_row

NAME = "newsgroups"
SOURCE = Source(
    "20newsgroups/20news-bydate.tar.gz",
    "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    20_000_000,
)
MEMBER = re.compile("20news-bydate-(train|test)/([^/]+)/([^/]+)$")  # a message's part, group and id, by its file name
COUNTS = {"train": 11_314, "test": 7_532}
GROUPS = 20
STORED = ("tokens", "offsets", "labels")  # what the cache has of each split's rows
FORMAT = 1  # to be raised when the same documents give other tokens, so no old cache is read


class Document(NamedTuple):
    """One message; a message posted to several groups has the same id in each."""

    group: str
    id: str
    text: str


@dataclass(frozen=True)
class NewsgroupsOptions:
    """`vocab`: size of the byte-pair vocabulary; `length`: the most tokens of a message; `buckets`: padded lengths."""

    vocab: int = 16_000
    length: int = 512
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        at_least("vocab", self.vocab, 300)  # 256 bytes, two special tokens and some pairs
        at_least("length", self.length, 8)
        check_buckets(self.buckets)
        if self.buckets and self.buckets[-1] != self.length:
            raise ValueError(
                f"option buckets is {list(self.buckets)} and length {self.length}; the last bucket must be the length, "
                f"e.g. buckets: {[self.length // 4, self.length // 2, self.length]}"
            )


def load_documents(root: Path) -> dict[str, list[Document]]:
    """The documents of "train" and "test", sorted by group and id."""
    lines = {part: find(root, f"20newsgroups/20news-bydate-{part}.jsonl") for part in COUNTS}
    if all(lines.values()):
        documents = {part: read_lines(path) for part, path in lines.items() if path is not None}
        where = root / "20newsgroups"
    else:
        where, documents = locate(root, SOURCE), {part: list[Document]() for part in COUNTS}
        for name, content in read_tar(where):
            if found := MEMBER.search(name):
                documents[found[1]].append(Document(found[2], found[3], content.decode("latin-1")))
    for part, count in COUNTS.items():
        groups = len({document.group for document in documents[part]})
        if len(documents[part]) != count or groups != GROUPS:
            raise ValueError(
                f"{where} has {len(documents[part]):,} {part} documents in {groups} groups, and 20 Newsgroups by date "
                f"has {count:,} in {GROUPS}. Put the published files there"
            )
    return {part: sorted(found) for part, found in documents.items()}


def read_lines(path: Path) -> list[Document]:
    """The documents of a file of JSON lines `group, id, text`."""
    rows = json_lines(split_lines(read_text(path)), str(path))
    return [read_as(Document, row, f"{path}, line {number}") for number, row in rows]


def encode(splits: dict[str, list[Document]], groups: list[str], vocab: int) -> Arrays:
    """The documents as tokens of a byte-level BPE learned from the training split, and that BPE as JSON."""
    texts = (document.text for document in splits["train"])
    tokenizer = learn_bpe(texts, vocab, SPECIAL, prefix=False, min_frequency=0, decoder=False)
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == [PAD, CLS]
    arrays = {"tokenizer": np.array(tokenizer.to_str())}
    for split, documents in splits.items():
        ids = [line.ids for line in tokenizer.encode_batch_fast([document.text for document in documents])]
        labels = np.array([groups.index(document.group) for document in documents])
        text = TokenRows(np.concatenate(ids).astype(np.uint32), np.cumsum([0, *map(len, ids)]), labels)
        arrays |= {f"{split}_{field}": array for field, array in zip(STORED, text, strict=False)}
    return arrays


def cached(splits: dict[str, list[Document]], groups: list[str], vocab: int) -> tuple[dict[str, TokenRows], str]:
    """The tokens and the BPE from the cache, or made and stored there."""
    digest = hashlib.sha256(json.dumps(splits).encode()).hexdigest()
    names = ["tokenizer", *(f"{split}_{field}" for split in splits for field in STORED)]
    parameters = {"data": digest, "vocab": vocab, "format": FORMAT}
    stored = derived(NAME, parameters, names, lambda: encode(splits, groups, vocab))
    texts = {split: TokenRows(*(stored[f"{split}_{field}"] for field in STORED)) for split in splits}
    return texts, str(stored["tokenizer"])


def shorten(text: TokenRows, most: int) -> TokenRows:
    """The first tokens of each sequence, at most `most`."""
    lengths = np.minimum(text.lengths, most)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(offsets[-1]) + np.repeat(text.offsets[:-1] - offsets[:-1], lengths)
    return TokenRows(text.tokens[positions], offsets, text.labels)


def splits_of(data: Path | None) -> dict[str, list[Document]]:
    """The documents of all splits: of training, one in ten is for validation, by its id, in all its groups at once."""
    documents, known = load_documents(data_root(data)), {"train": list[Document](), "valid": list[Document]()}
    for one in documents["train"]:
        held = int.from_bytes(hashlib.sha256(one.id.encode()).digest()[:8], "big") % 10 == 0
        known["valid" if held else "train"].append(one)
    return {**known, "test": documents["test"]}


def read_newsgroups(options: NewsgroupsOptions, data: Path | None = None) -> Data:
    from tokenizers import Tokenizer, decoders

    documents = splits_of(data)
    groups = sorted({document.group for document in (*documents["train"], *documents["valid"])})
    whole, bpe = cached(documents, groups, options.vocab)
    tokenizer = Tokenizer.from_str(bpe)
    tokenizer.decoder = decoders.ByteLevel()
    most = options.length - 1  # one position is for CLS
    texts = {split: shorten(text, most) for split, text in whole.items()}
    buckets = options.buckets or tuple(options.length * quarter // 4 for quarter in (1, 2, 3, 4))
    source = {
        "name": "20 Newsgroups by date, headers kept",
        "cut_to_length": {split: int((text.lengths > most).sum()) for split, text in whole.items()},
        "tokenizer_sha256": hashlib.sha256(bpe.encode()).hexdigest(),
    }
    return Data(texts, source, tokenizer, tuple(groups), more={"buckets": buckets, "vocab_size": options.vocab})


NEWSGROUPS = task_row(
    NAME, "Text classification into twenty newsgroups.", SequenceTask, NewsgroupsOptions,
    DataNote("18,846 messages, 14 MB", "fetched", (SOURCE.name,), SOURCE.url), read_newsgroups,
)  # fmt: skip

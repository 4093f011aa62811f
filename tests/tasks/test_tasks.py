"""Claims about tasks: batches are pure functions, every example counts once, data is what it is said to be."""

import gzip
import hashlib
import io
import json
import lzma
import math
import statistics
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from benchmarks.newsgroups_tfidf import tfidf_baseline
from splitstep.tasks import corpora, newsgroups, task
from splitstep.tasks.batching import indices, spans
from splitstep.tasks.cache import derived
from splitstep.tasks.corpora import split_of
from splitstep.tasks.images import parse_idx, shifted
from splitstep.tasks.listops import VARIANTS, VOCABULARY, Variant, generate, grow, write
from splitstep.tasks.newsgroups import Document, splits_of
from splitstep.tasks.sequences import CLS, PAD, TokenRows
from splitstep.tasks.task import IGNORED
from splitstep.text.documents import library_files
from splitstep.text.files import Content


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A text of 5,003 bytes, in which no window occurs twice."""
    path = tmp_path / "book.txt"
    path.write_bytes(np.random.default_rng(0).integers(0, 256, 5003, dtype=np.uint8).tobytes())
    return path


@pytest.mark.parametrize(("n", "size"), [(10, 3), (7, 7), (5, 12), (1, 4), (12, 4)])
def test_every_example_comes_once_an_epoch(n: int, size: int) -> None:
    epochs = 6
    rows = np.concatenate([indices(n, 5, step, size) for step in range(math.ceil(epochs * n / size))])[: epochs * n]
    orders = rows.reshape(epochs, n)
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    if n > 4:
        assert len({tuple(order) for order in orders}) > 1


@pytest.mark.parametrize("n", [2, 7, 8, 9, 20, 23])
@pytest.mark.parametrize(("length", "stride"), [(8, 4), (8, 1), (8, 7), (2, 1)])
def test_each_token_is_scored_once(n: int, length: int, stride: int) -> None:
    """Brute force over small windows: all tokens but the first, each from a position before it in its window."""
    scored: list[int] = []
    for start, first in spans(n, length, stride):
        assert start >= 0
        assert first >= 1
        scored += range(start + first, min(start + length, n))
    assert scored == list(range(1, n))


def test_windows_carry_their_labels(book: Path) -> None:
    """The scored labels of a split, read in order, are the split's bytes but the first."""
    content = book.read_bytes()
    made = task("text", {"path": str(book), "length": 32, "stride": 8})
    held = len(content) // 20
    bounds = {"train": (0, -2 * held), "valid": (-2 * held, -held), "test": (-held, None)}
    for split, (first, last) in bounds.items():
        labels = torch.cat([batch["labels"].flatten() for batch in made.batches(split, 7)])
        assert bytes(labels[labels != IGNORED].tolist()) == content[first:last][1:]


def test_training_windows_are_pieces_of_the_training_text(book: Path) -> None:
    made = task("text", {"path": str(book), "length": 32})
    content = book.read_bytes()
    train = content[: len(content) - 2 * (len(content) // 20)]
    positions = [train.find(bytes(row.tolist())) for step in range(40) for row in made.batch(0, step, 50)["input_ids"]]
    assert min(positions) >= 0
    assert min(positions) < 32
    assert max(positions) > len(train) - 64  # the windows reach both ends


def test_bits_per_byte_is_that_of_a_known_model(book: Path) -> None:
    """Uniform over 256 is 8 bits; a model that knows every second byte has half of that."""
    made = task("text", {"path": str(book), "length": 32})
    totals: Counter[str] = Counter()
    for batch in made.batches("test", 3):
        ids = batch["input_ids"]
        logits = torch.zeros(*ids.shape, 256)
        known = torch.arange(1, ids.shape[1], 2)
        # Position i - 1 predicts byte i; windows begin at even positions, so odd positions are odd bytes throughout.
        logits[:, known - 1] = 1e4 * torch.nn.functional.one_hot(ids[:, known], 256).float()
        totals.update(made.score(logits, batch))
    length = int(totals["tokens"])
    begins_even = all(start % 2 == 0 for start, _ in spans(length + 1, 32, 16))
    assert begins_even
    unknown = length - math.ceil(length / 2)
    assert made.summary(totals)["bits_per_byte"] == pytest.approx(8 * unknown / length, rel=1e-5)


def test_valid_limit_leaves_the_test_whole(book: Path) -> None:
    full = task("text", {"path": str(book), "length": 32}).describe()["tokens"]
    cut = task("text", {"path": str(book), "length": 32, "valid_limit": 100}).describe()
    assert cut["tokens"] == full | {"valid": 100}
    assert cut["tokens_before_limits"] == full


def test_text_reads_packed_files_and_joins_them(tmp_path: Path, book: Path) -> None:
    packed = tmp_path / "book.txt.gz"
    packed.write_bytes(gzip.compress(book.read_bytes()))
    plain = task("text", {"path": [str(book), str(book)], "length": 32})
    both = task("text", {"path": [str(packed), "book.txt"], "length": 32}, data=tmp_path)
    assert both.describe()["sha256"] == plain.describe()["sha256"]
    assert both.describe()["tokens"]["train"] == 10_006 - 2 * 500


def test_stdlib_splits_are_disjoint_and_have_no_tests() -> None:
    import sysconfig

    root = Path(sysconfig.get_path("stdlib"))
    files = library_files(root)
    assert len(files) > 300
    assert Path("dataclasses.py") in files
    assert not any({"test", "tests", "site-packages", "idlelib"} & set(path.parts) for path in files)
    made = task("stdlib").describe()
    for split, count in made["tokens"].items():
        chosen = [root / path for path in files if split_of(path) == split]
        assert count == sum(path.stat().st_size for path in chosen)
        joined = hashlib.sha256(b"".join(path.read_bytes() for path in chosen)).hexdigest()
        assert made["sha256"][split] == joined
    assert made["tokens"]["train"] > 5 * (made["tokens"]["valid"] + made["tokens"]["test"])


def test_digits_split_is_stratified_and_whole() -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    made = task("digits")
    described = made.describe()
    assert np.sum(list(described["classes"].values()), axis=0).tolist() == np.bincount(labels).tolist()
    for split, share in (("train", 0.6), ("valid", 0.2), ("test", 0.2)):
        counts = np.array(described["classes"][split])
        assert np.abs(counts - share * np.bincount(labels)).max() <= 1
    rows = []
    for split in made.splits:
        for batch in made.batches(split, 100):
            pixels = (batch["pixel_values"] * 0.3765 + 0.3057) * 16
            whole = pixels.flatten(1).round().int().tolist()
            rows += list(zip(map(tuple, whole), batch["labels"].tolist(), strict=True))
    every = list(zip(map(tuple, np.asarray(images).astype(int).tolist()), np.asarray(labels).tolist(), strict=True))
    assert Counter(rows) == Counter(every)


def test_shifted_moves_each_image_on_its_own() -> None:
    images = np.random.default_rng(1).integers(1, 256, (5, 6, 6))
    moves = np.array([[0, 0], [2, 0], [0, -1], [-2, 2], [1, 1]])
    moved = shifted(images, moves)
    for image, result, (down, right) in zip(images, moved, moves, strict=True):
        for i in range(6):
            for j in range(6):
                inside = 0 <= i - down < 6 and 0 <= j - right < 6
                assert result[i, j] == (image[i - down, j - right] if inside else 0)


# ListOps


FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
    # Two more that the published sample files have instead of [MED and [SM.
    "[FIRST": lambda values: values[0],
    "[LAST": lambda values: values[-1],
}


def evaluate(tokens: Sequence[str]) -> int:
    """The value of one expression, e.g. of `["[MAX", "2", "9", "]"]`: the oracle for labels."""
    open_lists: list[tuple[str, list[int]]] = [("", [])]
    for token in tokens:
        if token == "]":
            operator, values = open_lists.pop()
            open_lists[-1][1].append(FUNCTIONS[operator](values))
        elif token in FUNCTIONS:
            open_lists.append((token, []))
        else:
            open_lists[-1][1].append(int(token))
    [(_, [value])] = open_lists
    return value


def spell(ids: np.ndarray) -> list[str]:
    """Token numbers as written, without padding and CLS."""
    return [VOCABULARY[number] for number in ids if number not in (PAD, CLS)]


def test_evaluator_reproduces_the_published_labels(data: Path) -> None:
    lines = 0
    for name in ("test", "test_d8", "test_d20"):
        for line in lzma.decompress((data / "listops-spinn" / f"{name}.tsv.xz").read_bytes()).decode().splitlines():
            label, _, tree = line.partition("\t")  # the parentheses in it say nothing more
            assert evaluate([token for token in tree.split() if token not in "()"]) == int(label)
            lines += 1
    assert lines == 20_500


def examples(text: TokenRows) -> list[list[str]]:
    """Each example as written."""
    return [spell(row) for row in np.split(text.tokens, text.offsets[1:-1])]


def anatomy(tokens: list[str]) -> tuple[int, list[int]]:
    """A tree's depth, its root's being 1, and the argument counts of its operators."""
    deepest, counts, open_lists = 1, [], [0]
    for token in tokens:
        if token == "]":
            counts.append(open_lists.pop())
            continue
        open_lists[-1] += 1
        deepest = max(deepest, len(open_lists))
        if token.startswith("["):
            open_lists.append(0)
    return deepest, counts


@pytest.mark.parametrize(
    ("name", "low", "high"), [("lra", 501, 1999), ("long", 500, 1000), ("short", 4, 63), ("original", 1, 10**9)]
)
def test_generated_trees_keep_the_rules(name: str, low: int, high: int) -> None:
    variant = replace(VARIANTS[name], train=100, valid=5, test=5)
    text = generate(variant, seed=1)
    drawn = examples(text)
    assert len(drawn) == len({tuple(tree) for tree in drawn}) == 110
    assert text.labels.tolist() == [evaluate(tree) for tree in drawn]
    depths, arguments = set(), set()
    for tree in drawn:
        assert low <= len(tree) <= high
        depth, counts = anatomy(tree)
        depths.add(depth)
        arguments.update(counts)
    limits = {"lra": (10, 10), "long": (10, 10), "short": (4, 4), "original": (20, 5)}
    depth, most = limits[name]
    assert max(depths) <= depth
    assert arguments == set(range(2, most + 1))
    if name != "original":
        assert max(depths) == depth


def test_trees_are_drawn_with_the_right_chances() -> None:
    """Closed forms: the mean length of unlimited trees, and which share is kept within limits."""
    roots, depth, most = 200_000, 4, 4
    mean = 1.0
    for _ in range(depth - 1):
        mean = 0.75 + 0.25 * (2 + (2 + most) / 2 * mean)
    free = write(grow(np.random.default_rng(0), roots, Variant(depth, most, 1, None, 1, 1, 1, ())))
    assert len(free.labels) == roots
    error = free.lengths.std() / math.sqrt(roots)
    assert abs(free.lengths.mean() - mean) < 4 * error
    names = Counter(token for tree in examples(free.part(0, 20_000)) for token in tree)
    operators = [names[name] for name in ("[MIN", "[MAX", "[MED", "[SM")]
    assert max(operators) / min(operators) < 1.1
    assert max(names[d] for d in "0123456789") / min(names[d] for d in "0123456789") < 1.1
    # Depth 3, two arguments: lengths 1, 4, 7, 10 have chances 3/4 and 1/4 of (9, 6, 1)/16.
    kept = write(grow(np.random.default_rng(1), roots, Variant(3, 2, 4, 7, 1, 1, 1, ()))).lengths
    assert set(kept.tolist()) == {4, 7}
    assert len(kept) / roots == pytest.approx(15 / 64, abs=4 * 0.424 / math.sqrt(roots))
    assert (kept == 4).mean() == pytest.approx(0.6, abs=4 * 0.49 / math.sqrt(len(kept)))


@pytest.mark.parametrize("name", ["short", pytest.param("original", marks=pytest.mark.nightly)])
def test_lengths_do_not_tell_the_splits_of_listops_apart(name: str) -> None:
    """A tree counts once, and the short ones are soon used up: in the order of drawing, test would have fewer."""
    variant = VARIANTS[name]
    lengths = generate(variant, seed=0).lengths
    for measure in (np.log(lengths), lengths <= 8):
        parts = np.split(measure, np.cumsum([variant.train, variant.valid]))
        error = measure.std() / math.sqrt(variant.valid)
        assert max(abs(part.mean() - measure.mean()) for part in parts) < 3 * error


def test_listops_pads_and_never_cuts() -> None:
    made = task("listops", {"train": 300, "valid": 50, "test": 50})
    stored = generate(replace(VARIANTS["short"], train=300, valid=50, test=50), seed=0)
    rows = []
    for split in made.splits:
        for batch in made.batches(split, 16):
            ids, mask = batch["input_ids"], batch["attention_mask"]
            assert ids.shape[1] in (16, 32, 64)
            assert (ids[:, 0] == CLS).all()
            assert ((ids != PAD) == mask.bool()).all()
            assert (mask.sum(1) > ids.shape[1] // 2).all() or ids.shape[1] == 16  # the smallest bucket that fits
            rows += [(*spell(row.numpy()), int(label)) for row, label in zip(ids, batch["labels"], strict=True)]
    wanted = [(*tree, label) for tree, label in zip(examples(stored), stored.labels.tolist(), strict=True)]
    assert Counter(rows) == Counter(wanted)
    assert made.shape == {"vocab_size": 17, "max_length": 64, "labels": 10}


def test_trees_of_the_long_range_arena_are_those_of_stored_results() -> None:
    """Hundreds of tokens do not come twice, so their order of drawing tells nothing of their length."""
    described = task("listops", {"variant": "lra", "train": 300, "valid": 20, "test": 20}).describe()
    assert described["sha256"]["train"] == "4ccd6ce5739fbedb64fab58c152e0632a9e897b8cb0dba022df1ee6f5838bb4d"
    assert described["sha256"]["test"] == "39edb932eebdaf60deae32a16990209a6d6dc61c0c44aee21142d2bd94a5e15d"


def test_listops_cache_is_read_back_and_mended(cache: Path) -> None:
    before = set(cache.iterdir())
    options = {"train": 123, "valid": 5, "test": 5, "seed": 99}
    described = task("listops", options).describe()
    (path,) = set(cache.iterdir()) - before
    assert task("listops", options).describe() == described
    assert task("listops", options | {"seed": 98}).describe()["sha256"] != described["sha256"]
    written_at = path.stat().st_mtime_ns
    assert task("listops", options).describe() == described
    assert path.stat().st_mtime_ns == written_at
    path.write_bytes(path.read_bytes()[:1000])
    assert task("listops", options).describe() == described
    assert path.stat().st_size > 1000


def test_unwritable_cache_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="set SPLITSTEP_CACHE"):
        derived("listops", {}, ["x"], lambda: {"x": np.zeros(1)})


# MNIST


def idx(array: np.ndarray) -> bytes:
    """An array of bytes as an idx file."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def test_idx_is_read_back_and_refused_if_damaged() -> None:
    array = np.random.default_rng(2).integers(0, 256, (3, 4, 5), dtype=np.uint8)
    raw = idx(array)
    assert (parse_idx(raw, Path("x")) == array).all()
    changed = [(0, b"\x1f\x8b"), (2, b"\x0d"), (3, b"\x02"), (7, b"\x09")]
    damaged = [raw[:at] + new + raw[at + len(new) :] for at, new in changed]
    for content in (b"", raw[:3], raw[:4], raw[:9], raw[:-1], raw + b"\0", *damaged):
        with pytest.raises(ValueError, match=r"digits\.idx (is not an idx file|is damaged or cut short)"):
            parse_idx(content, Path("digits.idx"))


def test_mnist_is_what_was_published(data: Path) -> None:
    made = task("mnist", {}, data)
    described = made.describe()
    assert described["examples"] == {"train": 55_000, "valid": 5_000, "test": 10_000}
    assert described["classes"]["test"] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    both = np.add(described["classes"]["train"], described["classes"]["valid"]).tolist()
    assert both == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert made.shape == {"image_size": 28, "channels": 1, "patch": 4, "labels": 10}
    assert made.length == 49
    train = torch.cat([batch["pixel_values"] for batch in made.batches("train", 5000)])
    assert train.mean().item() == pytest.approx(0, abs=2e-3)
    assert train.std().item() == pytest.approx(1, abs=2e-3)
    moved = task("mnist", {"shift": 2}, data)
    assert torch.equal(moved.batch(0, 0, 64)["labels"], made.batch(0, 0, 64)["labels"])
    assert not torch.equal(moved.batch(0, 0, 64)["pixel_values"], made.batch(0, 0, 64)["pixel_values"])
    assert torch.equal(next(moved.batches("test", 9))["pixel_values"], next(made.batches("test", 9))["pixel_values"])


# enwik8 and WikiText-2


def put(path: Path, content: bytes, member: str) -> None:
    """Write a file in the form that its suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(member, content)
    else:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(content))


def test_enwik8_is_split_as_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = np.random.default_rng(4).integers(0, 256, 1000, dtype=np.uint8).tobytes()
    monkeypatch.setattr(corpora, "ENWIK8_CONTENT", Content(1000, hashlib.sha256(content).hexdigest()))
    monkeypatch.setattr(corpora, "CUTS", (900, 950))
    put(tmp_path / "enwik8" / "enwik8.zip", content, "enwik8")
    made = task("enwik8", {"length": 16}, tmp_path)
    parts = {"train": content[:900], "valid": content[900:950], "test": content[950:]}
    assert made.describe()["sha256"] == {split: hashlib.sha256(part).hexdigest() for split, part in parts.items()}


LINES = {"train": "\n = A = \n\n the cat <unk> the\n", "valid": " the cat \n", "test": " A the \n \n"}


@pytest.mark.parametrize("form", ["txt", "xz", "zip"])
def test_wikitext_counts_words_and_line_ends(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "WORD_COUNTS", {"train": 11, "valid": 3, "test": 4})
    monkeypatch.setattr(corpora, "WORD_TYPES", 6)
    names = {"txt": "{}.txt", "xz": "{}.articles-shuffled.txt.xz", "zip": "wikitext-2-v1.zip"}
    for split, text in LINES.items():
        if form == "xz" and split != "train":
            put(tmp_path / "wikitext-2" / f"{split}.txt.xz", text.encode(), "")
        else:
            path = tmp_path / "wikitext-2" / names[form].format(split)
            put(path, text.encode(), f"wikitext-2/wiki.{split}.tokens")
    made = task("wikitext2", {"length": 3}, tmp_path)
    # By falling frequency, equals by spelling: <eos> 4, = 2, the 2, <unk> 1, A 1, cat 1.
    ids = torch.cat([b["labels"].flatten() for b in made.batches("train", 2)])
    assert ids[ids != IGNORED].tolist() == [1, 4, 1, 0, 0, 2, 5, 3, 2, 0]
    assert made.shape == {"vocab_size": 6, "max_length": 3}
    assert made.metric.name == "perplexity"
    letters = task("wikitext2", {"length": 3, "level": "byte"}, tmp_path)
    assert letters.metric.name == "bits_per_byte"
    assert letters.describe()["tokens"] == {split: len(text) for split, text in LINES.items()}
    monkeypatch.setattr(corpora, "WORD_COUNTS", {"train": 11, "valid": 3, "test": 5})
    with pytest.raises(ValueError, match=r"has 4 words .* has 5 in test"):
        task("wikitext2", {"length": 3}, tmp_path)


@pytest.mark.nightly
def test_wikitext_is_what_was_published(data: Path) -> None:
    made = task("wikitext2", {}, data)
    described = made.describe()
    assert described["tokens"] == {"train": 2_088_628, "valid": 217_646, "test": 245_569}
    assert made.shape == {"vocab_size": 33_278, "max_length": 256}
    batch = made.batch(0, 0, 2)
    totals = made.score(torch.zeros(2, 256, 33_278), batch)
    assert totals["tokens"] == 2 * 255
    assert made.summary(totals)["perplexity"] == pytest.approx(33_278, rel=1e-4)


# 20 Newsgroups


def messages() -> dict[str, list[Document]]:
    """Messages in two groups, each posted to both; with letters that are no ASCII and an odd kind of line end."""
    groups = ("alt.a", "sci.b")
    documents = sorted(
        Document(g, str(i), f"Subject: {g} [CLS]\n\n{'word ' * i}é{i}\x85") for i in range(60) for g in groups
    )
    return {"train": documents, "test": [document._replace(text=document.text + "!") for document in documents]}


def put_messages(root: Path, form: str) -> None:
    folder = root / "20newsgroups"
    folder.mkdir()
    if form == "jsonl":
        for part, documents in messages().items():
            lines = "".join(json.dumps(d._asdict(), ensure_ascii=False) + "\n" for d in reversed(documents))
            (folder / f"20news-bydate-{part}.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
        return
    with tarfile.open(folder / "20news-bydate.tar.gz", "w:gz") as archive:
        for part, documents in messages().items():
            for document in documents:
                entry = tarfile.TarInfo(f"20news-bydate-{part}/{document.group}/{document.id}")
                content = document.text.encode("latin-1")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


@pytest.fixture(params=["jsonl", "tar"])
def news(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(newsgroups, "COUNTS", {"train": 120, "test": 120})
    monkeypatch.setattr(newsgroups, "GROUPS", 2)
    put_messages(tmp_path, request.param)
    return tmp_path


def test_newsgroups_reads_both_forms_alike(news: Path) -> None:
    made = task("newsgroups", {"vocab": 300, "length": 32, "buckets": [16, 32]}, news)
    wanted, documents = messages(), splits_of(news)
    assert sorted(documents["train"] + documents["valid"]) == wanted["train"]
    assert documents["test"] == wanted["test"]
    held = {document.id for document in documents["valid"]}
    assert held
    assert not held & {document.id for document in documents["train"]}
    # Token by token what the tokenizer says, cut where announced.
    cut = 0
    rows = Counter(
        (tuple(row[mask.bool()].tolist()), int(label))
        for batch in made.batches("test", 7)
        for row, mask, label in zip(batch["input_ids"], batch["attention_mask"], batch["labels"], strict=True)
    )
    brute: Counter[tuple[tuple[int, ...], int]] = Counter()
    for document in wanted["test"]:
        ids = made.data.reader.encode(document.text, add_special_tokens=False).ids
        cut += len(ids) > 31
        brute[(CLS, *ids[:31]), ["alt.a", "sci.b"].index(document.group)] += 1
    assert rows == brute
    assert cut > 0
    assert made.describe()["source"]["cut_to_length"]["test"] == cut
    assert made.shape == {"vocab_size": 300, "max_length": 32, "labels": 2}
    assert made.labels == ("alt.a", "sci.b")
    # The saved tokenizer does the same.
    made.save_with(news)
    tokenizer = AutoTokenizer.from_pretrained(news)
    assert (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.model_max_length) == (0, 1, 32)
    saved = tokenizer([document.text for document in wanted["test"]], truncation=True).input_ids
    assert Counter(map(tuple, saved)) == Counter(ids for ids, _ in rows.elements())
    assert tokenizer.decode(tokenizer("Straße 7").input_ids, skip_special_tokens=True) == "Straße 7"


def test_newsgroups_counts_are_checked(news: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newsgroups, "COUNTS", {"train": 121, "test": 120})
    with pytest.raises(ValueError, match="has 120 train documents in 2 groups, and 20 Newsgroups by date has 121"):
        task("newsgroups", {"vocab": 300}, news)


@pytest.mark.nightly
def test_newsgroups_and_its_linear_baseline(data: Path) -> None:
    made = task("newsgroups", {}, data)
    described = made.describe()
    assert described["examples"]["train"] + described["examples"]["valid"] == 11_314
    assert 900 < described["examples"]["valid"] < 1_350
    assert described["examples"]["test"] == 7_532
    assert made.shape == {"vocab_size": 16_000, "max_length": 512, "labels": 20}
    assert 0.84 < tfidf_baseline(splits_of(data)) < 0.88

"""Claims about tasks: batches are pure functions, every example counts once, data is what it is said to be."""

import gzip
import hashlib
import json
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from splitstep.tasks import TASKS, Batch, Task, task
from splitstep.tasks.images import shifted
from splitstep.tasks.language import spans
from splitstep.tasks.sampler import bucket, indices
from splitstep.tasks.stdlib import library_files, split_of
from splitstep.tasks.task import IGNORED


@pytest.fixture
def data() -> Path:
    """The folder of real data: $SPLITSTEP_DATA, else shared/data beside the checkout."""
    given = os.environ.get("SPLITSTEP_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for path in [Path(given)] if given else [beside]:
        if path.is_dir():
            return path
    pytest.skip("no data folder: set SPLITSTEP_DATA")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A text of 5,003 bytes, in which no window occurs twice."""
    path = tmp_path / "book.txt"
    path.write_bytes(np.random.default_rng(0).integers(0, 256, 5003, dtype=np.uint8).tobytes())
    return path


def small(name: str, book: Path) -> Task:
    """A task that needs no data folder, in a small size."""
    options: dict[str, dict[str, object]] = {
        "digits": {"shift": 1},
        "stdlib": {"length": 64, "limit": 100_000},
        "text": {"path": str(book), "length": 32},
    }
    return task(name, options[name])


OFFLINE = ["digits", "stdlib", "text"]


def same(one: Batch, two: Batch) -> bool:
    """Whether two batches hold the same tensors."""
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("name", OFFLINE)
def test_batch_is_a_pure_function(name: str, book: Path) -> None:
    first, second = small(name, book), small(name, book)
    wanted = [first.batch(3, step, 8) for step in (0, 1, 2, 50)]
    for step in (50, 2, 0, 1):  # another order, another instance
        assert same(second.batch(3, step, 8), wanted[(0, 1, 2, 50).index(step)])
    assert not same(first.batch(3, 0, 8), first.batch(3, 1, 8))
    assert not same(first.batch(3, 0, 8), first.batch(4, 0, 8))


@pytest.mark.parametrize("name", OFFLINE)
def test_contract(name: str, book: Path) -> None:
    """What every task promises to the training loop."""
    made = small(name, book)
    assert made.name == name
    assert made.splits == ("train", "valid", "test")
    assert made.length >= 1
    assert json.loads(json.dumps(made.describe()))["task"] == name
    assert made.metric.format.format(0.5)
    with pytest.raises(ValueError, match="train, valid, test"):
        next(made.batches("dev", 4))
    train, held = made.batch(0, 0, 4), next(made.batches("valid", 4))
    assert train.keys() == held.keys()
    classes = made.shape["vocab_size"] if made.model == "causal" else made.shape["labels"]
    shape = (*train["labels"].shape, classes)
    scores = made.score(torch.zeros(shape), train)
    figures = made.summary(scores)
    assert figures["loss"] == pytest.approx(math.log(classes), rel=1e-5)
    assert made.metric.name in figures
    with pytest.raises(ValueError, match="nothing was scored"):
        made.summary({})


@pytest.mark.parametrize(("n", "size"), [(10, 3), (7, 7), (5, 12), (1, 4), (12, 4)])
def test_every_example_comes_once_an_epoch(n: int, size: int) -> None:
    epochs = 6
    rows = np.concatenate([indices(n, 5, step, size) for step in range(math.ceil(epochs * n / size))])[: epochs * n]
    orders = rows.reshape(epochs, n)
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    if n > 4:
        assert len({tuple(order) for order in orders}) > 1


@pytest.mark.parametrize("counts", [(10, 0, 7), (3, 50, 20), (1, 1), (64,)])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_buckets_are_met_in_proportion(counts: tuple[int, ...], size: int) -> None:
    """After `size` epochs each bucket's stream has been taken in order, without gaps, each example `size` times."""
    steps = sum(counts)  # size epochs of sum / size batches
    drawn = [bucket(counts, 2, step, size) for step in range(steps)]
    for number, count in enumerate(counts):
        stream = [place for chosen, place in drawn if chosen == number]
        assert stream == list(range(count))
        rows = Counter(row for place in stream for row in indices(count, 2, place, size).tolist())
        assert rows == dict.fromkeys(range(count), size)
    if len(counts) == 3 and size == 4:
        assert [chosen for chosen, _ in drawn] != sorted(chosen for chosen, _ in drawn)


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
    places = [train.find(bytes(row.tolist())) for step in range(40) for row in made.batch(0, step, 50)["input_ids"]]
    assert min(places) >= 0
    assert min(places) < 32
    assert max(places) > len(train) - 64  # the windows reach both ends


def test_bits_per_byte_is_that_of_a_known_model(book: Path) -> None:
    """Uniform over 256 is 8 bits; a model that knows every second byte has half of that."""
    made = task("text", {"path": str(book), "length": 32})
    totals: Counter[str] = Counter()
    for batch in made.batches("test", 3):
        ids = batch["input_ids"]
        logits = torch.zeros(*ids.shape, 256)
        known = torch.arange(1, ids.shape[1], 2)
        # Position i - 1 predicts byte i; windows begin at even places, so odd positions are odd bytes throughout.
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
    told = made.describe()
    assert np.sum(list(told["classes"].values()), axis=0).tolist() == np.bincount(labels).tolist()
    for split, share in (("train", 0.6), ("valid", 0.2), ("test", 0.2)):
        counts = np.array(told["classes"][split])
        assert np.abs(counts - share * np.bincount(labels)).max() <= 1
    rows = []
    for split in made.splits:
        for batch in made.batches(split, 100):
            pixels = (batch["pixel_values"] * 0.3765 + 0.3057) * 16
            whole = pixels.flatten(1).round().int().tolist()
            rows += list(zip(map(tuple, whole), batch["labels"].tolist(), strict=True))
    every = list(zip(map(tuple, np.asarray(images).astype(int).tolist()), np.asarray(labels).tolist(), strict=True))
    assert Counter(rows) == Counter(every)


def test_digits_are_standardised() -> None:
    train = torch.cat([batch["pixel_values"] for batch in task("digits").batches("train", 500)])
    assert train.mean().item() == pytest.approx(0, abs=1e-3)
    assert train.std().item() == pytest.approx(1, abs=1e-3)


def test_shifted_moves_each_image_on_its_own() -> None:
    images = np.random.default_rng(1).integers(1, 256, (5, 6, 6))
    moves = np.array([[0, 0], [2, 0], [0, -1], [-2, 2], [1, 1]])
    moved = shifted(images, moves)
    for image, result, (down, right) in zip(images, moved, moves, strict=True):
        for i in range(6):
            for j in range(6):
                inside = 0 <= i - down < 6 and 0 <= j - right < 6
                assert result[i, j] == (image[i - down, j - right] if inside else 0)


def test_score_of_images_is_accuracy() -> None:
    made = task("digits")
    totals: Counter[str] = Counter()
    for batch in made.batches("test", 50):
        wrong = torch.arange(len(batch["labels"])) % 5 == 0
        guess = (batch["labels"] + wrong) % 10
        totals.update(made.score(torch.nn.functional.one_hot(guess, 10).float(), batch))
    examples = int(totals["examples"])
    assert examples == made.describe()["examples"]["test"]
    full, rest = divmod(examples, 50)
    assert made.summary(totals)["accuracy"] == pytest.approx(1 - (10 * full + math.ceil(rest / 5)) / examples)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("digit", {}, 'did you mean "digits"'),
        ("zzz", {}, "the tasks are digits"),
        ("digits", {"pach": 2}, 'did you mean "patch"'),
        ("digits", {"patch": "2"}, "'2', and needs a whole number"),
        ("digits", {"patch": True}, "True, and needs a whole number"),
        ("digits", {"patch": 3}, "does not divide images of 8 pixels"),
        ("digits", {"patch": 0}, "needs at least 1"),
        ("text", {}, "path: notes.txt"),
        ("text", {"path": "no-such-file.txt"}, "no-such-file.txt"),
        ("text", {"path": [3]}, "needs a list of text|needs text"),
        ("stdlib", {"stride": 256}, "stride: 128"),
        ("stdlib", {"length": 1}, "needs at least 2"),
        ("stdlib", {"valid_limit": None, "length": None}, "None, and needs a whole number"),
    ],
)
def test_errors_say_what_to_type(name: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        task(name, options)


def test_too_little_text_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("short")
    with pytest.raises(ValueError, match="too few for windows of 256"):
        task("text", {"path": str(tmp_path / "note.txt")})


def test_names_are_the_classes_own() -> None:
    assert all(kind.name == name for name, kind in TASKS.items())

"""Text to rows of tokens: documents stay apart, rows are full, held-out text is not trained on, masks are as said."""

import gzip
import json
import lzma
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_words import sentences
from transformers import AutoTokenizer

from splitstep.tasks import Task, task
from splitstep.tasks.masked import prepared
from splitstep.tasks.masked.mlm import FIRST, Choice, Mlm, MlmOptions, mask, prepare_text
from splitstep.tasks.masked.packing import Packer
from splitstep.tasks.masked.prepared import load
from splitstep.tasks.task import IGNORED
from splitstep.text import documents, splits
from splitstep.text.documents import Chunk, read_parts
from splitstep.text.subwords import CLS, MASK, PAD, SEP, alphabet, continues
from splitstep.text.tokenizers import TOKENIZER, write_tokenizer

SMALL: dict[str, Any] = {"vocab_size": 400, "length": 32}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose 600 lines are documents."""
    file = tmp_path_factory.mktemp("text") / "lines.txt"
    file.write_text("\n".join(sentences(600)))
    return file


def made_with(train: Path | dict[str, Any], **options: Any) -> Any:
    """The task on a file whose lines are documents, or on a file for each split."""
    files = train if isinstance(train, dict) else {"train": str(train)}
    return task("mlm", {**SMALL, "documents": "line", **files, **options})


def options_of(file: Path) -> MlmOptions:
    return MlmOptions(**SMALL, train=(str(file),), documents="line")


@pytest.fixture(scope="module")
def made(lines: Path) -> Any:
    return made_with(lines)


# Reading


def whole(parts: Iterator[Chunk]) -> list[str]:
    """The documents that parts make up."""
    found: list[str] = []
    for first, text in parts:
        found = [*found, text] if first else [*found[:-1], found[-1] + text]
    return found


@pytest.mark.parametrize(
    ("boundary", "expected"), [("line", ["a b", "c", "d"]), ("blank", ["a b\nc", "d"]), ("file", ["a b\nc\n\n \nd"])]
)
def test_documents_end_where_the_option_says(boundary: Any, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffa b\r\nc\n\n \nd\n".encode())
    assert [text.strip() for text in whole(read_parts([tmp_path / "a.txt"], boundary))] == expected


def test_a_folder_is_its_text_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.txt").write_text("second")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"first"))
    (tmp_path / "c.jsonl.xz").write_bytes(lzma.compress(b'{"text": "third\\nrow"}\n\n{"text": "fourth", "id": 2}\n'))
    for left_out in ("picture.png", ".hidden.txt"):
        (tmp_path / left_out).write_text("no")
    (tmp_path / "empty.txt").write_text("")
    files = documents.find_files([str(tmp_path)], "mlm", None)
    assert whole(read_parts(files, "file")) == ["first", "second", "third\nrow", "fourth"]


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": ["one", None, "two"], "id": [1, 2, 3]}), tmp_path / "t.parquet")
    assert whole(read_parts([tmp_path / "t.parquet"], "file")) == ["one", "two"]
    parquet.write_table(arrow.table({"body": ["one"]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r't.parquet needs a column "text"; it has body'):
        list(read_parts([tmp_path / "t.parquet"], "file"))


@given(st.lists(st.text("ab \n\u00e9", max_size=40), max_size=6), st.integers(1, 9))
def test_long_documents_come_in_parts_that_make_up_the_whole(texts: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "PART", size)
        found = whole(part for text in texts for part in documents.parts_of(text))
        assert found == [text.strip() for text in texts if text.strip()]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_file_in_blocks_is_the_file(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PART", size)
    (tmp_path / "a.txt").write_text("ab cd\n  efghijkl\u00e9 m\n n")
    [found] = whole(read_parts([tmp_path / "a.txt"], "file"))
    assert found == "ab cd\n  efghijkl\u00e9 m\n n"


# Held-out text


def test_of_many_documents_whole_ones_are_held_out_and_equal_ones_together() -> None:
    texts = sentences(3000) + sentences(300)
    parts = [Chunk(True, text) for text in texts]
    found = list(splits.split(parts, splits.extent(parts)))
    counts = Counter(one.split for one in found)
    assert 0.035 < counts["valid"] / len(texts) < 0.065
    assert 0.035 < counts["test"] / len(texts) < 0.065
    by_text = {part.text: name for name, part, _ in found}
    assert all(by_text[part.text] == name for name, part, _ in found)


@pytest.mark.parametrize("size", [40_000, 400_000])
def test_of_few_documents_stretches_are_held_out(size: int) -> None:
    text = " ".join(sentences(4000))[:size]
    parts = list(documents.parts_of(text))
    found = list(splits.split(parts, splits.extent(parts)))
    assert "".join(one.chunk.text for one in found) == text.strip()
    shares = Counter[str]()
    for name, part, _ in found:
        shares[name] += len(part.text)
    assert shares["valid"] / size == pytest.approx(0.05, abs=0.02)
    assert shares["test"] / size == pytest.approx(0.05, abs=0.02)
    for (before, _, _), (name, part, _) in pairwise(found):
        assert part.first == (name != before)


# Packing


def brute_force(texts: list[list[int]], length: int) -> list[list[int]]:
    """Full rows, token by token."""
    rows: list[list[int]] = [[]]
    for text in texts:
        left = list(text)
        while left:
            room = length - len(rows[-1])
            if room < 3:
                rows[-1] += [PAD] * room
                rows.append([])
                continue
            n = min(room - 2, len(left))
            rows[-1] += [CLS, *left[:n], SEP]
            left = left[n:]
            if len(rows[-1]) == length:
                rows.append([])
    if length - 3 < len(rows[-1]) < length:
        rows[-1] += [PAD] * (length - len(rows[-1]))
    return [row for row in rows if len(row) == length]


def pack(texts: list[list[int]], length: int, cut: int) -> np.ndarray:
    """Rows by the packer, which gets each document in parts of `cut` tokens."""
    file = BytesIO()
    packer = Packer(file, length, np.dtype(np.uint16))
    for text in texts:
        for first in range(0, len(text), cut):
            packer.add(np.array(text[first : first + cut], np.uint16), first == 0)
    packer.finish()
    found = np.frombuffer(file.getvalue(), np.uint16).reshape(-1, length)
    assert packer.rows == len(found)
    return found


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(4, 16), st.integers(1, 50), st.integers(1, 3))
@settings(max_examples=200)
def test_rows_are_those_that_a_loop_over_tokens_gives(sizes: list[int], length: int, cut: int, block: int) -> None:
    count = iter(range(5, 10_000))
    texts = [[next(count) for _ in range(size)] for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("splitstep.tasks.masked.packing.BLOCK", block)
        assert pack(texts, length, cut).tolist() == brute_force(texts, length)


def test_rows_hold_the_text_of_each_document(made: Mlm, lines: Path) -> None:
    """Every training line comes in order, all of it but the end of the last row, and each piece is one line's alone."""
    tokenizer = made.prepared.tokenizer
    texts = [line for line in lines.read_text().split("\n") if splits.split_of(line) == "train"]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    rows = made.prepared.rows["train"]
    assert rows.tolist() == brute_force(expected, 32)
    assert (rows == PAD).sum(1).max() <= 2


# Subwords


def test_the_same_text_gives_the_same_subwords_in_every_process(lines: Path, tmp_path: Path) -> None:
    """The trainer's hash tables are seeded anew in each process."""
    code = (
        "import sys, hashlib; from pathlib import Path; from splitstep.text.subwords import learn; "
        "texts = Path(sys.argv[1]).read_text().split('\\n'); "
        "print([hashlib.sha256(learn(kind, 400, lambda: iter(texts), 1).to_str().encode()).hexdigest() "
        "for kind in ('wordpiece', 'bpe')])"
    )
    runs = [[sys.executable, "-c", code, str(lines)] for _ in range(3)]
    found = {subprocess.run(run, check=True, capture_output=True, timeout=300).stdout for run in runs}
    assert len(found) == 1


def test_letters_are_counted_by_hand() -> None:
    letters, inside = alphabet(["abca, a\u00e9\u4e2d", "ab-b"], 5)
    assert letters == sorted("ab,c-")  # of those that come once, the first
    assert inside == ["a", "b", "c"]


@pytest.mark.parametrize("subwords", ["wordpiece", "bpe"])
def test_the_saved_tokenizer_writes_what_the_model_reads(subwords: str, lines: Path, tmp_path: Path) -> None:
    made = made_with(lines, subwords=subwords)
    made.save_with(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id]
    assert [*ids, tokenizer.mask_token_id] == [PAD, 1, CLS, SEP, MASK]
    assert tokenizer.model_max_length == 32
    assert made.same_tokens(tmp_path)
    found = tokenizer("bara [MASK] kelin", "mono").input_ids
    assert (found[0], found.count(SEP), found.count(MASK)) == (CLS, 2, 1)
    assert tokenizer.decode(tokenizer("bara kelimo").input_ids, skip_special_tokens=True) == "bara kelimo"
    assert not made_with(lines, subwords=subwords, vocab_size=320).same_tokens(tmp_path)


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(f"{line} [SEP] [MASK] [CLS]" for line in sentences(300)))
    made = made_with(tmp_path / "a.txt")
    rows = made.prepared.rows["train"]
    assert not (rows == MASK).any()
    assert ((rows == CLS).sum(1) == (rows == SEP).sum(1)).all()


# Masking


def test_shares_of_masked_random_and_kept_tokens(made: Mlm) -> None:
    rows = np.concatenate([made.prepared.rows["train"]] * 40)
    found = mask(rows, Choice(5, 400), np.random.default_rng(0))
    chosen, before = np.take_along_axis(found.tokens, found.positions, 1), found.labels
    assert (before == np.take_along_axis(rows, found.positions, 1)).all()
    assert before.min() >= FIRST
    assert (np.diff(found.positions, axis=1) > 0).all()
    n = before.size
    assert n > 50_000
    shares = {"mask": (chosen == MASK).sum(), "kept": (chosen == before).sum()}
    shares["random"] = n - sum(shares.values())
    wanted = {"mask": 0.8, "kept": 0.1 + 0.1 / 395, "random": 0.1 - 0.1 / 395}  # a random token may be the same one
    for name, share in wanted.items():
        assert shares[name] / n == pytest.approx(share, abs=4 * (share / n) ** 0.5)
    same = found.tokens == rows
    np.put_along_axis(same, found.positions, True, 1)
    assert same.all()
    other = chosen[(chosen != MASK) & (chosen != before)]
    assert other.min() >= FIRST
    assert len(np.unique(other)) > 380  # of 395


def test_every_token_is_as_likely_to_be_masked() -> None:
    rows = np.tile(np.array([[CLS, *range(10, 40), SEP]]), (20_000, 1))
    counts = np.bincount(mask(rows, Choice(5, 400), np.random.default_rng(0)).positions.ravel(), minlength=32)
    assert counts[0] == counts[-1] == 0
    assert counts[1:-1] / 20_000 == pytest.approx(np.full(30, 5 / 30), abs=0.012)


def test_words_are_masked_whole(lines: Path) -> None:
    made = made_with(lines, mask="words")
    inside = continues(made.prepared.tokenizer)
    assert 50 < inside.sum() < 350
    scored = 0
    for step in range(5):
        batch = {name: x.numpy() for name, x in made.batch(0, step, 64).items()}
        rows = batch["input_ids"].copy()
        np.put_along_axis(
            rows, batch["masked_positions"], np.where(batch["labels"] < 0, rows[:, :1], batch["labels"]), 1
        )
        for row, positions, labels in zip(rows, batch["masked_positions"], batch["labels"], strict=True):
            hidden = set(positions[labels != IGNORED].tolist())
            scored += len(hidden)
            for position in hidden:  # the token before goes on to this one, or this one goes on to the next
                if inside[row[position]] and row[position - 1] >= FIRST:
                    assert position - 1 in hidden
                if position + 1 < 32 and inside[row[position + 1]]:
                    assert position + 1 in hidden
    assert scored > 0.7 * 5 * 64 * 5


def test_too_few_tokens_to_mask_are_not_scored() -> None:
    rows = np.array([[CLS, 9, SEP, CLS, 8, SEP, PAD, PAD]])
    for inside in (None, np.zeros(400, bool)):
        found = mask(rows, Choice(4, 400, inside), np.random.default_rng(0))
        assert sorted(found.labels[0].tolist()) == [IGNORED, IGNORED, 8, 9]
        assert (found.tokens[rows < FIRST] == rows[rows < FIRST]).all()


def test_held_out_masks_are_fixed_whatever_the_batch(made: Mlm) -> None:
    def every(size: int) -> dict[str, torch.Tensor]:
        batches = list(made.batches("test", size))
        return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}

    one, two = every(3), every(64)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert len(one["labels"]) == len(made.prepared.rows["test"])


def test_a_limit_changes_no_masks(made: Mlm, lines: Path) -> None:
    fewer = made_with(lines, valid_limit=5 * 32 + 3)
    [some], every = list(fewer.batches("valid", 100)), next(made.batches("valid", 100))
    assert len(some["labels"]) == 5 < len(every["labels"])
    assert all(torch.equal(some[name], every[name][:5]) for name in some)


# The task


def test_the_shapes_of_a_batch(made: Mlm) -> None:
    batch, held = made.batch(0, 0, 4), next(made.batches("valid", 4))
    assert batch.keys() == held.keys()
    assert {name: tuple(x.shape) for name, x in batch.items()} == {
        "input_ids": (4, 32), "seq_idx": (4, 32), "masked_positions": (4, 5), "labels": (4, 5),
    }  # fmt: skip
    assert made.describe()["documents"] == 600


def test_prepared_text_is_all_that_another_machine_needs(made: Task, lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    prepare_text(options_of(lines)).folder.rename(folder)
    there = task("mlm", {**SMALL, "prepared": str(folder)})
    assert there.describe() == made.describe()
    one, two = there.batch(0, 3, 8), made.batch(0, 3, 8)
    assert all(torch.equal(one[name], two[name]) for name in one)
    with pytest.raises(ValueError, match=r"option length is 64, .* prepared with 32: add data.length=32"):
        task("mlm", {**SMALL, "length": 64, "prepared": str(folder)})
    (folder / "train.rows").write_bytes(b"damaged")
    assert load(folder) is None
    with pytest.raises(ValueError, match="not a folder of prepared text, or it is damaged"):
        task("mlm", {**SMALL, "prepared": str(folder)})


def test_what_a_killed_process_left_is_removed_and_others_wait_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("\n".join(sentences(500, 3)))
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    options = options_of(tmp_path / "a.txt")
    folder = prepare_text(options).folder
    left, stranger = folder.with_name(f".part-{folder.name}-0"), folder.with_name(".part-mlm-of-another-text-0")
    shutil.move(folder, left)  # as if killed before it was renamed
    stranger.mkdir()
    made, write = [], prepared.write
    monkeypatch.setattr(prepared, "write", lambda *given: made.append(given) or write(*given))
    with ThreadPoolExecutor(3) as pool:  # each opens the lock for itself, as processes do
        assert {found.folder for found in pool.map(prepare_text, [options] * 3)} == {folder}
    assert len(made) == 1
    assert {one.name for one in folder.parent.iterdir()} == {folder.name, stranger.name, f".lock-{folder.name}"}
    assert load(folder) is not None


def test_long_preparation_gives_signs_of_life(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepared, "EVERY", -1.0)
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path))
    prepare_text(options_of(lines))
    said, size = capsys.readouterr().err, sum(map(len, sentences(600)))
    for doing in ("learning subwords", "writing rows"):
        assert f"mlm: {doing}, {size:,} of {size:,} characters" in said
    assert f"mlm: counting the text, {size:,} characters" in said


def test_a_full_disk_is_one_line(lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, tokenizer: Any) -> None:
        (folder / TOKENIZER).symlink_to("/dev/full")
        write_tokenizer(folder, tokenizer)

    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path))
    monkeypatch.setattr(prepared, "write_tokenizer", full)
    with pytest.raises(ValueError, match=r"cannot write .*No space left on device.*set SPLITSTEP_CACHE"):
        prepare_text(options_of(lines))
    assert all(one.name.startswith(".lock-") for one in (tmp_path / "text").iterdir())


def test_several_sources_are_mixed(lines: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": f"{x}\n\n{x}"}) for x in sentences(250, 1)))
    made = made_with({"train": [str(lines), str(tmp_path / "rows.jsonl")]})
    assert made.describe()["documents"] == 850


# Held-out text of one's own
TEXTS = {
    split: [f"{one} {two}" for one, two in pairwise(sentences(count + 1, seed))]
    for seed, (split, count) in enumerate({"train": 400, "valid": 40, "test": 30}.items())
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A file for each split; its lines are documents."""
    folder = tmp_path_factory.mktemp("text")
    for split, lines in TEXTS.items():
        (folder / f"{split}.txt").write_text("\n".join(lines))
    return {split: str(folder / f"{split}.txt") for split in TEXTS}


def without(files: dict[str, str], *names: str) -> dict[str, str]:
    return {name: file for name, file in files.items() if name not in names}


def read_back(made: Mlm, split: str) -> list[int]:
    """The tokens of a split's rows, without special ones."""
    rows = made.prepared.rows[split]
    return rows[rows >= FIRST].tolist()


def encoded(made: Mlm, lines: list[str]) -> list[int]:
    tokens = [made.prepared.tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    return [one for line in tokens for one in line if one >= FIRST]


def test_every_split_is_its_own_file(files: dict[str, str]) -> None:
    made = made_with(files)
    for split, lines in TEXTS.items():
        found, wanted = read_back(made, split), encoded(made, lines)
        assert found == wanted[: len(found)]
        assert len(wanted) - len(found) < 32  # what does not fill a row
        assert made.describe()["splits"][split]["documents"] == len(lines)
    assert made.describe()["documents"] == 470
    assert made.describe()["characters"] == sum(len(line) for lines in TEXTS.values() for line in lines)
    assert made.remarks() == {}


@pytest.mark.parametrize("own", ["valid", "test"])
def test_a_split_without_files_is_held_out_of_the_training_text(own: str, files: dict[str, str]) -> None:
    [other] = {"valid", "test"} - {own}
    made = made_with(without(files, other))
    held = [line for line in TEXTS["train"] if splits.split_of(line) == other]
    counts = {split: one["documents"] for split, one in made.describe()["splits"].items()}
    assert counts == {"train": 400 - len(held), own: len(TEXTS[own]), other: len(held)}
    found = read_back(made, other)
    assert found == encoded(made, held)[: len(found)]


def test_without_files_the_text_is_split_and_named_as_before(files: dict[str, str]) -> None:
    made = made_with(without(files, "valid", "test"))
    assert set(made.describe()["source"]) == {"files", "documents"}
    counts = {split: one["documents"] for split, one in made.describe()["splits"].items()}
    assert counts == {split: sum(splits.split_of(line) == split for line in TEXTS["train"]) for split in counts}


def test_documents_that_are_also_in_train_are_counted_and_told(files: dict[str, str], tmp_path: Path) -> None:
    """Blanks do not make a difference, part of a document does; a copy counts as often as it is there."""
    one, two, three = TEXTS["train"][:3]
    mixed = [*TEXTS["valid"], one, one, two.replace(" ", "  "), three[:-9]]
    (tmp_path / "valid.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in mixed))
    made = made_with({**files, "valid": str(tmp_path / "valid.jsonl")})
    assert made.remarks() == {"also in train": {"valid": 3}}
    assert made.describe()["splits"]["valid"]["also_in_train"] == 3
    again = task("mlm", {**SMALL, "prepared": str(made.prepared.folder)})
    assert again.remarks() == made.remarks()


def test_long_documents_are_compared_as_a_whole(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "PART", 64)
    long = TEXTS["train"][:200]
    (tmp_path / "train.txt").write_text("\n".join(long))
    (tmp_path / "same.txt").write_text("\n".join(long))
    (tmp_path / "other.txt").write_text("\n".join([*long[:-1], "Something else."]))
    named = {name: str(tmp_path / f"{name}.txt") for name in ("train", "same", "other")}
    made = made_with({"train": named["train"], "valid": named["other"], "test": named["same"]}, documents="file")
    assert made.remarks() == {"also in train": {"test": 1}}


def test_subwords_are_learnt_from_the_training_text_alone(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "greek.txt").write_text("\n".join(f"{line} \u03b1\u03b2\u03b3" for line in TEXTS["valid"]))
    made, plain = made_with({**files, "valid": str(tmp_path / "greek.txt")}), made_with(files)
    assert made.prepared.tokenizer.get_vocab() == plain.prepared.tokenizer.get_vocab()
    assert np.array_equal(made.prepared.rows["train"], plain.prepared.rows["train"])
    assert made.prepared.folder != plain.prepared.folder


@pytest.mark.parametrize("pairs", [False, True], ids=["masked", "pairs"])
def test_of_one_file_nothing_is_held_out(pairs: bool, files: dict[str, str], tmp_path: Path) -> None:
    """Its one document is trained on whole. With pairs there are two, for the other B."""
    count = 1 + pairs
    for split in TEXTS:
        (tmp_path / split).mkdir()
        for number in range(count):
            (tmp_path / split / f"{number}.txt").write_text(" ".join(TEXTS[split][number::count]))
    folders = {split: str(tmp_path / split) for split in TEXTS}
    made = made_with(folders, documents="file", next_sentence=pairs)
    assert {one["documents"] for one in made.describe()["splits"].values()} == {count}
    if not pairs:
        found = read_back(made, "train")
        assert found == encoded(made, [" ".join(TEXTS["train"])])[: len(found)]
    batch = next(made.batches("valid", 2))
    assert ("next_sentence_targets" in batch) == pairs


def test_a_held_out_file_without_text_or_with_too_little_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the valid split has .* tokens, which do not fill a row of 6000"):
        made_with(files, length=6000)
    (tmp_path / "blank.txt").write_text(" \n \n")
    with pytest.raises(ValueError, match="the valid split has 0 tokens, which do not fill a row of 32; give more text"):
        made_with({**files, "valid": str(tmp_path / "blank.txt")})

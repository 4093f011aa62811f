"""Held-out text of one's own for pre-training: it is read whole, nothing else is held out, and copies are counted."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_words import sentences

from splitstep.tasks import task
from splitstep.tasks.masked.mlm import FIRST, Mlm
from splitstep.text import documents
from splitstep.text.splits import split_of

SMALL: dict[str, Any] = {"vocab_size": 400, "length": 32, "documents": "line"}


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


def made_of(files: dict[str, str], **options: Any) -> Any:
    return task("mlm", {**SMALL, **files, **options})


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
    made = made_of(files)
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
    made = made_of(without(files, other))
    held = [line for line in TEXTS["train"] if split_of(line) == other]
    counts = {split: one["documents"] for split, one in made.describe()["splits"].items()}
    assert counts == {"train": 400 - len(held), own: len(TEXTS[own]), other: len(held)}
    found = read_back(made, other)
    assert found == encoded(made, held)[: len(found)]


def test_without_files_the_text_is_split_and_named_as_before(files: dict[str, str]) -> None:
    made = made_of(without(files, "valid", "test"))
    assert set(made.describe()["source"]) == {"files", "documents"}
    counts = {split: one["documents"] for split, one in made.describe()["splits"].items()}
    assert counts == {split: sum(split_of(line) == split for line in TEXTS["train"]) for split in counts}


def test_documents_that_are_also_in_train_are_counted_and_told(files: dict[str, str], tmp_path: Path) -> None:
    """Blanks do not make a difference, part of a document does; a copy counts as often as it is there."""
    one, two, three = TEXTS["train"][:3]
    mixed = [*TEXTS["valid"], one, one, two.replace(" ", "  "), three[:-9]]
    (tmp_path / "valid.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in mixed))
    made = made_of({**files, "valid": str(tmp_path / "valid.jsonl")})
    assert made.remarks() == {"also in train": {"valid": 3}}
    assert made.describe()["splits"]["valid"]["also_in_train"] == 3
    again = task("mlm", {**without(SMALL, "documents"), "prepared": str(made.prepared.folder)})
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
    made = made_of({"train": named["train"], "valid": named["other"], "test": named["same"]}, documents="file")
    assert made.remarks() == {"also in train": {"test": 1}}


def test_subwords_are_learnt_from_the_training_text_alone(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "greek.txt").write_text("\n".join(f"{line} \u03b1\u03b2\u03b3" for line in TEXTS["valid"]))
    made, plain = made_of({**files, "valid": str(tmp_path / "greek.txt")}), made_of(files)
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
    made = made_of(folders, documents="file", next_sentence=pairs)
    assert {one["documents"] for one in made.describe()["splits"].values()} == {count}
    if not pairs:
        found = read_back(made, "train")
        assert found == encoded(made, [" ".join(TEXTS["train"])])[: len(found)]
    batch = next(made.batches("valid", 2))
    assert ("next_sentence_targets" in batch) == pairs


def test_a_held_out_file_without_text_or_with_too_little_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the valid split has .* tokens, which do not fill a row of 6000"):
        made_of(files, length=6000)
    (tmp_path / "blank.txt").write_text(" \n \n")
    with pytest.raises(ValueError, match="the valid split has 0 tokens, which do not fill a row of 32; give more text"):
        made_of({**files, "valid": str(tmp_path / "blank.txt")})

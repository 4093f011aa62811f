"""Folders that Hugging Face datasets writes are read as it reads them, without it."""

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from splitstep.tasks import task
from splitstep.text.documents import find_files, read_parts

datasets: Any = pytest.importorskip("datasets")
datasets.disable_progress_bars()
TEXTS = ["one", "two\n\nparagraphs", None, "", "caf\u00e9 \u4e2d"]


def read(folder: Path) -> list[str]:
    return [part.text for part in read_parts(find_files([str(folder)], "mlm", None), "line")]


def refused(folder: Path) -> str:
    with pytest.raises(ValueError, match=re.escape(str(folder))) as error:
        read(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def saved(folder: Path, texts: list[Any] = TEXTS, **options: Any) -> Path:
    datasets.Dataset.from_dict({"id": list(range(len(texts))), "text": texts}).save_to_disk(folder, **options)
    return folder


CHANGES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda found: found,
    "some rows": lambda found: found.select([4, 0]),
    "shuffled": lambda found: found.shuffle(seed=1),
    "large strings": lambda found: found.cast_column("text", datasets.Value("large_string")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("shards", [1, 2])
def test_a_dataset_is_read_as_datasets_reads_it(change: str, shards: int, tmp_path: Path) -> None:
    found = CHANGES[change](datasets.Dataset.from_dict({"id": list(range(5)), "text": TEXTS}))
    found.save_to_disk(tmp_path / "it", num_shards=shards)
    wanted = datasets.load_from_disk(tmp_path / "it")["text"]
    assert read(tmp_path / "it") == [text for text in wanted if text]


def test_what_datasets_caches_in_the_folder_is_not_text(tmp_path: Path) -> None:
    saved(tmp_path / "it", ["a", "b"])
    datasets.load_from_disk(tmp_path / "it").map(lambda row: {"text": row["text"] * 2})
    assert list((tmp_path / "it").glob("cache-*.arrow"))
    assert read(tmp_path / "it") == ["a", "b"]


def test_datasets_itself_is_not_needed_but_pyarrow_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "it")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert len(read(tmp_path / "it")) == 3
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(tmp_path / "it")
    assert "needs pyarrow, which is not installed: pip install pyarrow" in said
    assert f'load_from_disk("{tmp_path / "it"}").to_json("text.jsonl")' in said


def test_the_file_that_it_says_to_write_is_read(tmp_path: Path) -> None:
    datasets.load_from_disk(saved(tmp_path / "it", ["a", "b\nc"])).to_json(tmp_path / "text.jsonl")
    assert read(tmp_path / "text.jsonl") == ["a", "b\nc"]


def test_of_several_splits_one_is_to_be_named(tmp_path: Path) -> None:
    one = datasets.Dataset.from_dict({"text": ["a", "b"]})
    datasets.DatasetDict({"train": one, "test": one.select([1])}).save_to_disk(tmp_path / "all")
    said = refused(tmp_path / "all")
    assert f"has the splits train, test: name one of them, e.g. {tmp_path / 'all' / 'train'}" in said
    assert read(tmp_path / "all" / "test") == ["b"]


def test_a_folder_without_a_list_of_files_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "it")
    (tmp_path / "it" / "state.json").unlink()
    assert "has no readable state.json, which names its files: name the .arrow files" in refused(tmp_path / "it")
    (tmp_path / "it" / "state.json").write_text('{"_data_files": [{"filename": "../../secret.arrow"}]}')
    assert "has no readable state.json" in refused(tmp_path / "it")


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    file = saved(tmp_path / "it", num_shards=2) / "data-00001-of-00002.arrow"
    whole = file.read_bytes()
    for content in (b"no arrow", whole[: len(whole) // 2]):
        file.write_bytes(content)
        assert f"{file} is damaged" in refused(tmp_path / "it")
    file.unlink()
    assert f"{file} is missing" in refused(tmp_path / "it")


def test_a_dataset_without_text_says_what_it_has(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"body": ["a"], "id": [1]}).save_to_disk(tmp_path / "it")
    assert 'needs a column "text"; it has body, id' in refused(tmp_path / "it")
    datasets.Dataset.from_dict({"text": [1, 2]}).save_to_disk(tmp_path / "numbers")
    assert 'the column "text" holds int64, and needs text' in refused(tmp_path / "numbers")


def test_it_trains_like_the_same_text_in_a_file(tmp_path: Path) -> None:
    chosen = random.Random(0)
    words = ["".join(chosen.choices("abcdefghij", k=5)) for _ in range(400)]
    lines = [" ".join(chosen.choices(words, k=20)) for _ in range(600)]
    saved(tmp_path / "train", lines[:500])
    saved(tmp_path / "held", lines[500:])
    for name, some in (("train", lines[:500]), ("held", lines[500:])):
        (tmp_path / f"{name}.txt").write_text("\n".join(some))
    options = {"vocab_size": 300, "length": 32, "documents": "line"}
    one, two = (
        task("mlm", {**options, "train": str(tmp_path / f"train{end}"), "valid": str(tmp_path / f"held{end}")})
        for end in ("", ".txt")
    )
    assert one.describe()["sha256"] == two.describe()["sha256"]

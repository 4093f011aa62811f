"""Claims about writing: whole or not at all, through no link that somebody left, and nobody else's work is touched."""

import os
from pathlib import Path

import pytest

from splitstep.support.files import is_leftover, sweep, whole_file, whole_folder, write_atomically


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Somebody's folder with a file in it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "file").write_text("theirs")
    return folder


@pytest.fixture
def out(tmp_path: Path, victim: Path) -> Path:
    """A folder to write in, where links wait under the names that one would guess."""
    folder = tmp_path / "out"
    folder.mkdir()
    for mark in (".part-", ".old-"):
        (folder / f"{mark}result.json").symlink_to(victim / "file")
        (folder / f"{mark}model").symlink_to(victim)
    return folder


def untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["file"] and (victim / "file").read_text() == "theirs"


def test_a_file_is_written_through_no_link(out: Path, victim: Path) -> None:
    for text in ("one", "two"):
        write_atomically(out / "result.json", text)
        assert (out / "result.json").read_text() == text
    assert not (out / "result.json").is_symlink()
    assert untouched(victim)


def test_a_folder_is_written_and_replaced_through_no_link(out: Path, victim: Path) -> None:
    for text in ("one", "two"):
        with whole_folder(out / "model") as part:
            (part / "weights").write_text(text)
        assert (out / "model" / "weights").read_text() == text
    assert not (out / "model").is_symlink()
    assert untouched(victim)


def test_a_link_in_place_of_the_file_is_replaced(out: Path, victim: Path) -> None:
    (out / "linked").symlink_to(victim / "file")
    write_atomically(out / "linked", "ours")
    assert (out / "linked").read_text() == "ours"
    assert untouched(victim)


def test_sweeping_removes_what_was_left_and_follows_no_link(out: Path, victim: Path) -> None:
    (out / ".part-model-0123").mkdir()
    (out / ".part-model-0123" / "weights").write_text("half")
    (out / ".part-recipe.yaml-4567").write_text("half")
    (out / "kept").write_text("ours")
    sweep(out)
    assert [path.name for path in out.iterdir()] == ["kept"]
    assert untouched(victim)


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "cache") as one:
        (one / "content").write_text("one")
        with whole_folder(tmp_path / "cache") as two:
            (two / "content").write_text("two")
        assert (tmp_path / "cache" / "content").read_text() == "two"
    assert (tmp_path / "cache" / "content").read_text() == "one"
    with whole_file(tmp_path / "file") as first:
        first.write(b"one")
        with whole_file(tmp_path / "file") as second:
            second.write(b"two")
        assert (tmp_path / "file").read_bytes() == b"two"
    assert (tmp_path / "file").read_bytes() == b"one"
    assert not any(map(is_leftover, tmp_path.iterdir()))


def test_what_a_killed_writer_left_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    (tmp_path / ".part-a[1].json-0123").write_text("half")
    (tmp_path / ".part-b.json-0123").write_text("of another file")
    with whole_file(tmp_path / "a[1].json") as slow:
        write_atomically(tmp_path / "a[1].json", "quick")
        slow.write(b"slow")
    assert (tmp_path / "a[1].json").read_text() == "slow"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".part-b.json-0123", "a[1].json"]


def test_a_file_may_be_read_by_whom_the_mask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "text")
        with whole_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750

"""What a distillation says of damaged files, of its cache and of models that do not work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from distil_pairs import three_models

from splitstep import cli


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_models(tmp_path_factory.mktemp("pairs"))


def distil(place: Path, out: Path, *words: str, student: str = "student") -> int:
    """The exit code of a short run."""
    names = [str(place / name) for name in ("teacher", student)]
    short = ["train.steps=2", "train.batch=2", "data.length=256", "train.mode=eager"]
    return cli.main(["distil", *names, "--text", str(place / "text.jsonl"), "--out", str(out), *short, *words])


def errors(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]


@pytest.mark.parametrize("number", [b"\xff\x7f\xff\x7f", b"\xff\xff\xff\xff"], ids=["large", "negative"])
def test_damage_inside_of_a_cache_is_one_line(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: bytes
) -> None:
    assert distil(place, tmp_path / "one", "--cache", str(tmp_path / "c")) == 0
    file = tmp_path / "c" / "ids.bin"
    file.write_bytes(number * (file.stat().st_size // 4))
    capsys.readouterr()
    assert distil(place, tmp_path / "two", "--cache", str(tmp_path / "c")) == 2
    [line] = errors(capsys)
    assert re.search(r"ids.bin has tokens that are not among .* so the cache is damaged: delete the folder", line)


@pytest.mark.parametrize(("method", "told"), [("sra", False), ("kl", True)])
def test_a_cache_tells_of_logits_if_it_has_them(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, told: bool
) -> None:
    assert distil(place, tmp_path / "run", "--method", method, "data.valid=1", "data.test=22") == 0
    printed = capsys.readouterr().err
    assert ("64 largest logits a token" in printed) == told
    assert "reads 1 of 1 row once" in printed
    assert "on 1 row: " in printed


@pytest.mark.parametrize(("largest", "much"), [(1, True), (300, False)])
def test_a_large_loss_of_a_cache_is_told_with_what_to_do(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], largest: int, much: bool
) -> None:
    assert distil(place, tmp_path / "run", f"objective.largest={largest}") == 0
    [line] = [one for one in capsys.readouterr().err.splitlines() if one.startswith("from the teacher itself")]
    found = re.search(r"kl (\S+) - (\S+) = \S+(?: \((\d+)% less\); raise objective.largest .* --online)?$", line)
    assert found
    assert bool(found[3]) == much
    if much:
        assert abs(int(found[3]) - 100 * (1 - float(found[2]) / float(found[1]))) < 1

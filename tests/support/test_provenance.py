"""What a result was made with is one record, whose entries stand among the result's own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import splitstep
from splitstep.support.provenance import COMMAND, PACKAGES, Provenance, made, made_by_study
from splitstep.support.typed import Inlined, plain, read_as


class Found(NamedTuple):
    figure: float
    made: Inlined[Provenance]
    note: str = ""


OLD = {
    "figure": 0.5, "recipe": {"task": "digits"}, "engine": "local", "threads": 1, "command": None,
    "versions": {"python": "3.11"}, "commit": None, "date": "2026-01-31",
}  # fmt: skip


def test_its_entries_are_those_of_the_record_that_holds_it() -> None:
    found = read_as(Found, OLD, "it")
    assert found.made.recipe == {"task": "digits"}
    assert found.made.data is None
    assert found.made.threads == 1
    assert list(plain(found)) == [name for name in OLD if name != "command"] + ["note"]
    assert read_as(Found, json.loads(json.dumps(plain(found))), "it") == found


def test_a_wrong_entry_is_named_where_it_stands() -> None:
    for change, told in (({"versions": None}, "it.versions is None"), ({"threads": "two"}, "it.threads is .two.")):
        with pytest.raises(ValueError, match=told):
            read_as(Found, {**OLD, **change}, "it")
    with pytest.raises(ValueError, match="it has no commit"):
        read_as(Found, {name: value for name, value in OLD.items() if name != "commit"}, "it")


def test_what_is_made_now_says_with_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_COMMIT", "abc123")
    token = COMMAND.set("splitstep compare")
    now = made_by_study(threads=2, engine="local", devices=("cpu", "gpu"))
    COMMAND.reset(token)
    assert (now.commit, now.command, made().command) == ("abc123", "splitstep compare", None)
    assert {"python", *PACKAGES} >= now.versions.keys() >= {"python", "torch"}
    rows = dict(now.entries("commit", "devices", "engine", "date"))
    assert rows == {"commit": "abc123", "devices": "cpu, gpu", "engine": "local, 2 threads per run", "date": now.date}


@pytest.mark.parametrize("tracked", [True, False])
def test_a_repository_around_an_installed_package_is_not_its_own(tracked: bool, tmp_path: Path) -> None:
    """A virtual environment inside of somebody's repository: the commit is theirs, not splitstep's."""
    inside = tmp_path / ("splitstep" if tracked else ".venv/lib/splitstep")
    shutil.copytree(Path(splitstep.__file__).parent, inside, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / ".gitignore").write_text(".venv/\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *words], check=True)
    code = "from splitstep.support.provenance import git_commit; print(git_commit())"
    environment = {name: value for name, value in os.environ.items() if name != "SPLITSTEP_COMMIT"}
    environment["PYTHONPATH"] = str(inside.parent)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert done.stdout.strip() == (head if tracked else "None"), done.stderr

"""`splitstep recipes` and `splitstep tasks` say what there is, and what they say is true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from splitstep import cli
from splitstep.options import read_options
from splitstep.recipes import FOLDER, list_recipes, recipe_names
from splitstep.shelf import SHELF
from splitstep.tasks import TASKS
from splitstep.training import load_recipe

OWN = list(TASKS.paths)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(words) == 0
    return capsys.readouterr().out


def test_every_recipe_and_every_task_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for verb, names in (("recipes", recipe_names()), ("tasks", list(TASKS)), ("arms", list(SHELF))):
        lines = printed(capsys, verb).splitlines()
        assert [name for name in names if not any(re.match(rf"{name}( |$)", line) for line in lines)] == []


def test_as_markdown_and_json_they_are_listed_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = printed(capsys, "recipes", "--markdown").splitlines()
    assert [row.split(" | ")[0].lstrip("| ") for row in rows[2:]] == recipe_names()
    document = json.loads(printed(capsys, "recipes", "--json", "--out", str(tmp_path)))
    assert document == json.loads((tmp_path / "result.json").read_text())
    by_name = {one["name"]: one for one in document["recipes"]}
    assert by_name["enwik8"]["about"]["measured"] == "results/compare/enwik8/result.json"
    assert by_name["enwik8"]["data"]["files"] == ["enwik8/enwik8.zip"]
    assert "| not measured |" in next(row for row in rows if row.startswith("| wmt14-en-de-big |"))
    tasks = {one["name"]: one for one in json.loads(printed(capsys, "tasks", "--json"))["tasks"]}
    assert tasks["multi30k"]["recipes"] == ["multi30k-de-en", "multi30k-en-de"]
    assert printed(capsys, "tasks", "--markdown").startswith("| task | what it is |")


def test_a_recipe_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "recipes", "digits") == (FOLDER / "digits.yaml").read_text()


def test_every_task_of_the_package_has_a_recipe_and_says_where_its_data_are() -> None:
    assert set(OWN) == {one.task for one in list_recipes()}
    assert [name for name in OWN if TASKS[name].note is None] == []


@pytest.mark.parametrize("name", OWN)
def test_what_a_task_says_of_its_data_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, and with nobody to fetch from, it works, or it misses the files that it names."""
    monkeypatch.setenv("SPLITSTEP_MIRROR", "http://127.0.0.1:9")  # nobody answers there
    kind, note = TASKS[name], TASKS[name].note
    assert note is not None
    if note.how in ("built in", "generated"):
        assert not note.files
        kind(read_options(kind.Options, few(name), name), tmp_path)
    elif note.how == "your own":
        with pytest.raises(ValueError, match=r"option (path|train) is missing"):
            kind.Options()
    else:
        with pytest.raises(ValueError, match=r"is missing") as error:
            kind(load_recipe(recipe(name)).options, tmp_path)
        assert any(str(tmp_path / file) in str(error.value) for file in note.files)
        assert note.how == ("fetched" if "could not be fetched" in str(error.value) else "by hand")
        hosts = re.findall(r"https?://[^/\s]+", str(error.value))
        assert set(hosts) - {"http://127.0.0.1:9"} <= set(re.findall(r"https?://[^/\s]+", note.origin))


def few(name: str) -> dict[str, Any]:
    return {"listops": {"train": 20, "valid": 5, "test": 5}}.get(name, {})


def recipe(task: str) -> str:
    return next(one.name for one in list_recipes() if one.task == task)

"""Commands in the process of a test: what they print as JSON, and the one line of those that are wrong."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from splitstep import cli
from splitstep.experiments.study import study_of
from splitstep.report.drawing import document_to_page

Capsys = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def failure(capsys: Capsys, *words: Any) -> list[str]:
    """The lines on standard error of a call that is wrong; the last one says so, and nothing else does."""
    capsys.readouterr()
    assert cli.main([*map(str, words)]) == 2
    printed = capsys.readouterr()
    told = printed.err.splitlines()
    assert printed.out == ""
    assert [line for line in told if line.startswith(("Error:", "Traceback"))] == told[-1:]
    return told


def error_of(told: Sequence[str], verb: str) -> str:
    """The last line, which alone says what is wrong: each before it is the verb, two spaces and what it does."""
    *before, line = told
    assert line.startswith("Error: "), told
    assert all(one.startswith(f"{verb}  ") for one in before), told
    return line


def refusal(capsys: Capsys, *words: Any) -> str:
    """The line on standard error that refuses a call."""
    return f"{error_of(failure(capsys, *words), str(words[0]) if words else '')}\n"


def read_back(out: Path) -> Any:
    """The result that a verb wrote to a folder: it is read as it was written, and `report` draws its page again."""
    document, page = json.loads((out / "result.json").read_text()), (out / "report.html").read_text()
    result = study_of(document, "it").read(document, "it")
    assert result.json() == document
    assert cli.main(["report", str(out)]) == 0
    assert page == document_to_page(result.document()) == (out / "report.html").read_text()
    return result


def call(capsys: Capsys, *words: Any) -> Any:
    """The JSON that a call prints."""
    assert cli.main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)

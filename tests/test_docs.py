"""What the documentation shows is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from splitstep import cli, scheme

DOCS = Path(__file__).parent.parent / "docs"
NOTATION, THEORY = (DOCS / "notation.md").read_text(), (DOCS / "theory.md").read_text()
ERRORS = re.findall(r'^\$ splitstep schemes "(.*)"\n(Error: .*)$', NOTATION, re.M)
ROWS = re.findall(r"^\| `([^`]+)` \|", NOTATION, re.M)
PAIRS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|", NOTATION, re.M)


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error_examples_are_real(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schemes", text]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_notations_in_the_tables_are_schemes() -> None:
    assert len(ERRORS) >= 5
    assert len(PAIRS) >= 5
    for text in ROWS:
        scheme(text)
    for typed, canonical in PAIRS:
        assert str(scheme(typed)) == canonical


def test_tables_of_orders_are_real(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["lie", "strang", "strang-midpoint"],
        ["b:F/2 a:A b:F/2", "b:F/2 a:A b:F/2 @midpoint"],
    ):
        assert cli.main(["schemes", *words, "--measure"]) == 0
        table = capsys.readouterr().out.split("\n\n")[0]
        shown = [line.split() for line in THEORY.splitlines()]
        for line in table.splitlines()[2:]:
            assert line.split() in shown

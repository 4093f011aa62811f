"""The page about terms lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

from splitstep.distil.geometry import SPANS
from splitstep.distil.presets import ALIASES, PRESETS
from splitstep.distil.terms import TERMS

PAGE = (Path(__file__).parents[2] / "docs" / "theory" / "distillation_terms.md").read_text()


def rows(header: str) -> dict[str, str]:
    """The first two columns of the table with this header, without the marks of code."""
    table = PAGE[PAGE.index(f"| {header} |") :].split("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| `?((?:[^|`]|\\\|)+?)`? \|", table, re.M))


def test_the_page_lists_every_term() -> None:
    assert list(rows("term")) == list(TERMS)


def test_the_page_lists_every_alias_and_preset() -> None:
    assert rows("alias") == ALIASES
    assert rows("preset") == {name: preset.method for name, preset in PRESETS.items()}


def test_the_page_states_the_limit_of_spans() -> None:
    assert f"at most {SPANS} spans" in PAGE

"""The page about terms lists what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pytest
import torch
from made_up_distil import SHAPES, one_tokenizer
from torch import Tensor, nn

from splitstep.distil.divergences import answers, token_mean
from splitstep.distil.geometry import SPANS
from splitstep.distil.method import MethodLoss, parse_method
from splitstep.distil.presets import ALIASES, PRESETS
from splitstep.distil.records import Aligned, Shapes, Shown
from splitstep.distil.terms import TERMS, Needs, Term

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theory" / "distillation_terms.md").read_text()


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


def test_the_guides_example_is_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(
        r"```python\n(@final\n@dataclass.*?class LogitGap.*?)```", (DOCS / "guide/extending.md").read_text(), re.S
    )
    assert code
    known = (final, dataclass, Term, Needs, Shapes, Shown, Aligned, Mapping, nn, Tensor, token_mean)
    names = {one.__name__: one for one in known}
    exec(code[1], names)
    monkeypatch.setitem(TERMS.own, "gap", names["LogitGap"])
    made = one_tokenizer()
    found = MethodLoss(parse_method("ce + .5 gap(scale=2)"), SHAPES).double().values(*made)
    p, q = made.teacher.logits, made.student.logits
    assert isinstance(p, Tensor)
    assert isinstance(q, Tensor)
    expected = 2 * (p - q).square().mean(-1)[answers(made.aligned.labels)].mean()
    torch.testing.assert_close(found["gap"], expected)

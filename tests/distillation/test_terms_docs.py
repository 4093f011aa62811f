"""The page about terms lists what there is."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_distil import SHAPES, one_tokenizer, shortened

from splitstep.distillation.geometry import SPANS
from splitstep.distillation.losses import answers
from splitstep.distillation.method import ALIASES, PRESETS, MethodLoss, parse_method
from splitstep.distillation.records import IDS, LOGITS, TopK
from splitstep.distillation.terms import TERMS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theory" / "distillation_terms.md").read_text()


def rows(header: str) -> dict[str, str]:
    """The first two columns of the table with this header, without the marks of code."""
    table = PAGE[PAGE.index(f"| {header} |") :].split("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| `?((?:[^|`]|\\\|)+?)`? \|", table, re.M))


def test_the_page_lists_every_term_alias_and_preset_and_the_limit_of_spans() -> None:
    assert list(rows("term")) == list(TERMS)
    assert rows("alias") == ALIASES
    assert rows("preset") == {name: preset.method for name, preset in PRESETS.items()}
    assert f"at most {SPANS} spans" in PAGE


def test_the_guides_example_is_a_term_online_and_from_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (DOCS / "guide/extending.md").read_text()
    code = re.search(r"```python\n((?:(?!```).)*class TotalVariation.*?)```", guide, re.S)
    assert code
    names: dict[str, Any] = {}
    exec(code[1], names)
    monkeypatch.setitem(TERMS.own, "tv", names["TotalVariation"])
    loss = MethodLoss(parse_method("ce + .5 tv(scale=2)"), SHAPES).double()
    online = one_tokenizer()
    cached = shortened(online)
    p, q = (side[LOGITS].softmax(-1) for side in (online.teacher, online.student))
    scored = answers(online.aligned.labels)
    torch.testing.assert_close(loss.values(*online)["tv"], (p - q).abs().sum(-1)[scored].mean())
    assert isinstance(cached.teacher.logits, TopK)
    gaps = (p - q).gather(-1, cached.teacher[IDS])
    rest = gaps.sum(-1).abs()  # what the largest lack, the others have
    torch.testing.assert_close(loss.values(*cached)["tv"], (gaps.abs().sum(-1) + rest)[scored].mean())

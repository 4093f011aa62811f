"""What docs/results/inspect.md quotes of models is what their stored results say, and figures are those of before."""

import json
from pathlib import Path
from typing import Any

import pytest

from splitstep.experiments.study import STUDIES
from splitstep.studies.inspect.sentences import sentences

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results" / "inspect"
PAGE = " ".join((ROOT / "docs" / "results" / "inspect.md").read_text().split())
MODELS = sorted(file.parent.name for file in STORED.glob("sentences/*/result.json"))


def read(name: str) -> Any:
    return STUDIES["inspect"].read(json.loads((STORED / name / "result.json").read_text()), name)


@pytest.mark.parametrize("name", MODELS)
def test_the_page_quotes_all_sentences_and_which_are_not_there(name: str) -> None:
    said = sentences(read(f"sentences/{name}"))
    assert said.sentences
    assert all(" ".join(one.text.split()) in PAGE for one in said.sentences)
    assert all(f"{one.name} ({one.why})" in PAGE for one in said.absent)


def test_figures_of_smollm2_are_those_that_were_stored_before() -> None:
    """Of unchanged meaning: series, losses and layers left out, text by text."""
    before, now = read("smollm2").model, read("sentences/smollm2").model
    pairs = [(one.figures, other.figures) for one in now.series if (other := before.find(one.probe, one.name))]
    assert len(pairs) > 10
    pairs += [((one.changes,), (other.changes,)) for one, other in zip(now.skipped, before.skipped, strict=True)]
    for rows, old in [*pairs, ((now.losses,), (before.losses,))]:
        for row, other in zip(rows, old, strict=False):
            many = min(len(row), len(other))  # layers were left out on fewer texts
            assert row[:many] == pytest.approx(other[:many], rel=1e-5, abs=2e-5, nan_ok=True)

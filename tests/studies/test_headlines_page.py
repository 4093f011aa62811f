"""A page begins with a headline without figures, then a picture; sentences with figures and folded evidence follow."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspections import findings, inspected, series
from scipy.stats import permutation_test

from splitstep.experiments.study import STUDIES
from splitstep.report.charts import Chart, Explained, ParticleChart
from splitstep.report.document import Beside, Document, Evidence, Heading, Table, Verdict
from splitstep.report.drawing import document_to_page
from splitstep.studies.glue.document import Pairs, clause, headline, pairs_of
from splitstep.studies.glue.result import LOSS, MEAN, SETTLE, GlueResult
from splitstep.studies.inspect.result import Evidence as Measured
from splitstep.studies.inspect.result import Health, Skipped

RESULTS = Path(__file__).parents[2] / "results"
STORED = (
    "approximate/product", "distil/pair_e", "distil/pair_f", "inspect/minilm", "inspect/smollm2",
    "inspect/smollm2-converge", "pde/digits-discretisation", "pde/digits-limit", "pde/listops", "pde/mnist",
    "pretrain/glue", "schemes",
)  # fmt: skip
ONE_LINE = 90  # characters: the continuous limit, which has two networks, needs more


def stored(name: str) -> Any:
    document = json.loads((RESULTS / name / "result.json").read_text())
    return STUDIES[document["study"]].read(document, name)


@pytest.mark.parametrize("name", STORED)
def test_a_page_begins_with_a_headline_without_figures_and_then_a_picture(name: str) -> None:
    document: Document = stored(name).document()
    page = document_to_page(document)
    [shown] = re.findall(r'</h1>\n<p class="verdict headline [\w-]+">(.*?)</p>\n<', page)
    assert unescape(shown) == document.headline
    assert not re.search(r"\d", document.headline)
    assert len(document.headline) <= ONE_LINE or name == "pde/digits-limit"
    assert isinstance(document.parts[0], Chart | Beside)
    shown_at_once = [part for part in document.parts[1:] if not isinstance(part, Table)]  # a table for terminals
    assert not any(isinstance(part, Chart | Beside | Heading) for part in shown_at_once)


@pytest.mark.parametrize("name", ["inspect/minilm", "inspect/smollm2"])
def test_an_inspection_shows_particles_first_and_its_sentences_lead_to_folded_evidence(name: str) -> None:
    document = stored(name).document()
    first = document.parts[0]
    assert isinstance(first, Explained)
    assert isinstance(first.chart, ParticleChart)
    said = [part for part in document.parts if isinstance(part, Verdict)]
    page = document_to_page(document)
    links = re.findall(r'<a href="#([\w-]+)">', page)
    assert len(links) == len(said) > 1
    assert set(links) <= set(re.findall(r'<details id="([\w-]+)">', page))
    titles = [part.title for part in document.parts if isinstance(part, Evidence)]
    assert len(titles) == len(set(titles)) > 5
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(ids) == len(set(ids))


HEALTH = Health((), (), 6.0, ())
LOSSES = (2.0, 2.2, 2.4, 2.2)  # nats, well below a uniform guess


def left_out(*costs: float) -> tuple[Skipped, ...]:
    """Layers that cost so much alone."""
    return tuple(Skipped(i, (cost - 0.01, cost, cost + 0.01, cost)) for i, cost in enumerate(costs))


@pytest.mark.parametrize(("more", "said"), [
    ({}, "All weights and states are finite."),
    ({"losses": (5.9, 6.0, 6.1, 6.0)}, "The model has learned nothing."),
    ({"layers": 2, "skipped": left_out(0.5, 0.9)},
     "No layer can be left out for free; all weights and states are finite."),
    ({"skipped": left_out(0.0, 0.9)}, "One layer can be left out for free; all weights and states are finite."),
    ({"skipped": left_out(0.0, 0.9, 0.05)}, "Some layers can be left out for free; all weights and states are finite."),
    ({"series": (series("attention", "first token", "layer", [[0.1, 0.5, 0.6], [0.1, 0.51, 0.6], [0.1, 0.5, 0.61]]),)},
     "Most layers attend to the first token; all weights and states are finite."),
])  # fmt: skip
def test_the_headline_of_an_inspection_follows_its_findings(more: dict[str, Any], said: str) -> None:
    found = inspected(findings(**{"losses": LOSSES, "evidence": Measured(HEALTH), **more}))
    assert found.document().headline == said


def with_pairs(found: GlueResult, what: str, many: int) -> Pairs:
    """A claim of a stored result as if there were so many pairs, all in favour of it."""
    one = next(one for one in pairs_of(found) if one.found.what == what)
    return one._replace(gains=[0.5] * many)


def test_few_pairs_leave_glue_undecided_and_say_what_they_agree_on() -> None:
    found = stored("pretrain/glue")
    assert headline(found) == "Macaron's masked loss is lower in each pair; GLUE is undecided."
    assert [one.answer for one in pairs_of(found)] == ["supported"] * 2  # by the rule
    assert found.document().verdict.kind == "open"
    few, enough = SETTLE - 1, SETTLE
    assert [clause(with_pairs(found, MEAN, many)) for many in (few, enough)] == [
        "GLUE is undecided", "macaron's GLUE mean is higher"
    ]  # fmt: skip
    assert clause(with_pairs(found, LOSS, enough)) == "macaron's masked loss is lower"
    assert clause(with_pairs(found, LOSS, 2)) == "the masked loss is undecided"
    mixed = with_pairs(found, LOSS, few)
    assert clause(mixed._replace(gains=[0.5, -0.5, 0.5])) == "the masked loss is undecided"
    assert clause(mixed._replace(gains=[-0.5] * 3)) == "macaron's masked loss is higher in each pair"
    page = document_to_page(found.document())
    assert re.findall(r'data-head="sign-flip p"><span>([\d.]+)', page) == ["0.0625", "0.0625"]
    alone = replace(found, rows=found.rows[:1], differences=(), claims=())
    assert headline(alone) == "Nothing was compared."


@pytest.mark.parametrize(
    "gains", [[1.0, 2.0, 3.0, 4.0, 5.0], [3.0, -1.0, 2.0, -0.5], [1.0, -1.0], [0.1, 0.2, -0.3, 0.4]]
)
def test_the_sign_flip_test_is_that_of_scipy(gains: list[float]) -> None:
    found = stored("pretrain/glue")
    ours = pairs_of(found)[0]._replace(gains=gains).sign_flip
    exact = permutation_test((np.array(gains),), np.mean, permutation_type="samples", n_resamples=9999)
    assert ours == pytest.approx(exact.pvalue)

"""Letters: a stranger's joins every model, and an unknown one is one clear line."""

from __future__ import annotations

import pytest
from tiny import tiny

import splitstep as ss
from splitstep.letters import LETTERS
from splitstep.models import KINDS, cost, twin
from splitstep.report.diagram import draw


def test_the_rows_of_the_table() -> None:
    assert list(LETTERS) == ["A", "F", "C", "D", "S"]
    assert [letter for letter, row in LETTERS.items() if not row.backwards] == ["D"]
    assert [letter for letter, row in LETTERS.items() if row.free] == ["A", "F", "D", "S"]


@pytest.mark.usefixtures("stranger")
def test_a_strangers_letter_has_twins_and_a_part_of_its_own() -> None:
    reference = ss.CausalConfig(layers=4, width=64, heads=4, ffn=512)
    other = twin(reference, "A F G")
    assert other.scheme == "A F G"
    assert abs(cost(other).body / cost(reference).body - 1) < 1e-3
    with pytest.raises(ValueError, match=r"A\+G of 'A\+G F' sums several fields that look at earlier tokens"):
        tiny("causal", "A+G F")


@pytest.mark.usefixtures("stranger")
def test_each_field_of_a_strangers_letter_knows_its_place() -> None:
    drifts = [one for one in tiny("translation", "F0/2 A G+H F1/2").modules() if type(one).__name__ == "Drift"]
    assert {drift.spec.name for drift in drifts} == {"G", "H"}
    assert len({drift.spec.salt for drift in drifts}) == len(drifts) == 8


@pytest.mark.usefixtures("stranger")
def test_a_strangers_letter_is_drawn_in_its_colour() -> None:
    assert 'fill="#123456"' in draw(ss.scheme("A F G"))
    assert 'fill="#8a93a3"' in draw(ss.scheme("A F Z"))  # nobody's letter is grey


UNKNOWN = [
    ("A F Z", "it has A (attention), F (feed-forward), D (diffusion), S (stabiliser) and the"),
    ("A C F", "a decoder adds C (cross-attention) by itself"),
]


@pytest.mark.parametrize(("scheme", "says"), UNKNOWN)
@pytest.mark.parametrize("kind", list(KINDS))
def test_an_unknown_letter_is_one_clear_line_in_configs_and_twins(kind: str, scheme: str, says: str) -> None:
    config = KINDS[kind].config
    twins = (lambda: twin(config(), scheme), lambda: twin(config(), scheme, "flops"))
    for wrong in (lambda: config(scheme=scheme), *twins):
        with pytest.raises(ValueError, match=r"^The scheme ") as error:
            wrong()
        assert says in str(error.value)
        assert "\n" not in str(error.value)

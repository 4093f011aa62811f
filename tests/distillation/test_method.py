"""A method is text: read, printed, refused with a line that says what to type."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_distil import SHAPES, one_tokenizer

from splitstep.distillation.method import ALIASES, PRESETS, MethodLoss, parse_method
from splitstep.distillation.records import Shape, Shapes
from splitstep.distillation.terms import TERMS
from splitstep.distillation.terms.divergences import SkewedKL
from splitstep.distillation.terms.states import SpanStructure, key_layers, teacher_layer
from splitstep.flows.keys import places

CANONICAL = {
    "skl + 2 mta.dsa + .2 mta.hid": "skl + 2 mta.dsa + 0.2 mta.hid",
    " skl+2*mta.dsa+0.20 mta.hid ": "skl + 2 mta.dsa + 0.2 mta.hid",
    "skl + mta": "skl + 2 mta.dsa + 0.2 mta.hid",
    "mta": "skl + 2 mta.dsa + 0.2 mta.hid",
    "1 mta": "2 mta.dsa + 0.2 mta.hid",
    "ce + 3 mta(words=6, phrases=9,12)": "ce + 6 mta.dsa(words=6, phrases=9,12) + 0.6 mta.hid(words=6, phrases=9,12)",
    "sra": "0.6 ce + 0.4 sra.centre + 20 sra.geometry + 0.4 sra.vocabulary",
    "kl(temperature=2.0)": "kl(temperature=2)",
    "skl(alpha=.1)": "skl",
    "1e-3 kl + kl + js": "1.001 kl + js",
    "kl + kl(temperature=2)": "kl + kl(temperature=2)",
    "uld(at=ends)": "uld(at=ends)",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_methods_are_printed_as_they_are_read(text: str, canonical: str) -> None:
    method = parse_method(text)
    assert str(method) == canonical
    assert parse_method(canonical) == method


def test_options_become_values() -> None:
    method = parse_method("skl(alpha=.2, temperature=3) + mta.dsa(words=1,2, spans=64)")
    assert [one.term for one in method.summands] == [SkewedKL(3.0, 0.2), SpanStructure((1, 2), (), 64)]
    for name in TERMS:
        assert [(one.weight, one.name) for one in parse_method(name).summands] == [(1.0, name)]
    for name, preset in PRESETS.items():
        assert parse_method(str(parse_method(name))) == parse_method(name)
        assert "arXiv" in preset.source


WEIGHTS = st.floats(1e-6, 1e6)
SUMMANDS = st.tuples(WEIGHTS, st.sampled_from([*TERMS, *ALIASES, "kl(temperature=.3)", "mta(words=3)", "skl(alpha=0)"]))


@given(st.lists(SUMMANDS, min_size=1, max_size=6))
def test_what_is_printed_is_the_same_method(summands: list[tuple[float, str]]) -> None:
    method = parse_method(" + ".join(f"{weight!r} {name}" for weight, name in summands))
    assert parse_method(str(method)) == method


@pytest.mark.parametrize(("text", "message"), [
    ("", 'method "": write terms with weights and plus signs, such as "skl + 2 mta.dsa + .2 mta.hid"; the'),
    ("skl +", 'method "skl +": write terms'),
    ("sklk", 'method "sklk": there is no term "sklk"; did you mean "skl"?'),
    ("zebra", 'there is no term "zebra"; the terms are ce, kl'),
    ("mta.hidden", 'there is no term "mta.hidden"; did you mean "mta.hid"?'),
    ("skl(beta=1)", 'skl has no option "beta"; it has temperature, alpha'),
    ("mta(layer=1)", 'mta has no option "layer"; it has phrases, spans, words'),
    ("ce(temperature=1)", 'ce has no option "temperature"; it has none'),
    ("-1 kl", "the weight of kl is -1: give one above 0, or leave the term out"),
    ("kl(2)", 'write options as name=value, each once, such as "kl(temperature=2)", not "2"'),
    ("kl(temperature=1, temperature=2)", 'not "temperature=2"'),
    ("kl(temperature=warm)", "kl.temperature is 'warm', and needs a number"),
    ("kl(temperature=1,2)", "kl.temperature is [1, 2], and needs a number"),
    ("kl(temperature=0)", "temperature is 0: give a number above 0"),
    ("skl(alpha=1)", "alpha is 1: give a number from 0 to below 1"),
    ("mta.dsa(words=1.5)", "mta.dsa.words[0] is 1.5, and needs a whole number"),
    ("mta(spans=1)", "spans is 1: give at least 2"),
    ("uld(at=end)", 'uld.at is \'end\', and needs "order" or "ends"'),
])  # fmt: skip
def test_wrong_methods_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="method") as caught:
        parse_method(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_total_is_the_weighted_sum() -> None:
    made = one_tokenizer()
    loss = MethodLoss(parse_method("ce + .5 kl + .25 kl(temperature=2) + mta"), SHAPES).double()
    values = loss.values(*made)
    assert list(values) == ["ce", "kl", "kl_2", "mta.dsa", "mta.hid"]
    expected = values["ce"] + values["kl"] / 2 + values["kl_2"] / 4 + 2 * values["mta.dsa"] + values["mta.hid"] / 5
    torch.testing.assert_close(loss(*made), expected)


def test_projectors_are_built_for_widths_and_key_layers_and_follow_the_seed() -> None:
    """Orthogonal columns keep angles at first; between equal widths they are the identity."""
    shapes = Shapes(Shape(24, 8), Shape(12, 6))
    first, again, other = (MethodLoss(parse_method("mta + sra"), shapes, seed).state_dict() for seed in (1, 1, 2))
    assert {name: tuple(x.shape) for name, x in first.items()} == {
        "projectors.mta_hid.layer6.weight": (8, 6),
        "projectors.mta_hid.layer9.weight": (8, 6),
        "projectors.mta_hid.layer12.weight": (8, 6),
        "projectors.sra_centre.centres.weight": (8, 6),
    }
    for name, x in first.items():
        torch.testing.assert_close(x.mT @ x, torch.eye(6), rtol=0, atol=1e-6)
        assert torch.equal(x, again[name])
        assert not torch.equal(x, other[name])
    for x in MethodLoss(parse_method("mta"), Shapes(Shape(12, 4), Shape(6, 4))).parameters():
        assert torch.equal(x, torch.eye(4))


def test_key_layers_are_the_papers_for_gpt2() -> None:
    needs = parse_method("mta").needs(Shapes(Shape(48, 1600), Shape(12, 768)))
    assert places("states", needs.teacher) == [24, 36, 48]
    assert places("states", needs.student) == [6, 9, 12]


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_last_layers_match_and_the_map_is_monotone(student: int, teacher: int) -> None:
    found = [layer * teacher // student for layer in range(1, student + 1)]
    assert [teacher_layer(i + 1, student, teacher) for i, x in enumerate(found) if x] == [x for x in found if x]
    assert teacher_layer(student, student, teacher) == teacher
    layers = key_layers((), (0.5, 0.75, 1.0), student)
    assert layers[-1] == student
    assert list(layers) == sorted(set(layers))


def test_layers_that_do_not_exist_or_have_no_match_are_refused() -> None:
    for text, layer in (("mta(words=0)", 0), ("hidden(layers=5)", 5), ("mta.hid(phrases=9)", 9)):
        with pytest.raises(ValueError, match=f"^The student has no layer {layer}: name layers from 1 to 4."):
            MethodLoss(parse_method(text), SHAPES)
    with pytest.raises(ValueError, match=r"Layer 1 of the student's 12 has no match among the teacher's 4: .* 3 to 12"):
        MethodLoss(parse_method("hidden(layers=1)"), Shapes(Shape(4, 8), Shape(12, 8)))

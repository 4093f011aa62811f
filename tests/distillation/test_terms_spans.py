"""Terms between states agree with their equations, transcribed with loops, and with examples worked by hand."""

import math
from collections.abc import Mapping
from dataclasses import replace

import made_up_distil as made_up
import pytest
import torch
from made_up_distil import SHAPES, Made, changed, random, same, spans
from torch import Tensor

from splitstep.distillation.geometry import attention_masses, centres, shares, token_weights
from splitstep.distillation.method import MethodLoss, parse_method
from splitstep.distillation.records import FINAL, MASSES, OUTPUT, Spans
from splitstep.distillation.terms import sra
from splitstep.distillation.terms.sra import Side, weighted_kl
from splitstep.flows.keys import Key

PAIRS = {2: 4, 3: 6, 4: 8}  # the student's key layers of 4, and the teacher's of 8


def built(text: str) -> MethodLoss:
    return MethodLoss(parse_method(text), SHAPES).double()


def test_token_weights_are_their_equation_and_sum_to_one() -> None:
    teacher = made_up.one_tokenizer().teacher
    given = teacher[Key("states", 4)], teacher.real
    found, expected = token_weights(*given), torch.tensor(made_up.token_weights(*given), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.sum(1), torch.ones(3).double(), rtol=0, atol=1e-10)


def test_a_text_of_one_token_has_all_the_weight_and_an_empty_one_has_none() -> None:
    real = torch.tensor([[False, True, False], [False, False, False]])
    assert token_weights(random(2, 3, 4), real).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_attention_masses_are_the_row_of_the_last_real_token() -> None:
    attention, real = random(2, 3, 5, 5).softmax(-1), torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()
    found = attention_masses(attention.requires_grad_(), real)
    for text, last in ((0, 2), (1, 4)):
        sums = attention[text, :, last].sum(0) * real[text]
        assert found[text].tolist() == pytest.approx((sums / sums.sum()).tolist(), abs=1e-12)
    assert not found.requires_grad


def test_a_span_without_mass_has_its_plain_mean() -> None:
    states, ranges = random(1, 3, 4), torch.tensor([[[0, 2], [1, 3]]])
    found = shares(torch.tensor([[0.0, 0.0, 1.0]]), ranges, torch.ones(1, 2).bool())
    expected = torch.stack((states[0, :2].mean(0), states[0, 2]))[None]
    torch.testing.assert_close(centres(states, found.shares), expected)
    assert found.masses.tolist() == [[0.0, 1.0]]


def structure_at(made: Made, kind: str, layer: int) -> float:
    """MTA's sum over pairs at one layer: the mean over texts."""
    teacher, student = made.teacher[Key("states", PAIRS[layer])], made.student[Key("states", layer)]
    weights = made_up.token_weights(teacher, made.teacher.real)
    texts: list[float] = []
    for b, w in enumerate(weights):
        ranges = [theirs for theirs, _ in made_up.ranges_of(made.aligned.spans[kind], b)]  # pyright: ignore
        theirs, own = ([made_up.centre(x[b].tolist(), w, *span) for span in ranges] for x in (teacher, student))
        texts.append(made_up.pair_sum(theirs, own, [math.fsum(w[begin:end]) for begin, end in ranges]))
    return math.fsum(texts) / len(texts)


def test_mta_structure_is_its_equation() -> None:
    made = made_up.one_tokenizer()
    expected = [structure_at(made, "words", 2), structure_at(made, "phrases", 3), structure_at(made, "phrases", 4)]
    assert built("mta.dsa")(*made).item() == pytest.approx(math.fsum(expected) / 3, abs=1e-10)
    assert built("mta.dsa(words=2)")(*made).item() == pytest.approx(expected[0], abs=1e-10)
    assert built("mta.dsa(phrases=3,4)")(*made).item() == pytest.approx((expected[1] + expected[2]) / 2, abs=1e-10)


@pytest.mark.parametrize("name", ["mta.hid", "hidden"])
def test_mta_hidden_and_hidden_are_their_equations(name: str) -> None:
    made, loss = made_up.one_tokenizer(), built(name)
    total = 0.0
    for layer, theirs in PAIRS.items():
        known, states = made.teacher[Key("states", theirs)], made.student[Key("states", layer)]
        weights = made_up.token_weights(known, made.teacher.real)
        for b, t in made.student.real.nonzero().tolist():
            own = made_up.applied(loss.own(name)[f"layer{layer}"], states[b, t])
            if name == "mta.hid":
                total += weights[b][t] * (1 - made_up.cosine(own, known[b, t]))
            else:
                gaps = own - known[b, t].numpy()
                total += float((gaps**2).mean()) / int(made.student.real[b].sum()) / 3
    assert loss(*made).item() == pytest.approx(total / 3, abs=1e-10)


def weighted(made: Made, weights: Mapping[int, Tensor]) -> Made:
    """The batch with these token weights of the teacher, by layer."""
    return made._replace(teacher=changed(made.teacher, made_up.states(weights, "weights")))


def test_token_weights_from_a_cache_replace_those_of_the_states() -> None:
    """A cache may hold anything at padding."""
    made, loss = made_up.one_tokenizer(), built("mta.dsa + mta.hid")
    real = made.teacher.real
    known = {layer: token_weights(made.teacher[Key("states", layer)], real) for layer in PAIRS.values()}
    torch.testing.assert_close(loss(*weighted(made, known)), loss(*made))
    scaled = {layer: (3 * w).masked_fill(~real, 5.0) for layer, w in known.items()}  # only their proportions count
    torch.testing.assert_close(loss(*weighted(made, scaled)), loss(*made))
    other = {layer: w.flip(1) for layer, w in known.items()}
    assert loss(*weighted(made, other)) != loss(*made)


@pytest.mark.parametrize("name", ["sra.centre", "sra.geometry", "sra.vocabulary"])
def test_masses_are_detached(name: str) -> None:
    made = made_up.two_tokenizers()
    masses, final = made.student[MASSES].clone().requires_grad_(), made.student[FINAL].clone().requires_grad_()
    loss = built(name)(*made._replace(student=changed(made.student, {MASSES: masses, FINAL: final})))
    slopes = torch.autograd.grad(loss, (masses, final), allow_unused=True)
    assert slopes[0] is None
    assert slopes[1] is not None


class Sra:
    """SRA's centres and weights of one text, by loops."""

    def __init__(self, made: Made, b: int) -> None:
        teacher, student = made.teacher, made.student
        ranges = made_up.ranges_of(made.aligned.spans["aligned"], b)
        masses = teacher[MASSES][b].tolist()
        self.theirs = [made_up.centre(teacher[FINAL][b].tolist(), masses, *span) for span, _ in ranges]
        self.own = [
            made_up.centre(student[FINAL][b].tolist(), student[MASSES][b].tolist(), *span) for _, span in ranges
        ]
        total = math.fsum(math.fsum(masses[begin:end]) for (begin, end), _ in ranges)
        self.weights = [math.fsum(masses[begin:end]) / total for (begin, end), _ in ranges]


@pytest.mark.parametrize(
    "text", ["sra.centre", "sra.geometry", "sra.vocabulary(temperature=1)", "sra.vocabulary(temperature=2)"]
)
def test_sra_terms_are_their_equations(text: str) -> None:
    made, loss, total = made_up.two_tokenizers(), built(text), 0.0
    temperature = int(text[-2]) if "=" in text else 1
    rows = [x[OUTPUT][made.aligned.vocabulary[:, i]].numpy() for i, x in enumerate((made.teacher, made.student))]
    for one in (Sra(made, 0), Sra(made, 1)):
        if text == "sra.geometry":
            total += made_up.pair_sum(one.theirs, one.own, one.weights)
        for w, theirs, own in zip(one.weights, one.theirs, one.own, strict=True):
            if text == "sra.centre":
                total += w * (1 - made_up.cosine(made_up.applied(loss.own(text)["centres"], own), theirs))
            elif text != "sra.geometry":
                p, q = (made_up.softmax(row @ x, temperature) for row, x in zip(rows, (theirs, own), strict=True))
                total += temperature**2 * w * made_up.kl(p, q)
    assert loss(*made).item() == pytest.approx(total / 2, abs=1e-10)


def test_at_most_so_many_spans_of_a_text_are_compared() -> None:
    made = made_up.one_tokenizer()
    words = made.aligned.spans["words"]
    scattered = Spans(*(x.flip(1) for x in words))  # padding first: it must not count among the first
    few = same([(5, 7), (3, 4)], [(2, 5), (0, 2)], [(4, 6)])
    limited, explicit = (made._replace(aligned=replace(made.aligned, spans={"words": x})) for x in (scattered, few))
    torch.testing.assert_close(built("mta.dsa(words=2, spans=2)")(*limited), built("mta.dsa(words=2)")(*explicit))


def test_spans_may_overlap_and_leave_gaps() -> None:
    states, w = random(1, 5, 3), random(1, 5, seed=1).exp()
    given = spans([[(0, 4, 0, 4), (1, 3, 1, 3)]])
    found = centres(states, shares(w, given.teacher, given.mask).shares)
    for i, (begin, end) in enumerate(((0, 4), (1, 3))):
        assert found[0, i].tolist() == pytest.approx(made_up.centre(states[0].tolist(), w[0].tolist(), begin, end))


@pytest.mark.parametrize("name", ["hidden", "mta.dsa", "mta.hid"])
def test_different_tokens_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} compares token by token, .*: use sra or uld"):
        built(name)(*made_up.two_tokenizers())


def sides() -> tuple[Side, Side, Tensor]:
    teacher = Side(random(7, 6, seed=1), random(11, 6, seed=2))
    student = Side(random(7, 5, seed=3).requires_grad_(), random(11, 5, seed=4).requires_grad_())
    return teacher, student, random(7, seed=5).exp()


def by_logits(teacher: Side, student: Side, weights: Tensor) -> Tensor:
    log_p, log_q = ((side.points @ side.rows.mT).log_softmax(-1) for side in (teacher, student))
    return (weights * (log_p.exp() * (log_p - log_q)).sum(-1)).sum()


@pytest.mark.parametrize("parts", [2, 16])
@pytest.mark.parametrize("entries", [1, 22, 33, 2**24])
def test_value_and_gradient_are_those_of_all_logits(entries: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sra, "ENTRIES", entries)
    monkeypatch.setattr(sra, "PARTS", parts)
    teacher, student, weights = sides()
    found, expected = 3 * weighted_kl(teacher, student, weights), 3 * by_logits(teacher, student, weights)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    slopes, exact = torch.autograd.grad(found, student), torch.autograd.grad(expected, student)
    torch.testing.assert_close(slopes, exact, rtol=1e-12, atol=1e-12)

"""What holds for every term: gradients, padding, order, parts of a batch, half precision."""

from collections.abc import Collection
from dataclasses import replace

import pytest
import torch
from made_up_distil import SHAPES, Made, changed, map_rows, one_tokenizer, random, shortened, states, two_tokenizers
from torch import Tensor
from torch.nn import functional

from splitstep.distillation.losses import answers
from splitstep.distillation.method import MethodLoss, parse_method
from splitstep.distillation.records import LOGITS, MASSES, Outputs, Spans
from splitstep.distillation.terms import TERMS
from splitstep.flows.keys import Key

CROSS = ("uld", "uld(at=ends)", "sra.centre", "sra.geometry", "sra.vocabulary")
TEXTS = [*(name for name in TERMS if name not in CROSS), *CROSS, "kl(temperature=2)", "hidden(layers=1,3)"]
SHORT = ("kl", "rkl", "js", "skl", "srkl", "kl(temperature=2)", "uld")


def made_for(text: str) -> Made:
    return two_tokenizers() if text in CROSS else one_tokenizer()


def built(text: str) -> MethodLoss:
    return MethodLoss(parse_method(f"1 {text}"), SHAPES).double()


def leaves(made: Made) -> dict[Key, Tensor]:
    """All that the student shows and learns by: logits, final states, output matrix, states."""
    return {key: x for key, x in made.student.shown.items() if key != MASSES}


CASES = [*((text, made_for(text)) for text in TEXTS), *((text, shortened(made_for(text))) for text in SHORT)]


@pytest.mark.parametrize(("text", "made"), CASES, ids=[*TEXTS, *(f"{text}, largest" for text in SHORT)])
def test_gradients_are_those_of_finite_differences(text: str, made: Made) -> None:
    loss = built(text)
    values = leaves(made)
    inputs = [x.clone().requires_grad_() for x in values.values()]

    def function(*given: Tensor) -> Tensor:
        return loss(*made._replace(student=changed(made.student, dict(zip(values, given, strict=True)))))

    slopes = torch.autograd.grad(function(*inputs), inputs, allow_unused=True)
    used = [i for i, slope in enumerate(slopes) if slope is not None and bool(slope.any())]
    assert used, "the student learns from every term"

    def of_used(*given: Tensor) -> Tensor:
        chosen = dict(zip(used, given, strict=True))
        return function(*(chosen.get(i, x) for i, x in enumerate(values.values())))

    assert torch.autograd.gradcheck(of_used, [inputs[i] for i in used], fast_mode=True)
    if len(used) == 1:
        assert torch.autograd.gradcheck(of_used, [inputs[i] for i in used])


@pytest.mark.parametrize("text", ["hidden", "mta.hid", "sra.centre"])
def test_projectors_learn(text: str) -> None:
    loss, made = built(text), made_for(text)
    parameters = list(loss.parameters())
    assert parameters
    for slope in torch.autograd.grad(loss(*made), parameters):
        assert slope.abs().max() > 1e-6


def noisy_pad(x: Tensor, left: int, right: int) -> Tensor:
    """More tokens at both ends: no answer and not real, but with values that must not count."""
    value = {torch.bool: 0, torch.long: -100}.get(x.dtype, 7.5)
    return functional.pad(x, (*((0, 0) * (x.dim() - 2)), left, right), value=value)


def more_spans(given: Spans, left: int) -> Spans:
    moved = Spans(given.teacher + left, given.student + left, given.mask)
    return Spans(*(functional.pad(x, (*((0, 0) * (x.dim() - 2)), 0, 3), value=0) for x in moved))


@pytest.mark.parametrize(("left", "right"), [(0, 3), (2, 0), (2, 3)])
@pytest.mark.parametrize("text", TEXTS)
def test_padding_changes_nothing(text: str, left: int, right: int) -> None:
    made = made_for(text)
    padded = map_rows(made, lambda x: x, lambda x: noisy_pad(x, left, right))
    kinds = {kind: more_spans(one, left) for kind, one in made.aligned.spans.items()}
    padded, loss = padded._replace(aligned=replace(padded.aligned, spans=kinds)), built(text)
    torch.testing.assert_close(loss(*padded), loss(*made), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("text", TEXTS)
def test_the_order_of_texts_changes_nothing(text: str) -> None:
    made, loss = made_for(text), built(text)
    torch.testing.assert_close(loss(*map_rows(made, lambda x: x.flip(0))), loss(*made), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("text", TEXTS)
def test_parts_of_a_batch_add_up_to_its_mean(text: str) -> None:
    made, loss = made_for(text), built(text)
    items, rows = answers(made.aligned.labels).sum(), len(made.student.real)

    def part(begin: int, end: int) -> Tensor:
        one = map_rows(made, lambda x: x[begin:end])
        return loss(*one._replace(aligned=replace(one.aligned, items=items, rows=rows)))

    torch.testing.assert_close(part(0, 1) + part(1, rows), loss(*made), rtol=1e-12, atol=1e-13)


def halved(x: Outputs) -> Outputs:
    return changed(x, {key: y.bfloat16() for key, y in x.shown.items()})


@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "plain"])
@pytest.mark.parametrize("text", TEXTS)
def test_half_precision_gives_a_float32_loss_near_the_exact_one(text: str, autocast: bool) -> None:
    made = made_for(text)
    given = Made(halved(made.teacher), halved(made.student), made.aligned)
    loss = MethodLoss(parse_method(f"1 {text}"), SHAPES)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = loss(*given)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), loss.double()(*made), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("text", TEXTS)
def test_a_term_reads_what_it_declares_and_nothing_else(text: str) -> None:
    made, loss = made_for(text), built(text)
    needs = loss.method.needs(SHAPES)

    def limited(x: Outputs, keys: Collection[Key]) -> Outputs:
        return replace(x, shown={key: y for key, y in x.shown.items() if key in keys})

    texts, spans = made.aligned, {kind: made.aligned.spans[kind] for kind in needs.spans}
    aligned = replace(texts, spans=spans, vocabulary=texts.vocabulary if needs.vocabulary else None)
    teacher, student = limited(made.teacher, needs.teacher), limited(made.student, needs.student)
    torch.testing.assert_close(loss(teacher, student, aligned), loss(*made), rtol=0, atol=0)


def test_every_term_is_tested_here_and_states_its_equation() -> None:
    assert {text.split("(")[0] for text in TEXTS} == set(TERMS)
    assert all(len(TERMS[name].__doc__ or "") > 40 for name in TERMS)


def test_a_student_that_is_its_teacher_has_nothing_to_learn() -> None:
    made = one_tokenizer()
    found = states({layer: random(3, 7, 6, seed=layer) for layer in (2, 3, 4)})
    teacher = Outputs(made.teacher.real, 4, {LOGITS: made.teacher[LOGITS], **found})
    shapes = SHAPES._replace(teacher=SHAPES.teacher._replace(layers=4), student=SHAPES.student._replace(width=6))
    loss = MethodLoss(parse_method("skl + mta + hidden"), shapes).double()
    assert loss(teacher, teacher, made.aligned).item() == pytest.approx(0, abs=1e-12)

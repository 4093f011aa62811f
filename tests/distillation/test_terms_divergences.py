"""Terms between distributions agree with their equations, transcribed with loops, and have a divergence's bounds."""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import made_up_distil as made_up
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_distil import IGNORED, SHAPES, Made, changed, kl, mix, one_tokenizer, random, shortened, two_tokenizers
from torch import Tensor
from torch.nn import functional

from splitstep.distillation import losses
from splitstep.distillation.losses import kl_divergence, row_divergences
from splitstep.distillation.method import MethodLoss, parse_method
from splitstep.distillation.records import LOGITS, TopK, top_k
from splitstep.kernels import softmax as long_softmax

Formula = Callable[[Sequence[float], Sequence[float]], float]
FORMULAS: dict[str, Formula] = {
    "kl": kl,
    "rkl": lambda p, q: kl(q, p),
    "js": lambda p, q: kl(p, mix(p, q, 0.5)) / 2 + kl(q, mix(p, q, 0.5)) / 2,
    "skl(alpha=.3)": lambda p, q: kl(p, mix(p, q, 0.3)),
    "srkl(alpha=.3)": lambda p, q: kl(q, mix(q, p, 0.3)),
}


def term(text: str, made: Made) -> Tensor:
    return MethodLoss(parse_method(text), SHAPES).double()(*made)


def heated(name: str, temperature: float) -> str:
    """The term with a temperature among its options."""
    begin = f"{name.removesuffix(')')}, " if "(" in name else f"{name}("
    return f"{begin}temperature={temperature})"


def scored(labels: Tensor) -> Iterator[tuple[int, int]]:
    """The positions that predict a token of the answer."""
    for b, row in enumerate(labels.tolist()):
        yield from ((b, t) for t in range(len(row) - 1) if row[t + 1] != IGNORED)


def logits_of(made: Made) -> tuple[list[list[list[float]]], list[list[list[float]]]]:
    return made.teacher[LOGITS].tolist(), made.student[LOGITS].tolist()


def brute_force(formula: Formula, made: Made, temperature: float, k: int | None = None) -> float:
    """The mean over the answer, times temperature²; with `k` over the largest logits and the tail as one class."""
    p, q = logits_of(made)
    values: list[float] = []
    for b, t in scored(made.aligned.labels):
        pair = made_up.softmax(p[b][t], temperature), made_up.softmax(q[b][t], temperature)
        if k:
            largest = sorted(range(len(p[b][t])), key=lambda i, row=p[b][t]: -row[i])[:k]
            pair = made_up.merged(pair[0], largest), made_up.merged(pair[1], largest)
        values.append(formula(*pair))
    return temperature**2 * math.fsum(values) / len(values)


@pytest.mark.parametrize("temperature", [1, 2])
@pytest.mark.parametrize("name", FORMULAS)
def test_divergences_are_their_equations(name: str, temperature: int) -> None:
    made = one_tokenizer()
    found = term(heated(name, temperature), made)
    assert found.item() == pytest.approx(brute_force(FORMULAS[name], made, temperature), abs=1e-10)


@pytest.mark.parametrize("temperature", [1, 2])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_tail_is_one_class_and_makes_a_lower_bound(name: str, temperature: int) -> None:
    made = one_tokenizer()
    full = term(heated(name, temperature), made).item()
    bounds = [term(heated(name, temperature), shortened(made, k)).item() for k in range(1, 11)]
    exact = [brute_force(FORMULAS[name], made, temperature, k) for k in range(1, 11)]
    assert bounds == pytest.approx(exact, abs=1e-10)
    assert bounds == sorted(bounds), "merging fewer classes never lowers a divergence"
    assert 0 <= bounds[0] < bounds[-1] <= full + 1e-12


@given(
    st.integers(0, 2**32), st.integers(2, 40), st.floats(0.1, 12), st.sampled_from([0.05, 0.1, 0.3]),
    st.sampled_from([0.5, 1.0, 2.0]),
)  # fmt: skip
def test_the_slope_of_skl_is_bounded_by_the_students_own_probability(
    seed: int, size: int, scale: float, alpha: float, temperature: float
) -> None:
    p, z = (random(1, size, seed=seed + n, scale=scale) for n in (0, 1))
    probability = (z / temperature).softmax(-1)
    slopes: dict[str, Tensor] = {}
    for name in ("kl", f"skl(alpha={alpha})"):
        between = parse_method(name).summands[0].term.between  # pyright: ignore
        logits = z.clone().requires_grad_()
        value = temperature**2 * row_divergences(p, logits, between, temperature).sum()
        [slopes[name]] = torch.autograd.grad(value, logits)
    expected = temperature * (probability - (p / temperature).softmax(-1))
    torch.testing.assert_close(slopes["kl"], expected, rtol=1e-9, atol=1e-12)
    bound = temperature * (1 - alpha) / alpha * probability
    assert (slopes[f"skl(alpha={alpha})"].abs() <= bound * (1 + 1e-9) + 1e-15).all()


@pytest.mark.parametrize("largest", [30.0, 80.0, 1e4])
def test_a_tiny_tail_keeps_its_digits(largest: float) -> None:
    """1 - sum would be 0 in float32 here: the student's tail is exp(-largest) and less."""
    logits = torch.zeros(1, 5)
    logits[0, 2] = largest
    teacher = top_k(torch.tensor([[0.0, 0.0, 3.0, 0.0, 0.0]]), 1)
    found = row_divergences(teacher, logits.requires_grad_(), lambda log_p, log_q: log_q[:, 1], 1.0)
    torch.testing.assert_close(found[0], torch.tensor(math.log(4) - largest), rtol=1e-6, atol=1e-6)
    found.sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[0.25, 0.25, -1.0, 0.25, 0.25]]), rtol=1e-6, atol=1e-6)


def test_a_rounded_cache_still_sums_to_one() -> None:
    kept = top_k(random(3, 9, scale=3), 4)
    rounded = TopK(kept.logits.bfloat16(), kept.ids, {1.0: kept.tails[1.0].bfloat16()})
    torch.testing.assert_close(rounded.logs(1.0).exp().sum(-1), torch.ones(3))


def test_what_cannot_be_compared_is_refused() -> None:
    for k in (0, 9):
        with pytest.raises(ValueError, match=f"{k} largest logits of 9: keep at least 1"):
            top_k(random(3, 9), k)
    with pytest.raises(ValueError, match="known at temperature 1, 2, but a term needs 3: write the teacher's cache"):
        term("kl(temperature=3)", shortened(one_tokenizer()))
    for name in FORMULAS:
        with pytest.raises(ValueError, match="this term needs the same tokens on both sides; use uld or sra"):
            term(name, two_tokenizers())


def test_jensen_shannon_is_symmetric_and_at_most_log_2() -> None:
    made = one_tokenizer()
    swapped = Made(made.student, made.teacher, made.aligned)
    torch.testing.assert_close(term("js", made), term("js", swapped))
    apart = torch.full((3, 7, 11), -1e4, dtype=torch.float64)
    sides = enumerate((made.teacher, made.student))
    far = Made(*(changed(x, {LOGITS: apart.index_fill(2, torch.tensor(i), 0)}) for i, x in sides), made.aligned)
    assert term("js", made).item() < math.log(2)
    assert term("js", far).item() == pytest.approx(math.log(2), abs=1e-12)


def test_high_temperature_compares_centred_logits() -> None:
    """Hinton et al.: T² KL tends to the mean of (z - v)² / (2 V) of centred logits z, v."""
    made = one_tokenizer()
    p, q = made.teacher[LOGITS], made.student[LOGITS]
    centred = (p - p.mean(-1, keepdim=True)) - (q - q.mean(-1, keepdim=True))
    expected = [float(centred[b, t].square().sum()) / 22 for b, t in scored(made.aligned.labels)]
    assert term("kl(temperature=1e4)", made).item() == pytest.approx(sum(expected) / len(expected), rel=1e-3)


def test_classes_that_the_teacher_excludes_count_nothing() -> None:
    """Some models mask tokens with -inf."""
    p = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.25, 0.25, 0.5]], dtype=torch.float64).log().requires_grad_()
    found = kl_divergence(p.log(), q)
    assert found.item() == pytest.approx(math.log(2))
    found.backward()
    assert q.grad.tolist() == [[-0.5, -0.5, 0.0]]


def test_cross_entropy_is_pytorchs() -> None:
    made = one_tokenizer()
    logits, labels = made.student[LOGITS][:, :-1], made.aligned.labels[:, 1:]
    expected = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(term("ce", made), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("name", FORMULAS)
def test_chunks_change_neither_values_nor_gradients(name: str, k: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = one_tokenizer() if k is None else shortened(one_tokenizer(), k)

    def value_and_slope() -> tuple[Tensor, Tensor]:
        logits = made.student[LOGITS].clone().requires_grad_()
        value = term(name, made._replace(student=changed(made.student, {LOGITS: logits})))
        return value.detach(), torch.autograd.grad(value, logits)[0]

    whole = value_and_slope()
    for module in (losses, long_softmax):
        monkeypatch.setattr(module, "ENTRIES", 11 * 4)  # 21 tokens in chunks of 4, the last one not full
    torch.testing.assert_close(value_and_slope(), whole, rtol=1e-13, atol=1e-15)


def test_no_chunk_of_the_logits_is_kept_for_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there after the forward pass is in half precision: no float32 copy of a chunk is left."""
    monkeypatch.setattr(losses, "ENTRIES", 64 * 50)
    q = torch.randn(2, 200, 50, dtype=torch.bfloat16, requires_grad=True)
    labels, real = torch.ones(2, 200, dtype=torch.long), torch.ones(2, 200, dtype=torch.bool)
    made = one_tokenizer()
    given = Made(
        changed(made.teacher, {LOGITS: torch.randn(2, 200, 50, dtype=torch.bfloat16)}, real=real),
        changed(made.student, {LOGITS: q}, real=real),
        replace(made.aligned, labels=labels),
    )
    kept: list[weakref.ref[Tensor]] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(weakref.ref(x)) or x, lambda x: x):
        loss = MethodLoss(parse_method("skl"), SHAPES)(*given)
    assert len(kept) > 20, "slopes are computed in the forward pass"
    alive = [x for one in kept if (x := one()) is not None]
    assert max((x.numel() for x in alive if x.dtype == torch.float32), default=0) <= 2 * 200
    loss.backward(retain_graph=True)
    assert q.grad.dtype == torch.bfloat16
    first = q.grad.clone()
    loss.backward()
    torch.testing.assert_close(q.grad, 2 * first, rtol=0, atol=0)


def sorted_distance(p: Sequence[float], q: Sequence[float]) -> float:
    size = max(len(p), len(q))
    a, b = (sorted(x, reverse=True) + [0.0] * (size - len(x)) for x in (p, q))
    return math.fsum(abs(x - y) for x, y in zip(a, b, strict=True))


def bounded_distance(p: Sequence[float], q: Sequence[float], k: int = 3) -> float:
    a, b = sorted(p, reverse=True), sorted(q, reverse=True)
    return math.fsum(abs(x - y) for x, y in zip(a[:k], b[:k], strict=True)) + abs(math.fsum(a[k:]) - math.fsum(b[k:]))


def uld_by_order(made: Made, distance: Formula, temperature: float = 1.0) -> float:
    p, q = logits_of(made)
    total, count = 0.0, len(list(scored(made.aligned.labels)))
    for text in range(len(p)):
        theirs = [t for b, t in scored(made.aligned.teacher_labels) if b == text]
        own = [t for b, t in scored(made.aligned.labels) if b == text]
        for s, t in zip(theirs, own, strict=False):
            total += distance(made_up.softmax(p[text][s], temperature), made_up.softmax(q[text][t], temperature))
    return total / count


@pytest.mark.parametrize("temperature", [1, 2])
def test_sorted_probabilities_are_compared_in_the_order_of_the_answers(temperature: int) -> None:
    made = two_tokenizers()
    expected = uld_by_order(made, sorted_distance, temperature)
    assert term(f"uld(temperature={temperature})", made).item() == pytest.approx(expected, abs=1e-10)


def test_sorted_probabilities_are_compared_where_both_have_read_the_same() -> None:
    made = two_tokenizers()
    p, q = logits_of(made)
    answer = list(scored(made.aligned.labels))
    pairs = [
        (p[b][theirs[1] - 1], q[b][own[1] - 1])
        for b in range(2)
        for theirs, own in made_up.ranges_of(made.aligned.spans["aligned"], b)
        if (b, own[1] - 1) in answer
    ]
    assert 0 < len(pairs) < 6
    expected = math.fsum(sorted_distance(made_up.softmax(x), made_up.softmax(y)) for x, y in pairs) / len(answer)
    assert term("uld(at=ends)", made).item() == pytest.approx(expected, abs=1e-10)


def test_sorted_probabilities_of_the_largest_logits_are_a_lower_bound() -> None:
    made = two_tokenizers()
    found = term("uld", shortened(made, 3)).item()
    assert found == pytest.approx(uld_by_order(made, bounded_distance), abs=1e-10)
    assert found <= term("uld", made).item()
    more = term("uld", shortened(made, 12)).item()  # more than the student's vocabulary has
    assert found < more <= term("uld", made).item() + 1e-12

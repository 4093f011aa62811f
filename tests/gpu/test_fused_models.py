"""Models on a GPU: derivatives and scores by kernels are those of the formulas, compiled generation says the same
words, and states that were not rebuilt are noticed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu import kernels as launched
from kernel_cases import KINDS, build, gradients, outcome, reversible, sample, slow
from tiny import left_mask, right_mask, tiny, tokens
from tiny_causal import ROWS, llama
from torch import Tensor, nn

import splitstep as ss
from splitstep.distillation.judging.answers import Writing, write_answers
from splitstep.distillation.losses import kl_divergence, row_divergences
from splitstep.distillation.records import top_k
from splitstep.distillation.terms.sra import Side, weighted_kl
from splitstep.fields import dropout as dropped
from splitstep.kernels import dropout, gumbel, rotary
from splitstep.kernels.fusing import FUSED
from splitstep.kernels.loss import Padded, cross_entropy, formula, project
from splitstep.kernels.softmax import FORMULAS, softmax_of
from splitstep.tasks.measures import score_tokens

HOW: dict[str, Any] = dict(max_new_tokens=6, do_sample=False)
ROWS_TO_WRITE = ("lie", "macaron", "strang-midpoint", "reversible")
CASES = [("causal", scheme, positions) for scheme in ROWS_TO_WRITE for positions in ("learned", "rotary")]


@pytest.mark.parametrize("dtype", FUSED)
def test_gradients_on_a_gpu_go_through_the_same_mask(dtype: torch.dtype) -> None:
    x, g, v = (torch.randn(6, 70, device="cuda").to(dtype) for _ in range(3))
    x.requires_grad_()
    g.requires_grad_()
    seed = torch.tensor(9, device="cuda")
    y = dropped(x.t(), 0.3, seed, 2)
    assert torch.equal(y, dropout.formula(x.t(), 0.3, seed, 2))
    [slope] = torch.autograd.grad(y, x, g.t(), create_graph=True)
    assert torch.equal(slope, dropout.formula(g.t(), 0.3, seed, 2).t())
    [back] = torch.autograd.grad(slope, g, v)
    assert torch.equal(back, dropout.formula(v.t(), 0.3, seed, 2).t())
    [ones] = torch.autograd.grad(dropped(x, 0.3, seed, 2).sum(), x)
    assert torch.equal(ones, dropout.formula(torch.ones_like(x), 0.3, seed, 2))


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
def test_a_reversible_network_on_a_gpu_is_that_of_the_formula_compiled_too(half: bool) -> None:
    network = reversible("cuda")
    found = gradients(network, network, half)
    torch.compiler.reset()
    compiled = gradients(network, torch.compile(network, backend="aot_eager"), half)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dropout, "fusible", lambda x, seed: False)
        expected = gradients(network, network, half)
    close: dict[str, float] = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(found, expected, **close)
    torch.testing.assert_close(compiled, expected, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_positions_have_the_right_gradients(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ss.CausalConfig(layers=2, width=64, heads=4, kv_heads=2, vocab_size=50, positions="rotary")
    torch.manual_seed(0)
    model = ss.SplitstepForCausalLM(config).cuda().train()
    ids = torch.randint(50, (3, 40), device="cuda")

    def slopes() -> list[torch.Tensor]:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            return list(torch.autograd.grad(model(ids, labels=ids).loss, list(model.parameters())))

    found = slopes()
    monkeypatch.setattr(rotary, "fusible", lambda _: False)
    for one, other in zip(found, slopes(), strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-4 if dtype == torch.float32 else 0.05, atol=1e-5 if dtype == torch.float32 else 1e-3
        )


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_answers_on_a_gpu_do_not_depend_on_the_kernel(top_p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    one, prompts = llama(), [row.prompt for row in ROWS]
    one.model.cuda()
    writing = Writing(seeds=(1, 2), max_tokens=80, top_p=top_p)
    found = write_answers(*one, prompts, writing)
    monkeypatch.setattr(gumbel, "kernel", lambda kind: None)
    assert write_answers(*one, prompts, writing) == found


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_on_a_gpu_is_that_of_head_and_formula(kind: str, half: bool) -> None:
    model = build(kind, 1001).cuda()
    if kind == "masked":
        nn.init.normal_(model.head.bias)
    loss, logits, slopes = outcome(model, half)
    assert (logits.shape, logits.stride(1)) == ((12, 50, 1001), 1024)
    assert logits.dtype == (torch.bfloat16 if half else torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        expected, others, gradients = outcome(model, half)
    assert others.is_contiguous()
    close: dict[str, float] = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(loss, expected, rtol=1e-3 if half else 1e-5, atol=0)
    torch.testing.assert_close(logits, others, **close)
    largest = max(gradient.norm() for gradient in gradients)
    for found, gradient in zip(slopes, gradients, strict=True):
        assert (found - gradient).norm() <= close["rtol"] * max(gradient.norm(), largest / 100)  # some are but noise


@pytest.mark.parametrize("dtype", FUSED)
def test_a_loss_is_one_kernel_over_the_logits_forward_and_one_backward(dtype: torch.dtype, tmp_path: Path) -> None:
    wide, labels = sample(600, 10_048, 10_007, "cuda")
    wide = wide.to(dtype).requires_grad_()
    items, trace = torch.tensor(500, device="cuda"), tmp_path / "trace.json"
    if not launched(lambda: wide.detach() * 2, trace):
        pytest.skip("the profiler sees no kernels here")

    def both(loss: Callable[..., Tensor], *more: Any) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(loss(wide[:, :10_007], labels, items, 0.1, *more), wide)

    names = launched(both(cross_entropy, wide), trace)
    assert names.count("_losses") == names.count("_slopes") == 1
    assert len(names) <= 8, names  # the sum, the division and its gradient, the gradient's beginning: single numbers
    assert len(names) < len(launched(both(formula), trace))


def test_an_odd_vocabulary_has_aligned_products_and_one_copy_of_the_matrix(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    head = nn.Linear(256, 10_007, bias=False, device="cuda")
    x = torch.randn(2048, 256, device="cuda", requires_grad=True)
    g = torch.randn(2048, 10_048, device="cuda").to(torch.bfloat16)

    def product() -> Any:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            _, wide = project(head, x)
        return torch.autograd.grad(wide, [x, head.weight], g)

    if not (names := launched(product, trace)):
        pytest.skip("the profiler sees no kernels here")
    assert not [name for name in names if "align1" in name or "align2" in name], names
    assert len(launched(lambda: Padded.apply(head.weight.detach(), 10_048, torch.bfloat16), trace)) == 2


def test_scores_on_a_gpu_copy_no_logits() -> None:
    wide, labels = sample(1000, 33_280, 33_278, "cuda")
    for dtype in FUSED:
        logits = wide.to(dtype).view(10, 100, -1)[..., :33_278]
        score_tokens(logits, labels.view(10, 100))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = score_tokens(logits, labels.view(10, 100))
        assert torch.cuda.max_memory_allocated() - before < 2**23  # the logits have eight times as much, and more
        expected = score_tokens(logits.cpu(), labels.view(10, 100).cpu())
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_divergence_from_a_cache_is_that_of_double_precision(dtype: torch.dtype) -> None:
    random = torch.Generator("cuda").manual_seed(0)
    p, q = (3 * torch.randn(50, 4001, device="cuda", generator=random).to(dtype) for _ in range(2))
    assert softmax_of(q) is not FORMULAS
    found: list[tuple[Tensor, Tensor]] = []
    for x in (q, q.double()):
        values = row_divergences(top_k(p.to(x.dtype), 64, (2.0,)), x.requires_grad_(), kl_divergence, 2.0)
        found.append((values.double(), torch.autograd.grad(values.sum(), x)[0].double()))
    (values, slopes), (exact, expected) = found
    torch.testing.assert_close(values, exact, rtol=2e-3, atol=1e-5)
    torch.testing.assert_close(slopes, expected, rtol=1e-2, atol=1e-6)


def test_a_divergence_of_spans_does_not_depend_on_kernels_or_padding() -> None:
    random = torch.Generator("cuda").manual_seed(0)

    def side(points: int, rows: int, width: int) -> Side:
        return Side(*(torch.randn(n, width, device="cuda", generator=random) for n in (points, rows)))

    teacher, student, weights = side(300, 1003, 64), side(300, 1003, 32), torch.rand(300, device="cuda")
    for x in student:
        x.requires_grad_()
    fused = weighted_kl(teacher, student, weights)
    slopes = torch.autograd.grad(fused, student)
    doubles = [Side(*(x.detach().double() for x in one)) for one in (teacher, student)]
    for x in doubles[1]:
        x.requires_grad_()
    exact = weighted_kl(*doubles, weights.double())
    torch.testing.assert_close(fused.double(), exact, rtol=1e-4, atol=0)
    for slope, expected in zip(slopes, torch.autograd.grad(exact, doubles[1]), strict=True):
        torch.testing.assert_close(slope.double(), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty", "ignore:\\s*Online softmax is disabled")  # inductor's own
@pytest.mark.parametrize(("kind", "scheme", "positions"), [*CASES, ("translation", "macaron", "sinusoidal")])
def test_compiled_generation_says_what_uncached_generation_says(kind: str, scheme: str, positions: str) -> None:
    torch.compiler.reset()
    model = tiny(kind, scheme, positions=positions, eos_token_id=None).double().cuda()
    ids, mask = tokens().cuda(), (left_mask() if kind == "causal" else right_mask()).cuda()
    expected = model.generate(ids, attention_mask=mask, use_cache=False, **HOW)
    for _ in range(2):  # the second call finds the graph of the first
        found = model.generate(ids, attention_mask=mask, cache_implementation="static", **HOW)
        assert torch.equal(found, expected)


class Dropped(nn.Module):
    """A field that is not a pure function: it draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(16, 16), nn.Dropout(0.5)

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.dropout(self.linear(x))


@pytest.mark.parametrize("frozen", [False, True])
def test_states_that_were_not_rebuilt_make_gradients_nan(frozen: bool) -> None:
    stack = ss.Stack(ss.scheme("reversible"), 4, lambda name, layer: Dropped()).cuda().train()
    x = torch.randn(2, 3, 16, device="cuda", requires_grad=not frozen)
    stack(x).sum().backward()
    assert any(p.grad is not None and p.grad.isnan().any() for p in stack.parameters())
    assert frozen or x.grad.isnan().all()  # pyright: ignore

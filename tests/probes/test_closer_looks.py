"""Probes that look closely at a trained model, against dense derivatives, brute force and closed forms."""

from collections import Counter
from math import isnan
from typing import Any

import pytest
import torch
from tiny import inputs, labels, tiny
from torch import Tensor

import splitstep as ss
from splitstep.fields import Context, exact_attention
from splitstep.integrate import Step, integrate, refine
from splitstep.probes import LOOKING_CLOSELY, observe
from splitstep.probes.commutator import by_letter, letters, local_errors, pair_terms
from splitstep.probes.layer_maps import Layer
from splitstep.probes.low_rank import COUNT, leading_of
from splitstep.probes.movement import trajectory
from splitstep.probes.similarity import layer_cka, linear_cka
from splitstep.probes.spectra import effective_rank, real_schur
from splitstep.probes.splitting import SUM, shares, with_exact_parts

STACK = {
    "causal": "body.stack",
    "sequence": "encoder.body.stack",
    "translation": "decoder.stack",
    "image": "body.stack",
}


def watched(name: str, kind: str, scheme: str = "lie", **more: Any) -> tuple[Any, dict[str, Tensor], Any]:
    """A model in float64, what it is given, and what the probe finds."""
    model, given = tiny(kind, scheme, **more).double(), {**inputs(kind), "labels": labels(kind)}
    given = {key: x.double() if x.is_floating_point() else x for key, x in given.items()}
    return model, given, observe(model, given, [name])[name][STACK[kind]]


def events_of(model: Any, given: dict[str, Tensor], stack: str) -> list[Any]:
    events: list[Any] = []
    begun: list[str] = []
    for name in STACK.values():
        if name in dict(model.named_modules()):
            model.get_submodule(name).register_forward_pre_hook(lambda *_, name=name: begun.append(name))
    with torch.no_grad():
        model(**given, use_cache=False, observe=lambda e: events.append(e) if begun[-1:] == [stack] else None)
    return events


def states(model: Any, given: dict[str, Tensor]) -> list[Tensor]:
    """The states before each layer and at the end."""
    ends: list[Tensor] = []
    with torch.no_grad(), model.body.stack.register_forward_hook(lambda *a: ends.append(a[-1])):
        out = model(**given, output_hidden_states=True)
    return [*out.hidden_states[:-1], *ends]


def test_a_path_on_a_circle_has_its_radius_and_its_angle() -> None:
    angles = torch.arange(6).double() * 0.3
    circle = 5 * torch.stack((angles.cos(), angles.sin(), torch.zeros_like(angles)), -1)[:, None]
    found = trajectory(circle, h=0.5)
    assert found["norm"].flatten().tolist() == pytest.approx([5.0] * 6)
    assert found["turn"].flatten().tolist() == pytest.approx([0.3] * 4)
    assert found["curvature"].flatten().tolist() == pytest.approx([0.2] * 4)
    chord = float((circle[1] - circle[0]).norm())
    assert found["speed"].flatten().tolist() == pytest.approx([chord / 0.5] * 5)


def test_trajectories_are_those_of_the_real_tokens_with_their_spread_over_texts() -> None:
    model, given, found = watched("trajectory", "causal")
    x, real = torch.stack(states(model, given)), given["attention_mask"].bool()
    lengths = torch.stack([x[:, i, real[i]].norm(dim=-1).mean(-1) for i in range(3)])
    assert found["norm"] == pytest.approx(lengths.mean(0).tolist())
    assert found["norm spread"] == pytest.approx(lengths.std(0).tolist())
    assert [len(found[name]) for name in ("norm", "speed", "turn", "curvature")] == [3, 2, 1, 1]


def test_clusters_and_ranks_are_those_of_each_text() -> None:
    model, given, clusters = watched("clustering", "causal")
    rank: Any = observe(model, given, ["rank"])["rank"]["body.stack"]
    real = given["attention_mask"].bool()
    for layer, x in enumerate(states(model, given)):
        cosines, ranks = list[float](), list[float]()
        for text, mask in zip(x, real, strict=True):
            rows = text[mask]
            n = len(rows)
            pairs = [torch.cosine_similarity(rows[i], rows[j], 0) for i in range(n) for j in range(n) if i != j]
            cosines.append(float(torch.stack(pairs).mean()))
            ranks.append(float(effective_rank(torch.linalg.svdvals(rows - rows.mean(0)))))
        assert clusters["cosine"][layer] == pytest.approx(sum(cosines) / 3)
        assert rank["effective centred"][layer] == pytest.approx(sum(ranks) / 3)


def test_tokens_that_are_all_alike_are_one_cluster_of_rank_one() -> None:
    model = tiny("causal")
    given = {"input_ids": torch.full((2, 6), 7)}
    for layer in model.body.stack.layers:
        torch.nn.init.zeros_(layer["A"].out.weight)
    found: Any = observe(model, given, ["clustering", "rank"])
    if model.config.positions == "rotary":
        assert found["clustering"]["body.stack"]["clusters"] == (1.0,) * 3
    model.body.stack.register_forward_pre_hook(lambda _, x: (x[0][:, :1].expand_as(x[0]), *x[1:]))
    found = observe(model, given, ["clustering", "rank"])
    assert found["clustering"]["body.stack"]["clusters"] == (1.0,) * 3
    assert found["clustering"]["body.stack"]["largest"] == (1.0,) * 3
    assert found["rank"]["body.stack"]["effective"] == pytest.approx((1.0,) * 3, abs=1e-4)


def test_similarity_of_all_layers_is_that_of_pairs() -> None:
    x = torch.randn(4, 30, 6, dtype=torch.float64).cumsum(0)
    wanted = [[float(linear_cka(a, b, debiased=True)) for a in x] for b in x]
    torch.testing.assert_close(layer_cka(x), torch.tensor(wanted, dtype=torch.float64))
    assert layer_cka(x[:, :3]).isnan().all()


@pytest.mark.parametrize("scheme", ["lie", "A/2 F A/2", "parallel"])
def test_rollout_is_the_product_of_the_weights_that_models_return(scheme: str) -> None:
    model, given, found = watched("rollout", "causal", scheme)
    with torch.no_grad():
        weights = model(**given, output_attentions=True).attentions
    per_layer, real = len(weights) // 2, given["attention_mask"].bool()
    product, one = torch.eye(7, dtype=torch.float64).expand(3, 7, 7), torch.eye(7, dtype=torch.float64)
    for number, w in enumerate(weights):
        product = (w.mean(1) + one) / 2 @ product
        if number % per_layer == per_layer - 1:
            rows = [product[i, real[i]] for i in range(3)]
            entropies = [torch.special.entr(r).sum(-1).mean() for r in rows]
            sinks = [r[:, int(real[i].int().argmax())].mean() for i, r in enumerate(rows)]
            for name, wanted in (("entropy", entropies), ("first", sinks)):
                assert found[name][number // per_layer] == pytest.approx(float(sum(wanted) / 3), rel=1e-6)
    wanted = torch.where(real[..., None], product, 0)
    torch.testing.assert_close(found["weights"].double(), wanted, atol=1e-3, rtol=1e-3)


def token_jacobians(model: Any, given: dict[str, Tensor], kind: str, text: int, last: int) -> list[Tensor]:
    """Of x + A, then C, then F, of one token alone, written out by hand: dense, in float64."""
    found = list[Tensor]()
    events = events_of(model, given, STACK[kind])
    steps = sorted({e.site.step for e in events})
    for step in steps:
        parts = [e for e in events if e.site.step == step]
        context = Context()
        if parts[0].context.memory is not None:
            mask = parts[0].context.memory_mask
            context = Context(memory=parts[0].context.memory[text : text + 1], memory_mask=mask[text : text + 1])

        def block(u: Tensor, parts: Any = parts, context: Context = context) -> Tensor:
            x = u[None, None]
            for e in parts:
                [(name, field)] = e.fields.items()
                x = x + e.h * field(e.times[name], x, context)
            return x[0, 0]

        with exact_attention():
            found.append(torch.func.jacrev(block)(parts[0].x[text, last]).detach())
    return found


def ordered(eigen: Tensor) -> Tensor:
    return torch.stack(sorted(eigen, key=lambda z: (round(float(z.real), 5), float(z.imag))))


@pytest.mark.parametrize(("kind", "last"), [("causal", (6, 6)), ("sequence", (6, 2)), ("translation", (6, 6))])
def test_spectra_are_those_of_the_dense_jacobian_of_one_token(kind: str, last: tuple[int, int]) -> None:
    """Of the last token that is not padding: causal models are padded on the left here, others on the right."""
    model, given, found = watched("jacobian", kind)
    products: Any = observe(model, given, ["products"])["products"][STACK[kind]]
    ranks, normal, growth = [], [], []
    for text in range(2):
        matrices = token_jacobians(model, given, kind, text, last[text])
        total = other = torch.eye(16, dtype=torch.float64)
        for layer, j in enumerate(matrices):
            eigen = torch.view_as_complex(found["J eigenvalues"][layer, text].contiguous())
            wanted = torch.linalg.eigvals(j).to(torch.complex64)
            torch.testing.assert_close(ordered(eigen), ordered(wanted), atol=1e-5, rtol=1e-4)
            for name, matrix in (("J", j), ("J - I", j - torch.eye(16))):
                s = torch.linalg.svdvals(matrix).float()
                torch.testing.assert_close(found[f"{name} singular values"][layer, text], s, atol=1e-5, rtol=1e-4)
            total, other = j @ total, real_schur(j).normal_form @ other
        ranks.append(effective_rank(torch.linalg.svdvals(total)))
        normal.append(effective_rank(torch.linalg.svdvals(other)))
        growth.append((total.norm() / 4).log())
    for name, values in (("effective rank", ranks), ("normal effective rank", normal), ("amplification", growth)):
        assert products[name][-1] == pytest.approx(float(sum(values) / 2), rel=1e-5)
        assert products[f"{name} spread"][-1] == pytest.approx(float(torch.stack(values).std()), rel=1e-4)


def test_every_scheme_and_term_has_single_token_jacobians() -> None:
    for kind, scheme in (("image", "D/2@exact A F D/2@exact"), ("sequence", "D/2 A F D/2"), ("causal", "reversible")):
        _, _, found = watched("jacobian", kind, scheme)
        assert found["J singular values"].isfinite().all()


@pytest.mark.parametrize("kind", ["causal", "sequence"])
def test_leading_singular_values_are_those_of_the_dense_jacobian_without_padding(kind: str) -> None:
    model, given, found = watched("leading", kind)
    real = given["attention_mask"].bool()
    starts = [e for e in events_of(model, given, STACK[kind]) if e.site.part == 0]
    for number, start in enumerate(starts):
        sums = torch.zeros(COUNT, dtype=torch.float64)
        for text in range(2):
            x, keep = start.x[text : text + 1], real[text]
            cut = {k: v[text : text + 1] if isinstance(v, Tensor) and len(v) == 3 else v
                   for k, v in start.context._asdict().items()}  # fmt: skip
            context = Context(**cut)
            layer = model.get_submodule(STACK[kind]).layers[number]

            def block(y: Tensor, layer: Any = layer, context: Context = context) -> Tensor:
                y = y + layer["A"](0.0, y, context)
                return y + layer["F"](0.0, y, context)

            with exact_attention():
                dense = torch.func.jacrev(block)(x)[0][:, :, 0][keep][:, :, keep].detach()  # type: ignore[index]
            sums += torch.linalg.svdvals(dense.flatten(0, 1).flatten(1))[:COUNT]
        for i in range(COUNT):
            assert found[f"s {i + 1}"][number] == pytest.approx(float(sums[i] / 2), rel=1e-2)


def test_one_token_that_is_stretched_is_one_token() -> None:
    factors = torch.ones(1, 5, 3, dtype=torch.float64)
    factors[0, 2] = 7.0
    found = leading_of(lambda x: factors * x, torch.randn(1, 5, 3, dtype=torch.float64), count=3)
    assert found.s.tolist() == pytest.approx([7.0] * 3)
    assert found.v.view(3, 5, 3).square().sum((0, 2)).tolist() == pytest.approx([0, 0, 3, 0, 0], abs=1e-9)


WIDTH, H = 5, 0.3
MATRICES = {
    name: torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for seed, name in enumerate(("A", "F", "F0", "F1", "C"))
}


def linear_layer(text: str) -> Layer:
    scheme = ss.scheme(text)
    fields = {name: lambda t, x, c, m=MATRICES[name]: x @ m.T for name in scheme.fields}
    x = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return Layer(scheme, [Step(fields, 0.0, H)], x, None)


@pytest.mark.parametrize("text", ["A F", "F0/2 A F1/2"])
def test_commutators_of_linear_fields_have_a_closed_form(text: str) -> None:
    """[A, F] x = (F A - A F) x; of untied weights F is the mean of both."""
    layer, a = linear_layer(text), MATRICES["A"]
    f = MATRICES["F"] if text == "A F" else (MATRICES["F0"] + MATRICES["F1"]) / 2
    found = pair_terms(layer, by_letter(layer), None)
    name = "A F" if text == "A F" else "F A"
    fa, af, both = (torch.linalg.vector_norm(layer.x @ m.T, dim=(1, 2)) for m in (f @ a, a @ f, f @ a - a @ f))
    moved = torch.linalg.vector_norm(layer.x @ (a + f).T, dim=(1, 2))
    torch.testing.assert_close(found[name], both / (fa + af))
    torch.testing.assert_close(found[f"{name} step"], H / 2 * both / moved)


def test_local_splitting_errors_of_linear_fields_are_those_of_matrix_exponentials() -> None:
    layer, a, f = linear_layer("A F"), H * MATRICES["A"], H * MATRICES["F"]
    found = local_errors(layer, by_letter(layer), torch.tensor([[True, True, True], [True, False, True]]))
    exp = torch.linalg.matrix_exp
    lie, strang, exact = exp(f) @ exp(a), exp(a / 2) @ exp(f) @ exp(a / 2), exp(a + f)
    x = layer.x.clone()
    x[1, 1] = 0.0  # padding
    moved = torch.linalg.vector_norm(x @ (exact - torch.eye(WIDTH)).T, dim=(1, 2))
    for name, split in (("lie", lie), ("strang", strang)):
        wanted = torch.linalg.vector_norm(x @ (split - exact).T, dim=(1, 2)) / moved
        torch.testing.assert_close(found[name], wanted, rtol=2e-2, atol=0.0)  # 4 steps of rk4
    assert (found["reference"] < 1e-2).all()


def plain_errors(layer: Layer) -> dict[str, Tensor]:
    """The same by the schemes' own notation: each flow from where it begins, nothing worked out once for several."""
    t = layer.steps[0].t
    fields = {key: total_of(layer, key) for key in letters(layer.scheme)}
    *names, last = fields
    forms = {"lie": [*names, last], "strang": [f"{n}/2" for n in names] + [last] + [f"{n}/2" for n in names[::-1]]}
    whole = Step({"F": lambda *at: torch.stack([f(*at) for f in fields.values()]).sum(0)}, t, layer.h)
    exact, rough = (integrate(SUM, refine([whole], n), layer.x, layer.context) for n in (4, 2))
    schemes = {name: with_exact_parts(ss.scheme(" ".join(form)), 4) for name, form in forms.items()}
    ends = {name: integrate(one, [Step(fields, t, layer.h)], layer.x, layer.context) for name, one in schemes.items()}
    norms = {name: (x - exact).flatten(1).norm(dim=1) for name, x in (ends | {"reference": rough}).items()}
    return {name: one / (exact - layer.x).flatten(1).norm(dim=1) for name, one in norms.items()}


def total_of(layer: Layer, letter: str) -> Any:
    terms = [(share, layer.steps[0].fields[name]) for name, share in shares(layer.scheme).items() if name[0] == letter]
    return lambda *at: sum(share * field(*at) for share, field in terms)


def curved_layer(text: str, calls: Counter[str]) -> Layer:
    """A layer of fields that are not linear and depend on the time; each evaluation is counted."""
    layer = linear_layer(text)

    def counted(name: str) -> Any:
        def field(t: float, x: Tensor, context: Any) -> Tensor:
            calls[name] += 1
            return torch.tanh(x @ MATRICES[name].T + t)

        return field

    return layer._replace(steps=[Step({name: counted(name) for name in layer.scheme.fields}, 0.2, H)])


@pytest.mark.parametrize("text", ["A F", "F0/2 A F1/2", "A C F"])
def test_local_errors_are_those_of_whole_schemes(text: str) -> None:
    layer = curved_layer(text, Counter())
    found, wanted = local_errors(layer, by_letter(layer), None), plain_errors(layer)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=1e-9, atol=1e-12)


def test_each_value_of_a_field_is_worked_out_once() -> None:
    """rk4: 16 + 8 for the sum of the fields in 4 and 2 steps; A for 4 steps, and 2 more of Strang's second half; F for
    4 steps from 2 states. All that begin at the layer's own state share the value there: so do the commutators, and
    only their 2 derivatives evaluate it again."""
    calls = Counter[str]()
    layer = curved_layer("A F", calls)
    fields = by_letter(layer)
    local_errors(layer, fields, None)
    assert calls == {"A": 16 + 8 + 16 + 8 - 2, "F": 16 + 8 + 16 + 16 - 1}
    pair_terms(layer, fields, None)
    assert calls == {"A": 46 + 1, "F": 55 + 1}


@pytest.mark.parametrize("scheme", ["parallel", "lie-postnorm", "=A =F", "reversible"])
def test_commutators_are_not_defined_where_there_is_no_splitting(scheme: str) -> None:
    _, _, found = watched("commutator", "causal", scheme)
    assert found.keys() == {"not defined"}
    assert len(found["not defined"]) == 2
    assert all(map(isnan, found["not defined"]))


def test_a_decoder_has_commutators_of_all_pairs() -> None:
    _, _, found = watched("commutator", "translation")
    assert {"A C", "A F", "C F", "lie", "strang"} <= found.keys()
    assert all(0.0 < value <= 1.0 for name in ("A C", "A F", "C F") for value in found[name])


def test_the_lens_reads_hidden_states_with_the_model_s_own_head() -> None:
    model, given, found = watched("lens", "causal")
    real = given["attention_mask"].bool()
    with torch.no_grad():
        logs = [model.head(model.body.norm(x)).log_softmax(-1) for x in states(model, given)]
        torch.testing.assert_close(logs[-1], model(**given).logits.log_softmax(-1))
    for layer, one in enumerate(logs):
        kl = torch.nn.functional.kl_div(one, logs[-1], reduction="none", log_target=True).sum(-1)
        same = (one.argmax(-1) == logs[-1].argmax(-1)).double()
        for name, value in (("divergence", kl), ("agreement", same)):
            wanted = sum(float(value[i, real[i]].mean()) for i in range(3)) / 3
            assert found[name][layer] == pytest.approx(wanted, abs=1e-9)
        rows = [
            torch.nn.functional.nll_loss(one[i, real[i]][:-1], given["input_ids"][i, real[i]][1:]) for i in range(3)
        ]
        assert found["loss"][layer] == pytest.approx(float(sum(rows)) / 3, abs=1e-5)


def test_there_is_no_lens_without_an_unembedding() -> None:
    assert watched("lens", "image")[2] == {}
    model, given = tiny("translation"), {**inputs("translation"), "labels": labels("translation")}
    found = observe(model, given, ["lens"])["lens"]
    assert found["encoder.body.stack"] == {}
    assert found["decoder.stack"]["agreement"][-1] == 1.0
    assert "loss" not in found["decoder.stack"]  # it does not predict what the encoder reads


def test_communities_have_a_row_for_each_layer() -> None:
    _, _, found = watched("communities", "causal")
    assert found["labels"].shape == (2, 16)
    assert all(count == int(row.max()) + 1 for count, row in zip(found["communities"], found["labels"], strict=True))
    assert all(0.0 < p <= 1.0 or isnan(p) for p in found["p"])


def test_probes_that_need_the_same_jacobians_work_them_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from splitstep.probes import jacobians

    calls: list[Any] = []
    once = jacobians.linearise
    monkeypatch.setattr(jacobians, "linearise", lambda j: (calls.append(j), once(j))[1])
    observe(tiny("causal"), inputs("causal"), ["jacobian", "products", "communities"])
    assert len(calls) == 2 * 2  # layers and texts
    assert set(LOOKING_CLOSELY) >= {"jacobian", "products", "communities"}


@pytest.mark.parametrize(("name", "series"), [("jacobian", "J largest"), ("leading", "s 1"), ("commutator", "A F")])
def test_derivatives_are_taken_without_autocast(name: str, series: str) -> None:
    """The first layer is given the same state with and without autocast, so its figures are the same."""
    model, given = tiny("causal"), inputs("causal")
    plain: Any = observe(model, given, [name])[name]["body.stack"]
    with torch.autocast("cpu", torch.bfloat16):
        narrow: Any = observe(model, given, [name])[name]["body.stack"]
    assert narrow[series][0] == pytest.approx(plain[series][0], rel=1e-4)
    assert narrow[series][1] != pytest.approx(plain[series][1], rel=1e-6)

"""The executor does what the scheme says: closed forms, torchdiffeq, clocks, sites, events, compilation."""

import itertools
from collections.abc import Mapping
from fractions import Fraction
from math import exp, factorial
from typing import Any

import pytest
import torch
import torch._dynamo
from hypothesis import given
from strategies import schemes
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torchdiffeq import odeint

import splitstep as ss
from splitstep.scheme import Project

STAGES = {"euler": 1, "midpoint": 2, "heun": 2, "kutta3": 3, "rk4": 4}
RATES = {"A": 0.3, "F": -0.7, "C": 0.2, "D": -0.1, "G": 0.5, "V": 0.6, "Z": -0.4}
H = 0.5


def stability(tableau: str, z: float) -> float:
    """1 + z + ... + z^s/s!: what one step of an s-stage method of order s does to x' = z x; an exact flow does e^z."""
    if tableau == "exact":
        return exp(z)
    return sum(z**k / factorial(k) for k in range(STAGES[tableau] + 1))


def growth(s: ss.Scheme, h: float) -> float:
    """One step of the scheme on the scalar fields f_L(x) = RATES[L] x; projections halve."""
    total = 0.0
    for weight, program in s.branches:
        factor = 1.0
        for part in program:
            if isinstance(part, Project):
                factor *= 0.5
                continue
            rate = sum(RATES[name[0]] for name in part.fields)
            factor *= rate if part.replaces else stability(part.tableau.name, h * float(part.fraction) * rate)
        total += float(weight) * factor
    return total


class Linear:
    """f(x) = rate x, with its exact flow."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.rate * x

    def flow(self, t: Any, h: float, x: Tensor, context: Any) -> Tensor:
        return exp(self.rate * h) * x


def linear(s: ss.Scheme) -> dict[str, ss.Field]:
    fields: dict[str, ss.Field] = {name: Linear(RATES[name[0]]) for name in s.fields}
    return fields | dict.fromkeys(s.projections, lambda t, x, c: 0.5 * x)


def kick(s: ss.Scheme, h: float) -> Tensor:
    """One step of a doubled scheme on the same fields, as a matrix: a += h f(b) is a shear, whatever the tableau."""
    total = torch.zeros(2, 2, dtype=torch.float64)
    for weight, program in s.branches:
        flow = torch.eye(2, dtype=torch.float64)
        for part in program:
            assert not isinstance(part, Project)
            shear, half = torch.eye(2, dtype=torch.float64), "ab".index(part.half)
            shear[half, 1 - half] = h * float(part.fraction) * sum(RATES[name[0]] for name in part.fields)
            flow = shear @ flow
        total += float(weight) * flow
    return total


def check_closed_form(s: ss.Scheme) -> None:
    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    steps = ss.uniform(linear(s), 3 * H, 3)
    if s.doubled:
        found = torch.stack(ss.integrate(s, steps, (x[0], x[1])))
        expected = torch.linalg.matrix_power(kick(s, H), 3) @ x
    else:
        found, expected = ss.integrate(s, steps, x), growth(s, H) ** 3 * x
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ss.SCHEMES)
def test_every_row_has_its_closed_form_on_linear_fields(name: str) -> None:
    check_closed_form(ss.scheme(name))


@given(schemes())
def test_any_scheme_has_its_closed_form_on_linear_fields(s: ss.Scheme) -> None:
    check_closed_form(s)


def smooth(seed: int) -> ss.Field:
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(4, 4, dtype=torch.float64, generator=generator)
    v = torch.randn(4, dtype=torch.float64, generator=generator)
    return lambda t, x, c: torch.sin(x @ w + t * v)


A, F = smooth(1), smooth(2)
FIELDS: dict[str, ss.Field] = {"A": A, "F": F, "F0": F, "F1": F}
X = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4)


def solved(field: ss.Field, x: Tensor, start: float, end: float, method: str, n: int = 1) -> Tensor:
    """The same sub-flow by torchdiffeq, n steps of a fixed-step method."""
    t = torch.linspace(start, end, n + 1, dtype=torch.float64)
    return odeint(lambda t, x: field(t, x, None), x, t, method=method)[-1]  # pyright: ignore


W = torch.randn(2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
LINEAR: dict[str, ss.Field] = {"A": lambda t, x, c: x @ W[0], "F": lambda t, x, c: x @ W[1]}
UNSPLIT = [
    ("parallel", "euler", FIELDS), ("midpoint", "midpoint", FIELDS), ("heun", "heun2", FIELDS),
    ("kutta3", "heun3", LINEAR), ("rk4", "rk4", LINEAR),
]  # fmt: skip


@pytest.mark.parametrize(("row", "method", "fields"), UNSPLIT)
def test_unsplit_rows_equal_torchdiffeq(row: str, method: str, fields: dict[str, ss.Field]) -> None:
    """Of three and four stages torchdiffeq has other tableaux, which agree on linear autonomous fields only."""
    expected = solved(lambda t, x, c: fields["A"](t, x, c) + fields["F"](t, x, c), X, 0.0, 2.0, method, n=5)
    found = ss.integrate(ss.scheme(row), ss.uniform(fields, 2.0, 5), X)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("tableau", "method"), [("euler", "euler"), ("midpoint", "midpoint"), ("heun", "heun2")])
def test_split_rows_equal_sub_flows_by_torchdiffeq(tableau: str, method: str) -> None:
    x = X
    for t in (0.0, 0.5):
        x = solved(F, x, t, t + 0.25, method)
        x = solved(A, x, t, t + 0.5, method)
        x = solved(F, x, t + 0.25, t + 0.5, method)
    for text in (f"F/2 A F/2 @{tableau}", f"F0/2 A F1/2 @{tableau}"):
        assert torch.allclose(ss.integrate(ss.scheme(text), ss.uniform(FIELDS, 1.0, 2), X), x, rtol=0, atol=1e-13)


def test_the_transformer_and_macaron_are_lines_of_plain_pytorch() -> None:
    h = 0.5
    x = X
    x = x + h * A(0.0, x, None)
    x = x + h * F(0.0, x, None)
    assert torch.equal(ss.integrate(ss.scheme("A F"), [ss.Step(FIELDS, 0.0, h)], X), x)
    x = X
    x = x + h / 2 * F(0.0, x, None)
    x = x + h * A(0.0, x, None)
    x = x + h / 2 * F(h / 2, x, None)
    assert torch.equal(ss.integrate(ss.scheme("F0/2 A F1/2"), [ss.Step(FIELDS, 0.0, h)], X), x)


@pytest.mark.parametrize(("text", "expected"), [
    ("strang-midpoint", {"F": "0 1/4 1/2 3/4", "A": "0 1/2"}),
    ("macaron", {"F0": "0", "A": "0", "F1": "1/2"}),
    ("ruth3", {"A": "0 7/48 7/24 7/24 2/3 25/24 25/24 49/48 1", "F": "0 1/3 2/3 2/3 1/3 0 0 1/2 1"}),
    ("symmetrised-heun", {"A": "0 1 0 1", "F": "0 1 0 1"}),
    ("reversible", {"A": "1/4 1/2 3/4", "F": "1/4 1/2 3/4"}),
    ("F0/4 A F1/4 F0/2", {"F0": "0 1/2", "A": "0", "F1": "1/4"}),
])  # fmt: skip
def test_clocks_belong_to_letters(text: str, expected: dict[str, str]) -> None:
    s, start, h, x = ss.scheme(text), 3.0, 0.5, torch.zeros(1)
    found: dict[str, list[float]] = {name: [] for name in s.fields}

    def clocked(name: str) -> ss.Field:
        def f(t: Any, x: Tensor, c: Any) -> Tensor:
            found[name].append(t)
            return x

        return f

    ss.integrate(s, [ss.Step({name: clocked(name) for name in s.fields}, start, h)], (x, x) if s.doubled else x)
    assert found.keys() == expected.keys()
    for name, times in expected.items():
        assert found[name] == pytest.approx([start + h * float(Fraction(t)) for t in times.split()], abs=1e-14)


@pytest.mark.parametrize("text", [*ss.SCHEMES, "=A =F", "=A F N", "1/2(a:A b:F) + 1/2(b:F a:A)"])
def test_events_tell_what_each_part_did_and_watching_changes_nothing(text: str) -> None:
    s = ss.scheme(text)
    fields = {name: smooth(ord(name[0])) for name in s.fields}
    fields |= dict.fromkeys(s.projections, lambda t, x, c: nn.functional.layer_norm(x, (4,)))
    events, steps, x = list[ss.Event](), ss.uniform(fields, 1.0, 3), (X, X.flip(0)) if s.doubled else X
    end, again = ss.integrate(s, steps, x, observe=events.append), ss.integrate(s, steps, x)
    assert all(map(torch.equal, end, again)) if s.doubled else torch.equal(end, again)
    assert len(events) == 3 * sum(len(program) for _, program in s.branches)
    assert len({event.site for event in events}) == len(events)
    for event in events:
        assert tuple(event.increments) == event.move.fields
        added = sum(event.increments.values(), torch.zeros_like(X))
        before = torch.zeros_like(X) if event.move.kind == "replace" else event.x
        assert torch.allclose(before + added, event.x_after, rtol=0, atol=1e-14)
    if len(s.branches) == 1 and not s.doubled:
        assert torch.equal(events[-1].x_after, end)
        for first, second in itertools.pairwise(events):
            assert torch.equal(first.x_after, second.x)


def by_hand(event: ss.Event, read: Tensor) -> dict[str, Tensor]:
    """What each field adds, from the event alone, with its fields evaluated at another state."""
    slopes: list[dict[str, Tensor]] = []
    for stage in event.move.stages:
        y = read + sum((event.h * a * sum(slopes[i].values()) for i, a in stage.row), torch.zeros_like(read))
        slopes.append({n: f(event.times[n] + stage.c * event.h, y, event.context) for n, f in event.fields.items()})
    if event.move.kind == "project":
        return {name: k - read for name, k in slopes[0].items()}
    factor = 1.0 if event.move.kind == "replace" else event.h
    pairs = list(zip(event.move.weights, slopes, strict=True))
    return {name: sum((factor * b * k[name] for b, k in pairs), torch.zeros_like(read)) for name in event.fields}


@pytest.mark.parametrize("text", [*ss.SCHEMES, "=A F N", "A/4 (A+F)/4 F*3/4 A/2 @heun", "1/2(a:A b:F) + 1/2(b:F a:A)"])
def test_an_event_carries_the_fields_and_what_they_read(text: str) -> None:
    s = ss.scheme(text)

    def field(name: str) -> ss.Field:
        return lambda t, x, context: smooth(ord(name[0]))(t, x, None) + context * x

    fields = {name: field(name) for name in s.fields}
    fields |= dict.fromkeys(s.projections, lambda t, x, c: nn.functional.layer_norm(x, (4,)))

    def seen(x: Tensor) -> list[ss.Event]:
        events: list[ss.Event] = []
        state = (x, X.flip(0)) if s.doubled else x
        ss.integrate(s, ss.uniform(fields, 1.0, 2), state, 0.5, events.append, lambda c, site: c + 0.1 * site.part)
        return events

    way, tiny = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(7)), 1e-6
    events, above, below = seen(X), seen(X + tiny * way), seen(X - tiny * way)
    for event, up, down in zip(events, above, below, strict=True):
        assert event.x is (event.state[event.move.half] if s.doubled else event.state)
        assert event.read is (event.state[1 - event.move.half] if s.doubled else event.state)
        torch.testing.assert_close(by_hand(event, event.read), dict(event.increments), rtol=0, atol=1e-13)
        along = (up.read - down.read) / (2 * tiny)  # how this part's state answers to the first
        _, found = torch.func.jvp(lambda read, event=event: by_hand(event, read), (event.read,), (along,))
        expected = {n: (up.increments[n] - down.increments[n]) / (2 * tiny) for n in event.fields}
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ss.SCHEMES)
def test_every_evaluation_has_its_own_site_and_gets_its_own_context(name: str) -> None:
    s = ss.scheme(name)

    def seen(observe: Any) -> tuple[list[ss.Site], list[Any]]:
        """The sites of all contexts that were asked for, and the contexts that fields were given."""
        asked, got = list[ss.Site](), list[Any]()

        def at(context: Any, site: ss.Site) -> Any:
            asked.append(site)
            return context, site

        def field(name: str) -> ss.Field:
            return lambda t, x, context: got.append((name, *context)) or torch.sin(x)

        fields = {n: field(n) for n in s.fields} | dict.fromkeys(s.projections, lambda t, x, c: x)
        ss.integrate(s, ss.uniform(fields, 1.0, 2), (X, X) if s.doubled else X, "words", observe, at)
        return asked, got

    sites, calls = seen(None)
    assert sites == [
        ss.Site(step, part, stage, branch)
        for step in range(2)
        for branch, (_, program) in enumerate(s.plan)
        for part, move in enumerate(program)
        if move.kind != "project"
        for stage in range(len(move.stages))
    ]
    assert len(set(sites)) == len(sites)
    assert len(set(calls)) == len(calls) == 2 * s.evaluations
    assert {words for _, words, _ in calls} == {"words"}
    assert seen(lambda event: None) == (sites, calls)


def test_refined_euler_steps_are_euler_steps_of_each_layers_fields() -> None:
    s = ss.scheme("A+F")
    steps = ss.uniform(FIELDS, 1.0, 2)
    assert torch.equal(ss.integrate(s, ss.refine(steps, 1), X), ss.integrate(s, steps, X))
    x = X
    for i in range(8):
        x = x + (A(i / 8, x, None) + F(i / 8, x, None)) / 8
    assert torch.allclose(ss.integrate(s, ss.refine(steps, 4), X), x, rtol=0, atol=1e-14)
    layers: list[Mapping[str, ss.Field]] = [{"A": smooth(i), "F": smooth(i + 10)} for i in range(2)]
    fine = ss.refine([ss.Step(fields, i / 2, 0.5) for i, fields in enumerate(layers)], 2)
    assert fine == [ss.Step(layers[i // 2], i / 4, 0.25) for i in range(4)]


WRONG: dict[str, tuple[Any, str]] = {
    "another shape": (lambda x: x[:1], r"shape \(1, 4\) and torch.float32.*shape \(3, 4\) and torch.float32"),
    "a scalar": (lambda x: x.sum(), r"shape \(\) "),
    "more dimensions": (lambda x: x[None], r"shape \(1, 3, 4\)"),
    "no tensor": (lambda x: 0.5, "type float"),
    "nothing": (lambda x: None, "type NoneType"),
    "a tuple": (lambda x: (x, x), "type tuple"),
    "an array": (lambda x: x.numpy(), "type ndarray"),
    "double precision": (lambda x: x.double(), "torch.float64"),
    "complex numbers": (lambda x: x + 1j, "torch.complex64"),
    "integers": (lambda x: x.long(), "torch.int64"),
    "truth values": (lambda x: x > 0, "torch.bool"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_result_that_is_no_slope_is_refused_with_its_field_and_step(wrong: str) -> None:
    make, message = WRONG[wrong]
    solver = Linear(1.0)
    solver.flow = lambda t, h, x, context: make(x)
    with pytest.raises(ValueError, match=f"Field D of step 0 returned .*{message}"):
        ss.integrate(ss.scheme("D@exact"), ss.uniform({"D": solver}, 1.0, 1), torch.ones(3, 4))
    for text, name in (("A F", "A"), ("F =A", "A"), ("b:A+F a:A+F", "A"), ("A+F @heun", "A"), ("N A F", "N")):
        s, x = ss.scheme(text), torch.ones(3, 4)
        good: dict[str, ss.Field] = {n: lambda t, x, c: 0.1 * x for n in (*s.fields, *s.projections)}
        bad = good | {name: lambda t, x, c: make(x)}
        with pytest.raises(ValueError, match=f"Field {name} of step 1 returned .*{message}"):
            ss.integrate(s, [ss.Step(good, 0.0, 1.0), ss.Step(bad, 1.0, 1.0)], (x, x) if s.doubled else x)


def test_the_stream_keeps_its_precision() -> None:
    """Fields may return less of it, also where they replace the state, and real slopes of a complex state."""
    for dtype in (torch.float16, torch.bfloat16):
        fields: dict[str, ss.Field] = {n: lambda t, x, c, dtype=dtype: x.to(dtype) for n in "AF"}
        for text in ("A F", "A+F @rk4", "=A F"):
            assert ss.integrate(ss.scheme(text), ss.uniform(fields, 1.0, 2), torch.ones(3)).dtype == torch.float32
    turning: dict[str, ss.Field] = {"A": lambda t, x, c: 1j * x, "F": lambda t, x, c: x.abs()}
    assert ss.integrate(ss.scheme("A F"), ss.uniform(turning, 1.0, 2), torch.ones(3) + 0j).dtype == torch.complex64
    modules = {"A": nn.Linear(8, 8), "F": nn.Linear(8, 8)}
    steps = ss.uniform({name: lambda t, x, context, f=f: f(x) for name, f in modules.items()}, 2.0, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert ss.integrate(ss.scheme("=A =F"), steps, torch.ones(2, 8)).dtype == torch.float32


def test_what_is_not_a_scheme_or_steps_or_a_state_is_refused() -> None:
    steps, s = ss.uniform(FIELDS, 1.0, 2), ss.scheme("A F")
    given: list[tuple[Any, Any, Any, str]] = [
        (ss.scheme("macaron"), ss.uniform({"A": A, "F0": F}, 1.0, 1), X, r"Step 0 has no field F1: .* needs A, F0, F1"),
        (ss.scheme("lie-postnorm"), steps, X, "has no field M, N"),
        (ss.scheme("reversible"), steps, X, r"pass x as a tuple \(a, b\)"),
        (ss.scheme("D@exact"), ss.uniform({"D": A}, 1.0, 1), X, r"Field D of step 0 has no method flow.* add one, or"),
        (3, steps, X, "A scheme is a text such as"),
        (["A", "F"], steps, X, r"got \['A', 'F'\]"),
        (s, [], X, "no steps: pass at least one Step"),
        (s, iter(()), X, "no steps"),
        (s, steps[0], X, "Step 0 is a dict: pass Steps"),
        (s, [*steps, (FIELDS, 0.0, 1.0)], X, "Step 2 is a tuple"),
        (s, steps, (X, X), "moves one state"),
        (s, steps, (X,), "moves one state"),
        (s, steps, 1.0, "moves one state: pass x as a tensor"),
        (s, steps, X.numpy(), "moves one state"),
        (ss.scheme("a:A b:F"), steps, (X, 1.0), "moves a pair"),
        (ss.scheme("a:A b:F"), steps, X, "moves a pair"),
    ]
    for scheme, steps, x, message in given:
        with pytest.raises(ValueError, match=message) as caught:
            ss.integrate(scheme, steps, x)
        assert len(str(caught.value).splitlines()) == 1


class Timed(nn.Module):
    """A small field that uses t."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return torch.tanh(self.linear(x) + torch.sin(torch.as_tensor(t)))


def stack(s: ss.Scheme, layers: int = 2) -> ss.Stack:
    torch.manual_seed(0)
    return ss.Stack(s, layers, lambda name, layer: Timed())


def test_layers_start_at_the_sum_of_those_before() -> None:
    network, lengths = ss.Stack(ss.scheme("macaron"), 3, lambda name, layer: Timed(), step=0.5), [0.5, 0.25, 2.0]
    assert [(step.t, step.h) for step in network.steps()] == [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5)]
    assert {*network.layers[0]} == {"A", "F0", "F1"}  # pyright: ignore
    x = torch.randn(2, 4)
    assert torch.equal(network(x), ss.integrate(network.scheme, network.steps(), x))
    steps = [ss.Step(f, t, h) for f, t, h in zip(network.layers, (1.0, 1.5, 1.75), lengths, strict=True)]  # pyright: ignore
    assert torch.equal(network(x, t=1.0, lengths=lengths), ss.integrate(network.scheme, steps, x))
    assert torch.equal(network(x, lengths=[0.5] * 3), network(x))
    for wrong in ([1.0, 1.0], [], [1.0] * 4):
        with pytest.raises(ValueError, match=f"{len(wrong)} lengths for 3 layers"):
            network(x, lengths=wrong)


@pytest.mark.parametrize("name", ["macaron", "strang-heun", "symmetrised-heun", "reversible"])
def test_substeps_are_refined_steps_with_slots_of_their_own(name: str) -> None:
    s, x, lengths = ss.scheme(name), torch.randn(2, 4), [0.5, 1.5]
    plain, fine = stack(s).eval(), ss.Stack(s, 2, lambda name, layer: Timed(), substeps=3).eval()
    fine.load_state_dict(plain.state_dict())
    state = (x, x) if s.doubled else x
    expected = ss.integrate(s, ss.refine(plain.steps(0.0, lengths), 3), state)
    slots: dict[str, list[int | None]] = {"A": [], "F": []}

    def at(context: Any, site: ss.Site) -> Any:
        for letter, taken in slots.items():
            taken.append(fine.slot(site, letter))
        return context

    found = fine(x, lengths=lengths, at=at)
    assert torch.equal(found, sum(expected) / 2 if s.doubled else expected)
    for letter, taken in slots.items():
        count = sum(s.count(name) for name in s.fields if name[0] == letter)
        assert sorted(slot for slot in taken if slot is not None) == list(range(2 * 3 * count))
    assert fine.slot(ss.Site(0, 0, 0, 0), "Z") is None
    with pytest.raises(ValueError, match="substeps=0"):
        ss.Stack(s, 2, lambda name, layer: Timed(), substeps=0)
    with pytest.raises(ValueError, match="layers=0"):
        ss.Stack(s, 0, lambda name, layer: Timed())


QUICK = {"macaron", "symmetrised-heun", "lie-postnorm"}  # own weights, branches, projections


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.nightly) for n in ss.SCHEMES])
def test_every_row_compiles_whole_and_a_change_of_t_compiles_nothing_anew(name: str) -> None:
    """Lengths and sub-steps included."""
    torch._dynamo.reset()
    counters.clear()
    network = ss.Stack(ss.scheme(name), 1, lambda name, layer: Timed(), substeps=2 if name == "macaron" else 1)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    for t in (0.0, 1.0, 7.25):
        found = gradients(network, compiled, torch.tensor(t))
        expected = gradients(network, network, torch.tensor(t))
        assert all(torch.allclose(u, v, rtol=1e-5, atol=1e-6) for u, v in zip(found, expected, strict=True))
    assert counters["stats"]["unique_graphs"] == 1


def gradients(network: ss.Stack, run: Any, t: Tensor) -> list[Tensor]:
    network.zero_grad()
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    y = run(x, t=t, lengths=[0.5] * len(network.layers))
    y.square().sum().backward()
    return [y.detach(), *(p.grad.clone() for p in (x, *network.parameters()) if p.grad is not None)]


def test_an_exact_flow_is_seen_as_what_it_adds() -> None:
    seen: list[ss.Event] = []
    step = ss.Step({"D": Linear(-0.5), "A": Linear(0.3)}, 1.0, H)
    ss.integrate(ss.scheme("D/2@exact A D/2@exact"), [step], X, observe=seen.append)
    assert [event.t for event in seen] == [1.0, 1.0, 1.25]
    for event in (seen[0], seen[2]):
        assert torch.equal(event.increments["D"], exp(-0.5 * H / 2) * event.x - event.x)
        assert torch.equal(event.x_after, event.x + event.increments["D"])

"""The order that the notation gives is the order that is measured, and the one that the literature states."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

from splitstep import SCHEMES, TABLEAUX, Scheme, Tableau, average, compose, decoder, scheme, unshare, with_tableau
from splitstep.order import HIGHEST, gamma, trees
from splitstep.scheme import Substep
from splitstep.studies import slopes as study
from splitstep.studies.orders import orders
from splitstep.studies.slopes import measure, with_slopes

YOSHIDA = 1 / (2 - 2 ** (1 / 3))
TRIPLE_JUMP = (YOSHIDA, 1 - 2 * YOSHIDA, YOSHIDA)

# Splitting order and order, from the literature: Hairer, Lubich and Wanner, Geometric Numerical Integration, II.4-5;
# Ruth 1983; Yoshida 1990; Suzuki 1990; a step of Euler in a sub-flow leaves first order (papers: Macaron Net).
LITERATURE = {
    "lie lie-postnorm macaron-postnorm conformer reverse-lie": (1, 1),
    "parallel": (HIGHEST, 1),
    "strang strang-attention macaron": (2, 1),
    "strang-midpoint strang-heun symmetrised-heun reversible": (2, 2),
    "ruth3": (3, 3),
    "yoshida4 suzuki4": (4, 4),
    "heun midpoint": (HIGHEST, 2),
    "kutta3": (HIGHEST, 3),
    "rk4": (HIGHEST, 4),
}


def test_the_table_has_the_orders_of_the_literature() -> None:
    known = {name: orders for names, orders in LITERATURE.items() for name in names.split()}
    assert {name: (row.splitting_order, row.order) for name, row in SCHEMES.items()} == known


@pytest.mark.parametrize(("text", "splitting", "order"), [
    ("A", HIGHEST, 1),
    ("A @rk4", HIGHEST, 4),
    ("A/2 A/2 @heun", HIGHEST, 2),
    ("2(A/2 A/2) + -1(A)", HIGHEST, 2),  # Euler extrapolated once
    ("1/2(A F) + 1/2(F A)", 2, 1),  # symmetrically weighted splitting (Csomos, Farago, Havasi 2005)
    ("4/3(F/4 A/2 F/2 A/2 F/4) + -1/3(F/2 A F/2) @rk4", 4, 4),  # Strang extrapolated once
    ("4/3(F/4 A/2 F/2 A/2 F/4) + -1/3(F/2 A F/2) @heun", 4, 2),
    ("F/2 A F/2 @rk4", 2, 2),
    ("F/1180591620717411303424 A F", 1, 1),  # a whole step up to rounding
    ("F/2 A@midpoint F/2", 2, 1),
    ("F/2@heun A@midpoint F/2@kutta3", 2, 2),
    ("A*7/24 F*2/3 A*3/4 F*-2/3 A*-1/24 F @heun", 3, 2),
    ("F/2 A C F/2 @midpoint", 1, 1),
    ("C/2 F/2 A F/2 C/2 @midpoint", 2, 2),
    ("D/2 F/2 A F/2 D/2 @heun", 2, 2),
    ("C/2 D/2 F/2 A F/2 D/2 C/2 @rk4", 2, 2),
    ("D@exact", HIGHEST, HIGHEST),
    ("D/2@exact A F D/2@exact", 1, 1),  # symmetric in D only
    ("D/2@exact F/2 A F/2 D/2@exact", 2, 1),
    ("D/2@exact F/2@midpoint A@midpoint F/2@midpoint D/2@exact", 2, 2),
    ("D/2@exact A+F@rk4 D/2@exact", 2, 2),
    ("A F D@exact", 1, 1),
    ("F/2 A F/2 D@exact @heun", 1, 1),
    ("A+C+D+F @rk4", HIGHEST, 4),
    ("a:A b:F", 1, 1),  # symplectic Euler; Reformer and RevNet blocks
    ("b:F/2 a:A b:F/2 @midpoint", 2, 2),  # Stoermer-Verlet
    ("b:F/2 a:A b:F/2 @heun", 2, 2),
    ("b:F/2 a:A b:F/2", 2, 1),  # second order without time in the fields only: Euler's clock is late
    ("A N F M @rk4", 1, 1),  # a projection caps the order
    ("A+F N @rk4", 1, 1),
])  # fmt: skip
def test_orders_beside_the_table(text: str, splitting: int, order: int) -> None:
    assert (scheme(text).splitting_order, scheme(text).order) == (splitting, order)


def test_errors_that_cancel_count_as_cancelled_and_a_part_that_replaces_has_no_order() -> None:
    """The smaller of splitting and tableau order would be 2 for the triple jump with Heun sub-flows."""
    jump = compose(scheme("F/2 A F/2 @heun"), *TRIPLE_JUMP)
    assert (jump.splitting_order, jump.order) == (4, 3)
    for text in ("=A =F", "=A F", "A =F N"):
        s = scheme(text)
        assert s.order is s.splitting_order is measure(s) is None


@pytest.mark.parametrize(("text", "order", "untied"), [
    ("F0/2 A F1/2", 1, 1),
    ("F0/2 A F1/2 @midpoint", 2, 1),
    ("F/2 A F1/2 @heun", 2, 1),
    ("A0/4 A1/2 A0/4 @midpoint", 2, 2),  # Strang's splitting of A0/2 + A1/2
    ("1/2(A0/2 A1/2) + 1/2(A1/2 A0/2) @heun", 2, 2),
    ("(A0+A1)/2 @rk4", 4, 4),  # the sum of both, unsplit
    ("(F0+F1)/4 A F0/4 F1/4 @midpoint", 2, 1),
    ("b:F0/2 a:A b:F1/2 @midpoint", 2, 1),
    ("b:(F0+F1)/4 a:A b:(F0+F1)/4 @midpoint", 2, 2),
    ("b:F/2 a:A b:F1/2 @midpoint", 2, 1),
    ("F0/2 N A M F1/2 P", 1, 1),
    ("F/2 A F/2 @midpoint", 2, 2),
])  # fmt: skip
def test_own_weights_have_a_second_order_and_it_measures_as_computed(text: str, order: int, untied: int) -> None:
    s, measured = scheme(text), measure(scheme(text))
    assert (s.order, s.untied_order) == (order, untied)
    assert measured is not None
    assert abs(measured.time_dependent - order) < 0.15
    assert abs(measured.untied - untied) < 0.15


def test_several_names_of_a_letter_in_one_sum_are_not_split() -> None:
    assert scheme("(A0+A1+A2)/3").splitting_order == HIGHEST
    assert scheme("(A0+A1)/4 F (A0+A1)/4").splitting_order == 2


@pytest.mark.parametrize("fractions", ["100 -99", "3 -1000 999 -1", "1000000 -999999"])
def test_large_fractions_do_not_lower_the_order(fractions: str) -> None:
    """Runge-Kutta steps forth and back are Runge-Kutta; one that goes too far has the order of its parts."""
    for tableau, order in (("midpoint", 2), ("kutta3", 3), ("rk4", 4)):
        s = scheme(" ".join(f"(A+F)*{f}" for f in fractions.split()) + f" @{tableau}")
        assert (s.splitting_order, s.order) == (HIGHEST, order)
    lie = scheme(" ".join(f"A*{f} F*{f}" for f in fractions.split()) + " @rk4")
    assert (lie.splitting_order, lie.order) == (1, 1)


@pytest.mark.parametrize("a", [1.25, 7.3, 50.7])
def test_large_decimals_do_not_lower_the_order(a: float) -> None:
    """The composition (a, b, 1 - 2a - 2b, b, a) of Strang with 2a^3 + 2b^3 + (1 - 2a - 2b)^3 = 0 has order 4."""
    b = brentq(lambda b: 2 * a**3 + 2 * b**3 + (1 - 2 * a - 2 * b) ** 3, -3 * a, 3 * a, xtol=1e-300, rtol=1e-15)
    jump = compose(scheme("F/2 A F/2 @rk4"), a, b, 1 - 2 * a - 2 * b, b, a)
    assert (jump.splitting_order, jump.order) == (4, 4)
    off = compose(scheme("F/2 A F/2 @rk4"), a, 1.001 * b, 1 - 2 * a - 2.002 * b, 1.001 * b, a)
    assert (off.splitting_order, off.order) == (2, 2)


def test_a_rows_order_is_that_of_its_letters_own_weights_decoder_and_name() -> None:
    for name, row in SCHEMES.items():
        own, swapped = unshare(row, "AF"), scheme(str(row).translate(str.maketrans("AF", "GZ")))
        assert (own.splitting_order, own.order) == (row.splitting_order, row.order)
        assert (swapped.splitting_order, swapped.order) == (row.splitting_order, row.order)
        assert own.evaluations == row.evaluations
        assert row.untied_order == row.order == decoder(row).order
        assert decoder(decoder(row)) == decoder(row) == scheme(str(decoder(row)))
        if name in ("yoshida4", "suzuki4"):  # irrational fractions: A becomes (A+C), and nothing else changes
            assert str(decoder(row)) == str(row).replace("A*", "(A+C)*")
        assert {*decoder(row).fields} == {*row.fields, "C"}
        assert row.order == int(name[-1]) if name[-1].isdigit() else True  # a name promises no other order
    assert scheme("=A F0/2 F1/2").untied_order is None


@pytest.mark.parametrize(("name", "text", "splitting"), [
    ("lie", "A C F", 1),
    ("lie-postnorm", "A N C P F M", 1),
    ("reverse-lie", "F A C", 1),
    ("parallel", "A+C+F", HIGHEST),
    ("strang", "F/2 A C F/2", 1),
    ("strang-attention", "A/2 C/2 F A/2 C/2", 1),
    ("macaron", "F0/2 A C F1/2", 1),
    ("macaron-postnorm", "F0/2 N A M C P0 F1/2 P", 1),
    ("strang-midpoint", "F/2 A+C F/2 @midpoint", 2),
    ("symmetrised-heun", "1/2(A+C F) + 1/2(F A+C) @heun", 2),
    ("ruth3", "(A+C)*7/24 F*2/3 (A+C)*3/4 F*-2/3 (A+C)*-1/24 F @kutta3", 3),
    ("rk4", "A+C+F @rk4", HIGHEST),
    ("reversible", "b:(A+C+F)/2 a:A+C+F b:(A+C+F)/2 @midpoint", 2),
    ("A/2 N F M A/2 N", "A/2 N C/2 P F M A/2 N C/2 P", 1),  # C's projections are shared as A's are
    ("A0/2 N F P A1/2 M", "A0/2 N C0/2 P0 F P A1/2 M C1/2 P1", 1),
    ("A F N", "A C F N", 1),
    ("A+F N", "A+C+F N", 1),
])  # fmt: skip
def test_a_decoder_has_its_own_scheme(name: str, text: str, splitting: int) -> None:
    row = decoder(scheme(name))
    assert (str(row), row.splitting_order) == (text, splitting)


def test_evaluations_count_what_a_step_calls() -> None:
    expected = {"lie": 2, "parallel": 2, "macaron": 3, "strang-midpoint": 6, "symmetrised-heun": 8, "ruth3": 18}
    expected |= {"yoshida4": 36, "suzuki4": 60, "rk4": 8, "reversible": 6}
    assert {name: scheme(name).evaluations for name in expected} == expected
    assert scheme("F/2 A F/2 @heun").count("F") == 4


def test_compose_average_unshare_with_tableau() -> None:
    strang, lie, reverse = scheme("F/2 A F/2"), scheme("A F"), scheme("F A")
    half = Fraction(1, 2)
    assert compose(strang, 1) == strang
    assert compose(lie, half, half) == scheme("A/2 F/2 A/2 F/2")
    assert average(lie, reverse) == scheme("1/2(A F) + 1/2(F A)")
    assert average(average(lie, reverse), strang) == scheme("1/4(A F) + 1/4(F A) + 1/2(F/2 A F/2)")
    assert unshare(strang, "F") == scheme("F0/2 A F1/2")
    assert unshare(strang, "AF") == scheme("F0/2 A0 F1/2")
    assert with_tableau(strang, TABLEAUX["heun"]) == scheme("F/2 A F/2 @heun")
    with pytest.raises(ValueError, match="sum to 1"):
        compose(strang, half, half, half)
    with pytest.raises(ValueError, match="not an average"):
        compose(average(lie, reverse), half, half)


def test_the_number_of_coloured_trees() -> None:
    """Rooted trees of n nodes: OEIS A000081 for one colour, A038055 for two."""
    assert [len(trees(n, ("A",))) for n in range(1, 6)] == [1, 1, 2, 4, 9]
    assert [len(trees(n, ("A", "F"))) for n in range(1, 6)] == [2, 4, 14, 52, 214]
    assert sorted(gamma(tree) for tree in trees(4, ("A",))) == [4, 8, 12, 24]


def splitting_slope(s: Scheme, h: float = 0.04) -> float:
    """The order measured on random matrices, by exponentials: log2 of the ratio of local errors, less one."""
    rng = np.random.default_rng(0)
    letters = sorted({name[0] for name in s.fields})
    matrices = {letter: rng.standard_normal((5, 5)) for letter in letters}

    def error(h: float) -> float:
        flow = np.zeros((5, 5))
        for weight, program in s.branches:
            branch = np.eye(5)
            for part in program:
                assert isinstance(part, Substep)
                branch = expm(h * float(part.fraction) * sum(matrices[name[0]] for name in part.fields)) @ branch
            flow += float(weight) * branch
        return float(np.linalg.norm(flow - expm(h * sum(matrices.values()))))

    coarse, fine = error(h), error(h / 2)
    return math.inf if fine < 1e-13 else math.log2(coarse / fine) - 1


def symmetrised(s: Scheme) -> Scheme:
    """Half a step of the scheme, half a step of it backwards: even order where the sub-flows are exact."""
    [(weight, program)] = s.branches
    half = [Substep(p.fields, p.fraction / 2, p.tableau) for p in program if isinstance(p, Substep)]
    return Scheme(((weight, tuple(half + half[::-1])),))


def extrapolated(s: Scheme) -> Scheme:
    """2 Phi(h/2)^2 - Phi(h): removes the leading error of a first-order scheme."""
    two = compose(s, Fraction(1, 2), Fraction(1, 2))
    return Scheme(((Fraction(2), two.branches[0][1]), (Fraction(-1), s.branches[0][1])))


def random_program(seed: int, letters: str) -> Scheme:
    rng = np.random.default_rng(seed)
    parts: list[Substep] = []
    for letter in letters:
        cuts = rng.dirichlet(np.ones(2))
        parts += [Substep((letter,), float(c)) for c in cuts[:-1]] + [Substep((letter,), 1 - float(sum(cuts[:-1])))]
    return Scheme(((Fraction(1), tuple(parts[i] for i in rng.permutation(len(parts)))),))


BASES = [
    scheme("A F"),
    scheme("F/2 A F/2"),
    scheme("A C F"),
    scheme("A+C F"),
    scheme("A"),
    scheme("A*7/24 F*2/3 A*3/4 F*-2/3 A*-1/24 F"),
    random_program(1, "AF"),
    random_program(2, "ACF"),
]
Construction = Callable[[Scheme], Scheme]
CONSTRUCTIONS: dict[str, Construction] = {
    "identity": lambda s: s,
    "symmetrised": symmetrised,
    "averaged": lambda s: average(s, Scheme(tuple((w, program[::-1]) for w, program in s.branches))),
    "jumped": lambda s: compose(s, *TRIPLE_JUMP),
    "extrapolated": extrapolated,
}


@pytest.mark.parametrize("base", BASES, ids=str)
@pytest.mark.parametrize("build", CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_the_splitting_order_is_that_of_matrix_exponentials(build: Construction, base: Scheme) -> None:
    s = build(base)
    slope, expected = splitting_slope(s), s.splitting_order
    assert expected is not None
    assert slope > HIGHEST - 0.3 if expected == HIGHEST else abs(slope - expected) < 0.3


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An eighth of the interval in an eighth of the steps: the finest step has the length that it has elsewhere."""
    monkeypatch.setattr(study, "END", study.END / 8)
    monkeypatch.setattr(study, "COUNTS", study.COUNTS[:-3])
    study._reference.cache_clear()
    yield
    study._reference.cache_clear()


def each_pair() -> Iterator[Any]:
    """All tableaux, constructions and bases; by day every pair of two of them occurs."""
    numbered = (enumerate(values) for values in (TABLEAUX.values(), CONSTRUCTIONS.items(), BASES))
    for (i, tableau), (j, (name, build)), (k, base) in product(*numbered):
        marks = pytest.mark.nightly if (i + j + k) % 5 else pytest.mark.slow
        yield pytest.param(tableau, build, base, marks=marks, id=f"{tableau.name}-{name}-{base}")


@pytest.mark.parametrize(("tableau", "build", "base"), list(each_pair()))
@pytest.mark.usefixtures("short")
def test_the_computed_order_is_the_measured_order(tableau: Tableau, build: Construction, base: Scheme) -> None:
    s = build(with_tableau(base, tableau))
    measured = measure(s)
    assert measured is not None
    assert s.order is not None
    assert all(abs(slope - s.order) < 0.05 for slope in measured)


MIXED = [
    "F/2@heun A F/2@midpoint",
    "F/2@heun A@midpoint F/2@kutta3",
    "1/3(A F@heun) + 2/3(F@rk4 A)",
    "F0/2@heun A@heun F1/2@heun",
    "(A0+A1)/2 @rk4",
]
DOUBLED = [
    "a:A b:F",
    "b:F/2 a:A b:F/2",
    "b:F/2 a:A b:F/2 @midpoint",
    "b:(A+F)/2 a:A+F b:(A+F)/2 @rk4",
    "1/2(a:A b:F) + 1/2(b:F a:A) @heun",
]


@pytest.mark.parametrize("text", MIXED + DOUBLED)
def test_mixed_tableaux_and_doubled_states_have_the_measured_order(text: str) -> None:
    """The order holds with time in the fields; in a doubled state the autonomous problem may do better."""
    s, measured = scheme(text), measure(scheme(text))
    assert measured is not None
    assert s.order is not None
    assert abs(min(measured[:2]) - s.order) < 0.15
    assert s.doubled or abs(max(measured[:2]) - s.order) < 0.15


def test_every_row_measures_as_computed() -> None:
    result = with_slopes(orders())
    assert [row.name for row in result.rows] == list(SCHEMES)
    for row in result.rows:
        assert row.order is not None
        assert row.measured is not None
        assert row.untied_order == row.order
        assert all(abs(slope - row.order) < 0.15 for slope in row.measured), row

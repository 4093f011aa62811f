"""Hypothesis strategies: arbitrary valid schemes."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from splitstep import TABLEAUX, Scheme
from splitstep.parts import Part, Project, Substep, map_substeps
from splitstep.tableau import EULER, EXACT, Coefficient

LETTERS = "ACDFGZ"
EXACT_LETTERS = "DGZ"  # diffusion, and letters of one's own
tableaux = st.sampled_from([*TABLEAUX.values()])
positive = st.one_of(
    st.fractions(Fraction(1, 1000), Fraction(1, 5), max_denominator=10**6),
    st.floats(1e-6, 0.2),
    st.integers(1, 199).map(lambda n: n / 1000),
    st.sampled_from([Fraction(1, 2**70), 1e-30, Fraction(1, 7), 0.125]),
)
signed = st.one_of(positive, st.builds(lambda c: -3 * c, positive), st.integers(1, 3))


@st.composite
def programs(draw: st.DrawFn, letters: list[str], doubled: bool, replacing: bool) -> tuple[Part, ...]:
    """Some parts at random, then one more for each letter (and half) with what is missing to 1."""
    halves = ["a", "b"] if doubled else [""]
    parts: list[Part] = []
    total: dict[str, Coefficient] = {}

    def add(names: list[str], fraction: Coefficient, half: str) -> None:
        replaces = replacing and "D" not in "".join(names) and draw(st.booleans())
        solved = not half and len(names) == 1 and names[0][0] in EXACT_LETTERS and draw(st.booleans())
        tableau = EULER if replaces else EXACT if solved else draw(tableaux)
        parts.append(Substep(tuple(names), fraction, tableau, replaces, half))
        for name in names:
            total[name[0] + half] = total.get(name[0] + half, Fraction(0)) + fraction

    def named(letter: str) -> str:
        return letter + draw(st.sampled_from(["", "", "0", "1", "12"]))

    for _ in range(draw(st.integers(0, 3))):
        chosen = draw(st.lists(st.sampled_from(letters), min_size=1, unique=True))
        fraction = draw(positive if "D" in chosen else signed)
        add(list(map(named, chosen)), fraction, draw(st.sampled_from(halves)))
    for half in halves:
        for letter in letters:
            rest = 1 - total.get(letter + half, Fraction(0))
            if rest != 0 and not (letter == "D" and rest < 0):
                add([named(letter)], rest, half)
    if not doubled:
        for projection in draw(st.lists(st.sampled_from(["N", "M", "P", "N0", "P12"]), max_size=3)):
            parts.insert(draw(st.integers(0, len(parts))), Project(projection))
    return tuple(parts)


@st.composite
def schemes(draw: st.DrawFn) -> Scheme:
    doubled, replacing = draw(st.booleans()), draw(st.booleans())
    known = LETTERS.replace("D", "") if doubled else LETTERS  # backwards in the difference of the halves
    letters = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    weights: list[Coefficient] = draw(st.lists(signed, max_size=2))
    weights.append(1 - sum(weights, Fraction(0)))
    body = programs(letters, doubled, replacing and not doubled)
    branches = tuple((w, draw(body)) for w in weights)
    same = draw(st.one_of(st.none(), tableaux))
    result = Scheme(branches)
    if same is None:
        return result
    return Scheme(map_substeps(result.branches, lambda s: s if s.replaces or s.exact else replace(s, tableau=same)))

"""The notation: what is written reads back bit for bit, and what is wrong is refused in one helpful line."""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import schemes

from splitstep import SCHEMES, TABLEAUX, Scheme, Tableau, scheme, with_tableau
from splitstep.notation import read, shortened
from splitstep.scheme import Project, Substep, with_diffusion, with_projections, without_residuals
from splitstep.tableau import coefficient


def coefficients(s: Scheme) -> list[str]:
    """Every number of the scheme with its type."""
    parts = [(w, part.fraction) for w, program in s.branches for part in program if isinstance(part, Substep)]
    return [repr(number) for pair in parts for number in pair]


@given(schemes())
def test_what_is_written_reads_back_bit_for_bit(s: Scheme) -> None:
    again = scheme(str(s))
    assert again == s
    assert coefficients(again) == coefficients(s)
    assert hash(again) == hash(s)
    assert str(again) == str(s)
    assert eval(repr(s), {"scheme": scheme}) == s


@given(schemes(), st.data())
def test_white_space_does_not_matter(s: Scheme, data: st.DataObject) -> None:
    space = st.text(" \t\n", min_size=1, max_size=3)
    words = re.split(r"( |(?<=\d)\(|\)(?= |$))", str(s))
    text = "".join(data.draw(space) if word == " " else word for word in words)
    assert scheme(data.draw(space) + text + data.draw(space)) == s


def test_every_row_reads_back() -> None:
    for name, row in SCHEMES.items():
        assert scheme(name) is row
        assert scheme(str(row)) == row
        assert coefficients(scheme(str(row))) == coefficients(row)


@pytest.mark.parametrize(("text", "canonical"), [
    ("F+A", "A+F"),
    ("  A   F ", "A F"),
    ("A*1 F*1/1", "A F"),
    ("F*0.5 A F*2/4", "F/2 A F/2"),
    ("F*.5 A F*5e-1", "F/2 A F/2"),
    ("A@heun F@heun", "A F @heun"),
    ("A@euler F @heun", "A F@heun"),
    ("A F @euler", "A F"),
    ("(A) F", "A F"),
    ("(A+F)*1/2 (A+F)/2", "(A+F)/2 (A+F)/2"),
    ("1(A F)", "A F"),
    (".5(A F)+1/2( F A )@heun", "1/2(A F) + 1/2(F A) @heun"),
    ("=A F @heun", "=A F @heun"),
    ("a:A b:F", "a:A b:F"),
    ("D@exact", "D @exact"),
    ("D*.5@exact F A D/2@exact", "D/2@exact F A D/2@exact"),
    ("=A =F D@exact", "=A =F D @exact"),
    ("A D/2@exact F D/2@exact @heun", "A@heun D/2@exact F@heun D/2@exact"),
    ("4/3(A/2 A/2) + -1/3(A)", "4/3(A/2 A/2) + -1/3(A)"),
    ("A*0.1 A*0.9", "A/10 A*9/10"),
    ("A*1e-3 A*.999", "A/1000 A*999/1000"),
    ("A*0.1234567891 A*0.8765432109", "A*0.1234567891 A*0.8765432109"),
])  # fmt: skip
def test_the_canonical_form(text: str, canonical: str) -> None:
    assert str(scheme(text)) == canonical
    assert scheme(canonical) == scheme(text)
    assert read(canonical) is read(canonical)  # a text is parsed once


def test_a_coefficient_is_a_fraction_where_it_is_a_short_one() -> None:
    for value, expected in {0.5: "1/2", 0.1: "1/10", 2**-20: "1/1048576", 3: "3"}.items():
        assert coefficient(value) == Fraction(expected)
        assert isinstance(coefficient(value), Fraction)
    assert isinstance(coefficient(0.1234567891), float)
    assert isinstance(coefficient(2**-40), float)
    assert coefficient(Fraction(1, 10**12)) == Fraction(1, 10**12)


@given(st.integers(-(10**6), 10**6), st.integers(0, 9))
def test_a_short_decimal_is_the_fraction_that_it_writes(digits: int, places: int) -> None:
    text = f"{Decimal(digits).scaleb(-places):f}"
    rest = 1 - Fraction(text)
    if Fraction(text) and rest:
        [(_, first), _] = scheme(f"A*{text} A*{rest}").substeps
        assert first.fraction == Fraction(text)
        assert scheme(f"A*{text} A*{rest}") == scheme(f"A*{Fraction(text)} A*{rest}")


@given(st.floats(-1e8, 1e8))
def test_a_coefficient_is_the_double_that_was_given(value: float) -> None:
    assert float(coefficient(value)) == value


def one_line(given: Any) -> str:
    """The one line by which a scheme is refused."""
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        scheme(given)
    return str(caught.value)


@pytest.mark.parametrize("wrong", ["\u03a9/2", "A \u00c9", "\u00e9", "A\u0660", ["A", "F"], None, 3, b"A"])
def test_what_is_not_a_scheme_is_refused_in_one_line(wrong: Any) -> None:
    assert "scheme" in one_line(wrong).lower()


def test_what_is_not_a_letter_a_projection_or_a_number_is_refused() -> None:
    for fields in ("\u00e9", "", 1, "AB", "N", "A\n"):
        with pytest.raises(ValueError, match="fields such as A or F0"):
            Substep((fields,))  # pyright: ignore[reportArgumentType]
    for name in ("X", 1, "A", "", "N ", "N0\n", "NM", "n", "N\u0663"):
        with pytest.raises(ValueError, match="A projection is N, M or P"):
            Project(name)  # pyright: ignore[reportArgumentType]
    for value in (float("nan"), float("inf"), 10**400, Fraction(10**400, 3)):
        with pytest.raises(ValueError, match="below 10"):
            Substep(("A",), value)


RALSTON = Tableau("ralston_2", ((), (Fraction(2, 3),)), (Fraction(1, 4), Fraction(3, 4)))


def test_a_tableau_of_ones_own_is_written_once_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TABLEAUX, "own", dict(TABLEAUX.own))
    other = Tableau("heun", RALSTON.a, RALSTON.b)
    for tableau in (RALSTON, other):
        s = with_tableau(scheme("A F"), tableau)
        assert s.order == 1
        assert repr(s) == f"scheme('A F @{tableau.name}')"
        with pytest.raises(ValueError, match=f'cannot name the tableau .{tableau.name}.*TABLEAUX.add."{tableau.name}"'):
            str(s)
    TABLEAUX.add("ralston_2", RALSTON)
    s = with_tableau(scheme("F/2 A F/2"), RALSTON)
    assert str(s) == "F/2 A F/2 @ralston_2"
    assert scheme(str(s)) == s
    assert s.order == 2
    for name in ("", "Heun", "my heun", "@heun"):
        with pytest.raises(ValueError, match="a word in lower case"):
            Tableau(name, RALSTON.a, RALSTON.b)


STRUCTURES = [
    ("A F", "=A =F", "A N F M", "A F D@exact"),
    ("A+F", "=A+F", "A+F N", "D/2@exact A+F D/2@exact"),
    ("F0/2 A F1/2", "=F0/2 =A =F1/2", "F0/2 N A M F1/2 P", "F0/2 A F1/2 D@exact"),
    ("F/2 A F/2", "=F/2 =A =F/2", "F/2 N A M F/2 P", "D/2@exact F/2 A F/2 D/2@exact"),
    ("A/2 F/2 A/2 F/2", "=A/2 =F/2 =A/2 =F/2", "A/2 N F/2 M A/2 P F/2 N0", "A/2 F/2 A/2 F/2 D@exact"),
    ("1/2(A F) + 1/2(F A)", "1/2(=A =F) + 1/2(=F =A)", "1/2(A N F M) + 1/2(F P A N0)",
     "1/2(A F D@exact) + 1/2(F A D@exact)"),
    ("A F S", "=A =F S", "A N F M S", "A F S D@exact"),
    ("A F D@exact", "=A =F D @exact", "A N F M D@exact", "has diffusion already"),
    ("A N F M", "=A N =F M", "has projections already", "A N F M D@exact"),
    ("A F @heun", "has stages (@heun)", "A N F M @heun", "A@heun F@heun D@exact"),
    ("A+D F", "sums a network and another term", "A+D F N", "has diffusion already"),
    ("reversible", "halves of a pair", "halves of a pair", "halves of a pair"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "bare", "projected", "diffused"), STRUCTURES)
def test_structure_is_changed_or_refused_in_one_line(text: str, bare: str, projected: str, diffused: str) -> None:
    for change, expected in ((without_residuals, bare), (with_projections, projected), (with_diffusion, diffused)):
        if expected[0].islower():
            with pytest.raises(ValueError, match=re.escape(expected)) as caught:
                change(scheme(text))
            assert len(str(caught.value).splitlines()) == 1
        else:
            assert str(change(scheme(text))) == expected


BAD = {
    "": "empty",
    "A F/": "F >>>/.*as in F/2",
    "A f": "capital letters.*write F",
    "A,F": "separated by spaces",
    "A F @hun": "did you mean @heun",
    "A@nope F": "known: euler, midpoint, heun, kutta3, rk4",
    "@heun": "at least one part",
    "A @heun F": "at the very end",
    "A+F/2 A+F/2": r"\(A\+F\)/2",
    "F/0 A": "divided by 0",
    "F*1/0 A": "not a coefficient",
    "F*1e999 A": "not a coefficient",
    "A*0 A F": "leave that part out",
    "A A F": "Field A advances by 2",
    "A/2 F": "its fractions must sum to 1",
    "a:A/2 b:F": "Field A of half a advances by 1/2",
    "A+A": "different fields",
    "D*-1 D*2 A": "Diffusion D cannot run backwards.*D/2 A F D/2",
    "A@exact F": "A@exact: only a single field .* A has none; write @exact after such a part alone, as in D/2@exact",
    "D/2 A F D/2 @exact": "A@exact: only a single field .* A has none; write @exact after such a part alone",
    "G+Z@exact": "only a single field",
    "S@exact": "S has none",
    "a:G@exact b:F": "a half of a pair reads the other half",
    "a:D b:F": "ill-posed",
    "=D A": "a rate of change",
    "N/2 A": "they stand alone",
    "A+N": "they stand alone",
    "N": "at least one field",
    "1/2(A F) + 1/2(F A": "closing bracket",
    "1/2(A F) + F A": "a weight and a bracket",
    "1/2(A F) + 1/3(F A)": "weights of the averaged programs must sum to 1",
    "2 A F": "after its field",
    "=A =F @heun": "no stages",
    "a:=A b:F": "no halves",
    "a:A F": "every part moves a half",
    "a:A b:F N": "nothing projects",
    "c:A b:F": "a: and b:",
    "A F\nG;": "separated by spaces",
    "A*\u0663 F": "as in F\\*7/24",
    "A + F": "without spaces",
    "AF": "separated by spaces",
    "A*F": "as in F\\*7/24",
    "A@": "@heun",
}


@pytest.mark.parametrize(("text", "advice"), BAD.items())
def test_a_wrong_notation_gets_one_line_with_the_text_the_place_and_advice(text: str, advice: str) -> None:
    message = one_line(text)
    assert re.search(advice, message)
    if text.strip():
        assert repr(text) in message
        assert re.search(r"character \d+|Field [A-Z]|weights|half|at least one field|Rows:", message)


def test_the_place_is_the_character_at_fault() -> None:
    for text, place in {"A F/x": 4, "A/2 F f": 7, "A F@hun": 5, "F/2 A+F/2": 8, "1/2(A F) 1/2(F A)": 10}.items():
        with pytest.raises(ValueError, match=f"character {place} "):
            read(text)


@settings(max_examples=500)
@given(st.one_of(st.text(), st.text("AFNDab012/*@()+=:.e- \nheunrk4\u0663")))
def test_any_text_is_a_scheme_or_is_refused_in_one_line(text: str) -> None:
    try:
        s, message = scheme(text), ""
    except ValueError as error:
        s, message = None, str(error)
    assert scheme(str(s)) == s if s else len(message.splitlines()) == 1


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1" * 5000, "1e308", "1/" + "3" * 400])
def test_a_number_of_any_size_is_refused_in_one_line(number: str) -> None:
    for text in ("A*{} F", "{}(A F) + 1/3(F A)", "A*{} A*{} A*1e308 F"):
        assert "Scheme" in one_line(text.format(number, number))


@pytest.mark.parametrize(("text", "short"), [
    ("F0/2 A F1/2", "F0/2 A F1/2"),
    ("A*0.675 F*-0.8512", "A*0.675 F*-0.8512"),
    ("A*1.3512071919596578 F", "A*1.351.. F"),
    ("A*-1.2345678901234567e-05 F", "A*-1.234..e-05 F"),
    ("0.33333333333333331(A F) + 2/3(F A) @rk4", "0.333..(A F) + 2/3(F A) @rk4"),
])  # fmt: skip
def test_a_long_decimal_is_cut_for_reading_and_keeps_its_power_of_ten(text: str, short: str) -> None:
    assert shortened(text) == short


def test_an_unknown_row_gets_the_nearest_name() -> None:
    for wrong, right in (("macron", "macaron"), ("strang-mid", "strang-midpoint"), ("rk3", "rk4")):
        assert f"Did you mean {right}?" in one_line(wrong)

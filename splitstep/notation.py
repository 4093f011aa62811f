"""The notation of schemes: text to `Scheme` and back. The grammar stands in docs/notation.md.

    scheme  = average | program [ tableau ]
    average = term { "+" term } [ tableau ]
    term    = number "(" program ")"
    program = part { part }
    part    = [ half ":" ] [ "=" ] sum [ scale ] [ tableau ]  |  projection
    sum     = field { "+" field }  |  "(" field { "+" field } ")"
    scale   = "/" integer  |  "*" number

White space separates parts; a tableau that stands alone at the end holds for every part that names none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache

from .scheme import PROJECTIONS, Part, Project, Scheme, Substep
from .tableau import EULER, TABLEAUX, Coefficient, Tableau, coefficient

EXPONENT = r"(?:[eE][-+]?[0-9]+)"
NUMBER = rf"-?(?:[0-9]+/[0-9]+|[0-9]+\.[0-9]*{EXPONENT}?|\.[0-9]+{EXPONENT}?|[0-9]+{EXPONENT}?)"
FIELD = r"[A-Z][0-9]*"
START = re.compile(
    rf"(?:(?P<half>[ab]):)?(?P<equals>=)?"
    rf"(?:\((?P<group>{FIELD}(?:\+{FIELD})*)\)|(?P<sum>{FIELD}(?:\+{FIELD})*))"
    rf"(?:/(?P<over>[0-9]+)|\*(?P<times>{NUMBER}))?"
    rf"(?:@(?P<tableau>[a-z]\w*))?"
)
PART = re.compile(START.pattern + r"(?=\s|\)|$)")
GLOBAL = re.compile(r"@(?P<tableau>[a-z]\w*)\s*$")
TERM = re.compile(rf"(?P<weight>{NUMBER})\s*\(")


def fail(text: str, place: int, what: str) -> ValueError:
    """One line with the text, the place and what would be right."""
    shown = " ".join(f"{text[:place]} >>>{text[place:] or 'end'}".split())
    return ValueError(f"Scheme {text!r}, character {place + 1} ({shown}): {what}")


@lru_cache(1024)
def read(text: str) -> Scheme:
    """The scheme that the notation describes; schemes are frozen, so a text is parsed once."""
    if not text.strip():
        raise ValueError('An empty scheme: write one such as "A F" or "F0/2 A F1/2", or a row\'s name such as macaron.')
    place = _skip(text, 0)
    try:
        if TERM.match(text, place):
            branches, place = _average(text, place)
        else:
            program, place = _program(text, place)
            branches = [(Fraction(1), program)]
        tableau, place = _global(text, place)
        if place != len(text):
            raise fail(text, place, _advice(text, place))
        if tableau != EULER and all(own for _, program in branches for _, own in program):
            reason = f"no part is left for @{tableau.name}: parts that replace the state have no stages."
            raise fail(text, text.rindex("@"), reason)
        return Scheme(tuple((w, tuple(_finish(part, tableau) for part in program)) for w, program in branches))
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith("Scheme ") else f"Scheme {text!r}: {message}") from None


Pending = tuple[Part, bool]  # a part, and whether it named its own tableau
Branches = list[tuple[Coefficient, list[Pending]]]


def _average(text: str, place: int) -> tuple[Branches, int]:
    branches: Branches = []
    while term := TERM.match(text, place):
        program, place = _program(text, _skip(text, term.end()))
        if text[place : place + 1] != ")":
            raise fail(text, place, "this averaged program needs its closing bracket, as in 1/2(A F) + 1/2(F A).")
        branches.append((_number(text, term.start("weight"), term["weight"]), program))
        place = _skip(text, place + 1)
        if text[place : place + 1] != "+":
            break
        place = _skip(text, place + 1)
        if not TERM.match(text, place):
            raise fail(text, place, "an averaged program is a weight and a bracket, as in 1/2(A F) + 1/2(F A).")
    return branches, place


def _program(text: str, place: int) -> tuple[list[Pending], int]:
    program: list[Pending] = []
    while place < len(text) and text[place] not in ")@":
        found = PART.match(text, place)
        if not found:
            begun = START.match(text, place)
            place, advice = (begun.end(), _ending) if begun else (place, _advice)
            raise fail(text, place, advice(text, place))
        program.append(_part(text, found))
        place = _skip(text, found.end())
    if not program:
        raise fail(text, place, "a program needs at least one part, such as A.")
    return program, place


def _part(text: str, found: re.Match[str]) -> Pending:
    names = tuple((found["group"] or found["sum"]).split("+"))
    letters = {name[0] for name in names}
    if letters & PROJECTIONS:
        if found.group() != names[0]:
            raise fail(text, found.start(), "N, M and P are projections: they stand alone, as in A N F M.")
        return Project(names[0]), True
    scaled = found["over"] or found["times"]
    if found["sum"] and len(names) > 1 and scaled:
        place = found.end("sum")
        raise fail(text, place, f"a fraction of a sum needs brackets: ({found['sum']}){text[place : found.end()]}.")
    fraction: Coefficient = Fraction(1)
    if found["over"]:
        if int(found["over"]) == 0:
            raise fail(text, found.start("over"), "a fraction cannot be divided by 0.")
        fraction = Fraction(1, int(found["over"]))
    elif found["times"]:
        fraction = _number(text, found.start("times"), found["times"])
    tableau = _tableau(text, found.start("tableau"), found["tableau"]) if found["tableau"] else EULER
    try:
        part = Substep(names, fraction, tableau, bool(found["equals"]), found["half"] or "")
    except ValueError as error:
        raise fail(text, found.start(), str(error)) from None
    return part, bool(found["tableau"]) or part.replaces


def _finish(pending: Pending, tableau: Tableau) -> Part:
    part, own = pending
    return part if own or isinstance(part, Project) else replace(part, tableau=tableau)


def _global(text: str, place: int) -> tuple[Tableau, int]:
    found = GLOBAL.match(text, place)
    return (_tableau(text, found.start("tableau"), found["tableau"]), len(text)) if found else (EULER, place)


def _tableau(text: str, place: int, name: str) -> Tableau:
    if name not in TABLEAUX:
        near = get_close_matches(name, TABLEAUX, 1)
        hint = f"did you mean @{near[0]}?" if near else "use one of these."
        raise fail(text, place, f"unknown tableau {name!r}; known: {', '.join(TABLEAUX)}; {hint}")
    return TABLEAUX[name]


def _number(text: str, place: int, number: str) -> Coefficient:
    try:
        return coefficient(Fraction(number) if "/" in number or number.lstrip("-").isdigit() else float(number))
    except (ZeroDivisionError, ValueError):
        reason = f"{number} is no coefficient; write a fraction such as 7/24 or a decimal such as 0.675."
        raise fail(text, place, reason) from None


def _skip(text: str, place: int) -> int:
    return len(text) - len(text[place:].lstrip())


def _ending(text: str, place: int) -> str:
    """What is right where a part began well and goes on wrongly."""
    advice = {
        "/": "a fraction is /2 or *7/24 or *0.675, as in F/2.",
        "*": "a fraction is /2 or *7/24 or *0.675, as in F*7/24.",
        "+": "a sum is written without spaces, as in A+F.",
        "@": f"a tableau is one of {', '.join(f'@{name}' for name in TABLEAUX)}.",
    }
    return advice.get(
        text[place], "parts are separated by spaces, as in A F/2; they look like A, F/2, (A+F)/2, A@heun."
    )


def _advice(text: str, place: int) -> str:
    here = text[place]
    if text[place + 1 : place + 2] == ":":
        return "the halves of a doubled state are a: and b:, as in a:A b:F."
    if here == "+":
        return "a sum is written without spaces, as in A+F; an average looks like 1/2(A F) + 1/2(F A)."
    if here.islower() and here not in "ab":
        return f"fields are capital letters such as A and F; write {here.upper()}."
    if here == "@":
        return "a tableau for all parts stands once, at the very end, as in F/2 A F/2 @heun."
    if here.isupper():
        return "parts are separated by spaces and look like A, F/2, F0*7/24, A+F, (A+F)/2, =A or A@heun."
    if here in "0123456789.":
        return "a fraction stands after its field, as in F/2 or F*7/24; an average looks like 1/2(A F) + 1/2(F A)."
    return "expected a part such as A, F/2, F0*7/24, A+F, (A+F)/2, =A, A@heun or a projection N."


def write(scheme: Scheme) -> str:
    """The canonical text: `read(write(s)) == s` bit for bit."""
    for tableau in {s.tableau for _, s in scheme.substeps}:
        if TABLEAUX.get(tableau.name) != tableau:
            raise ValueError(
                f"The notation cannot name the tableau {tableau.name!r}, for splitstep.TABLEAUX does not hold it: "
                f'register it with TABLEAUX.add("{tableau.name}", tableau), or in a package\'s entry points.'
            )
    return shown(scheme)


def shown(scheme: Scheme) -> str:
    """The text for humans; tableaux that are not registered go by their names too."""
    tableaux = {s.tableau for _, s in scheme.substeps if not s.replaces}
    common = tableaux.pop() if len(tableaux) == 1 else EULER
    texts = [(w, " ".join(_write_part(part, common) for part in program)) for w, program in scheme.branches]
    tail = "" if common == EULER else f" @{common.name}"
    if len(texts) == 1 and texts[0][0] == 1:
        return texts[0][1] + tail
    return " + ".join(f"{w}({program})" for w, program in texts) + tail


def _write_part(part: Part, common: Tableau) -> str:
    if isinstance(part, Project):
        return part.field
    fields, scale = "+".join(part.fields), _write_scale(part.fraction)
    if len(part.fields) > 1 and scale:
        fields = f"({fields})"
    half = f"{part.half}:" if part.half else ""
    tableau = "" if part.replaces or part.tableau == common else f"@{part.tableau.name}"
    return f"{half}{'=' if part.replaces else ''}{fields}{scale}{tableau}"


def _write_scale(fraction: Coefficient) -> str:
    if fraction == 1:
        return ""
    if isinstance(fraction, Fraction) and fraction.numerator == 1:
        return f"/{fraction.denominator}"
    return f"*{fraction}"


def shortened(notation: str) -> str:
    """The notation with long decimals cut, for reading; powers of ten stay."""
    return re.sub(r"(\d\.\d{3})\d{5,}", r"\1..", notation)

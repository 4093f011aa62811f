"""The notation of schemes: text to `Scheme` and back. docs/guide/notation.md explains the grammar.

    scheme  = average | program [ tableau ]
    average = term { "+" term } [ tableau ]
    term    = number "(" program ")"
    program = part { part }
    part    = [ half ":" ] [ "=" ] sum [ scale ] [ tableau ]  |  projection
    sum     = field { "+" field }  |  "(" field { "+" field } ")"
    scale   = "/" integer  |  "*" number

White space separates parts; "@exact" stands where a tableau does; a tableau alone at the end holds for every part that
names none.
"""

import re
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from .parts import PROJECTIONS, Part, Project, Substep
from .scheme import Scheme
from .support.words import nearest
from .tableau import EULER, EXACT, TABLEAUX, Coefficient, Tableau, coefficient

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
LONGEST = 10_000  # characters; the work for the order of a scheme grows with the square of its length


def fail(text: str, position: int, what: str) -> ValueError:
    """An error of one line: the text, the position in it, and what to write there."""
    shown = " ".join(f"{text[:position]} >>>{text[position:] or 'end'}".split())
    return ValueError(f"Scheme {text!r}, character {position + 1} ({shown}): {what}")


@lru_cache(1024)
def read(text: str) -> Scheme:
    """The scheme that the notation describes; schemes are frozen, so a text is parsed once."""
    if len(text) > LONGEST:
        raise ValueError(f"Scheme {text[:40]!r}... has {len(text):,} characters: write at most {LONGEST:,}.")
    if not text.strip():
        raise ValueError('An empty scheme: write one such as "A F" or "F0/2 A F1/2", or a row\'s name such as macaron.')
    position = _skip(text, 0)
    try:
        if TERM.match(text, position):
            branches, position = _average(text, position)
        else:
            program, position = _program(text, position)
            branches = [(Fraction(1), program)]
        tableau = EULER
        if common := GLOBAL.match(text, position):
            tableau, position = _tableau(text, common.start("tableau"), common["tableau"]), len(text)
        if position != len(text):
            raise fail(text, position, _advice(text, position))
        if tableau != EULER and all(own for _, program in branches for _, own in program):
            reason = f"no part is left for @{tableau.name}: parts that replace the state have no stages."
            raise fail(text, text.rindex("@"), reason)
        return Scheme(tuple((w, tuple(_finish(text, part, tableau) for part in program)) for w, program in branches))
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith("Scheme ") else f"Scheme {text!r}: {message}") from None


Pending = tuple[Part, bool]  # a part, and whether it named its own tableau
Branches = list[tuple[Coefficient, list[Pending]]]


def _average(text: str, position: int) -> tuple[Branches, int]:
    branches: Branches = []
    while term := TERM.match(text, position):
        program, position = _program(text, _skip(text, term.end()))
        if text[position : position + 1] != ")":
            raise fail(text, position, "this averaged program needs its closing bracket, as in 1/2(A F) + 1/2(F A).")
        branches.append((_number(text, term.start("weight"), term["weight"]), program))
        position = _skip(text, position + 1)
        if text[position : position + 1] != "+":
            break
        position = _skip(text, position + 1)
        if not TERM.match(text, position):
            raise fail(text, position, "an averaged program is a weight and a bracket, as in 1/2(A F) + 1/2(F A).")
    return branches, position


def _program(text: str, position: int) -> tuple[list[Pending], int]:
    program: list[Pending] = []
    while position < len(text) and text[position] not in ")@":
        found = PART.match(text, position)
        if not found:
            begun = START.match(text, position)
            position, advice = (begun.end(), _ending) if begun else (position, _advice)
            raise fail(text, position, advice(text, position))
        program.append(_part(text, found))
        position = _skip(text, found.end())
    if not program:
        raise fail(text, position, "a program needs at least one part, such as A.")
    return program, position


def _part(text: str, found: re.Match[str]) -> Pending:
    names = tuple((found["group"] or found["sum"]).split("+"))
    letters = {name[0] for name in names}
    if letters & PROJECTIONS:
        if found.group() != names[0]:
            raise fail(text, found.start(), "N, M and P are projections: they stand alone, as in A N F M.")
        return Project(names[0]), True
    scaled = found["over"] or found["times"]
    if found["sum"] and len(names) > 1 and scaled:
        end = found.end("sum")
        raise fail(text, end, f"a fraction of a sum needs brackets: ({found['sum']}){text[end : found.end()]}.")
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


def _finish(text: str, pending: Pending, tableau: Tableau) -> Part:
    part, own = pending
    try:
        return part if own or isinstance(part, Project) else replace(part, tableau=tableau)
    except ValueError as error:  # @exact for all, and a part without an exact flow
        raise fail(text, text.rindex("@"), str(error)) from None


def _tableau(text: str, position: int, name: str) -> Tableau:
    if name == EXACT.name:
        return EXACT
    if name not in TABLEAUX:
        hint = f"did you mean @{near}?" if (near := nearest(name, TABLEAUX)) else "use one of these."
        raise fail(text, position, f"unknown tableau {name!r}; known: {', '.join(TABLEAUX)}; {hint}")
    return TABLEAUX[name]


def _number(text: str, position: int, number: str) -> Coefficient:
    try:
        return coefficient(Fraction(number) if "/" in number or number.lstrip("-").isdigit() else float(number))
    except (ZeroDivisionError, ValueError):
        reason = f"{number} is not a coefficient; write a fraction such as 7/24 or a decimal such as 0.675."
        raise fail(text, position, reason) from None


def _skip(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip())


def _ending(text: str, position: int) -> str:
    """Advice for a part that begins well and continues wrongly."""
    parts = "parts are separated by spaces, as in A F/2; they look like A, F/2, (A+F)/2, A@heun."
    return {
        "/": "a fraction is /2 or *7/24 or *0.675, as in F/2.",
        "*": "a fraction is /2 or *7/24 or *0.675, as in F*7/24.",
        "+": "a sum is written without spaces, as in A+F.",
        "@": f"a tableau is one of {', '.join(f'@{name}' for name in TABLEAUX)}.",
    }.get(text[position], parts)


def _advice(text: str, position: int) -> str:
    here = text[position]
    if text[position + 1 : position + 2] == ":":
        return "the halves of a doubled state are a: and b:, as in a:A b:F."
    if here == "+":
        return "a sum is written without spaces, as in A+F; an average looks like 1/2(A F) + 1/2(F A)."
    if here.islower() and here not in "ab":
        return f"fields are capital letters such as A and F; write {here.upper()}."
    if here == "@":
        return "a tableau for all parts comes once, at the very end, as in F/2 A F/2 @heun."
    if here.isupper():
        return "parts are separated by spaces and look like A, F/2, F0*7/24, A+F, (A+F)/2, =A or A@heun."
    if here in "0123456789.":
        return "a fraction comes after its field, as in F/2 or F*7/24; an average looks like 1/2(A F) + 1/2(F A)."
    return "expected a part such as A, F/2, F0*7/24, A+F, (A+F)/2, =A, A@heun or a projection N."


def shortened(notation: str) -> str:
    """The notation with long decimals cut for reading; exponents stay."""
    return re.sub(r"(\d\.\d{3})\d{5,}", r"\1..", notation)

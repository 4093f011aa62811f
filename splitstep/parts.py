"""The parts of schemes: as they are written, and as `integrate` runs them. No torch here."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from .letters import letter_of
from .tableau import EULER, EXACT, Coefficient, Tableau, coefficient

PROJECTIONS = frozenset("NMP")


@dataclass(frozen=True)
class Substep:
    """Advance the sum of the named fields by `fraction` of the step.

    `replaces`: x becomes f(x) instead of x + h f(x); the fraction then only moves the clock. `half`: in a doubled state
    (a, b), the half that moves; the fields read the other half.
    """

    fields: tuple[str, ...]
    fraction: Coefficient = Fraction(1)
    tableau: Tableau = EULER
    replaces: bool = False
    half: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(sorted(self.fields)))
        object.__setattr__(self, "fraction", coefficient(self.fraction))
        wrong = [name for name in self.fields if not re.fullmatch("[A-Z][0-9]*", str(name)) or name[0] in PROJECTIONS]
        if wrong or self.half not in ("", "a", "b"):
            raise ValueError(
                f"A part has fields such as A or F0 and moves half a, half b or neither; got {wrong or self.fields}, "
                f"half {self.half!r}."
            )
        if not self.fields or len(set(self.fields)) != len(self.fields):
            raise ValueError(f"A part sums different fields; got {'+'.join(self.fields) or 'none'}.")
        if self.fraction == 0:
            raise ValueError(f"Field {'+'.join(self.fields)} advances by 0: leave that part out.")
        forward = [name[0] for name in self.fields if not letter_of(name).backwards]
        if forward and self.fraction < 0:
            letter = forward[0]
            raise ValueError(
                f"{letter_of(letter).title.capitalize()} {letter} cannot run backwards in time (ill-posed); its "
                f"fraction is {self.fraction}: use a scheme whose fractions of {letter} are positive, such as "
                f"{letter}/2 A F {letter}/2."
            )
        if self.replaces and (self.tableau != EULER or self.half):
            raise ValueError(
                f"={'+'.join(self.fields)} replaces the state: it has no stages (@{self.tableau.name}) and no halves; "
                f"write ={'+'.join(self.fields)} alone."
            )
        self._check_terms()

    def _check_terms(self) -> None:
        """Refuse what the fields' letters cannot do: be solved exactly, replace the state, move half of a pair."""
        text, letters = "+".join(self.fields), {name[0]: letter_of(name) for name in self.fields}
        unsolved = [name for name, letter in letters.items() if not letter.exact]
        if self.exact and (unsolved or self.half or len(self.fields) > 1):
            reads = "a half of a pair reads the other half" if self.half else ""
            why = f"{unsolved[0]} has none" if unsolved else reads
            raise ValueError(
                f"{text}@exact: only a single field that solves its own equation has an exact flow"
                f"{why and f', and {why}'}; write @exact after such a part alone, as in D/2@exact A F D/2@exact."
            )
        terms = [name for name, letter in letters.items() if not letter.branch]
        if self.replaces and terms:
            raise ValueError(f"={text} replaces the state by a rate of change, which {terms[0]} is: write {text}.")
        forward = [name for name, letter in letters.items() if not letter.backwards]
        if self.half and forward:
            raise ValueError(
                f"{self.half}:{text}: in a pair (a, b) the difference a - b would run {forward[0]} backwards, which is "
                f"ill-posed: use {forward[0]} in a scheme without halves."
            )
        impure = [name for name, letter in letters.items() if not letter.pure]
        if self.half and impure:
            raise ValueError(
                f"{self.half}:{text}: the backward pass of a pair (a, b) evaluates {impure[0]} again, which may give "
                f"another value then: use {impure[0]} in a scheme without halves."
            )

    @property
    def exact(self) -> bool:
        """Whether the field itself solves x' = f(t, x) over the part."""
        return self.tableau == EXACT

    def by(self, tableau: Tableau) -> "Substep":
        """The part advanced by this tableau, unless it is exact."""
        return self if self.exact else replace(self, tableau=tableau)

    @property
    def colours(self) -> tuple[str, ...]:
        """The colour of each field in the order theory: its letter, and the half it moves."""
        return tuple(name[0] + self.half for name in self.fields)


@dataclass(frozen=True)
class Project:
    """Replace the state by its projection: post-norm, sandwich-norm, clipping."""

    field: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[NMP][0-9]*", str(self.field)):
            raise ValueError(f"A projection is N, M or P, or one with a number such as N0; got {self.field!r}.")


Part = Substep | Project
Program = tuple[Part, ...]
Branches = tuple[tuple[Coefficient, Program], ...]  # weighted programs, whose results are added


def map_substeps(branches: Branches, f: Callable[[Substep], Substep]) -> Branches:
    """The branches with `f` of each part that advances fields."""
    return tuple((w, tuple(f(part) if isinstance(part, Substep) else part for part in p)) for w, p in branches)


def written(part: Part, common: Tableau) -> str:
    """The part in the notation, without its tableau if that is the common one."""
    if isinstance(part, Project):
        return part.field
    fields, scale = "+".join(part.fields), "" if part.fraction == 1 else f"*{part.fraction}"
    if scale.startswith("*1/"):
        scale = scale[2:]
    if len(part.fields) > 1 and scale:
        fields = f"({fields})"
    half = f"{part.half}:" if part.half else ""
    tableau = "" if part.replaces or part.tableau == common else f"@{part.tableau.name}"
    return f"{half}{'=' if part.replaces else ''}{fields}{scale}{tableau}"


class Stage(NamedTuple):
    """One evaluation of a part: its abscissa and the (earlier stage, coefficient) pairs of its state."""

    c: float
    row: tuple[tuple[int, float], ...]


class Move(NamedTuple):
    """A part as `integrate` runs it: in plain floats, without the stages that nothing uses."""

    fields: tuple[str, ...]
    colours: tuple[str, ...]
    fraction: float
    stages: tuple[Stage, ...]
    weights: tuple[float, ...]
    kind: str  # "add", "flow", "replace" or "project"
    half: int  # 0 or 1 in a doubled state, -1 otherwise


def lower(part: Part) -> Move:
    """The part in plain floats."""
    if isinstance(part, Project):
        return Move((part.field,), (), 0.0, (Stage(0.0, ()),), (1.0,), "project", -1)
    if part.exact:
        return Move(part.fields, part.colours, float(part.fraction), (Stage(0.0, ()),), (1.0,), "flow", -1)
    live = live_stages(part)
    number = {old: new for new, old in enumerate(live)}
    rows = [() if part.half else part.tableau.a[j] for j in live]
    stages = tuple(
        Stage(float(part.tableau.c[j]), tuple((number[i], float(a)) for i, a in enumerate(row) if a))
        for j, row in zip(live, rows, strict=True)
    )
    weights, kind = tuple(float(part.tableau.b[j]) for j in live), "replace" if part.replaces else "add"
    half = "ab".index(part.half) if part.half else -1
    return Move(part.fields, part.colours, float(part.fraction), stages, weights, kind, half)


def live_stages(part: Substep) -> tuple[int, ...]:
    """The stages that the result depends on. In a doubled state no stage depends on another, because the fields read
    the half that does not move: midpoint needs one evaluation there, not two."""
    live = {j for j, b in enumerate(part.tableau.b) if b}
    if not part.half:
        for j in reversed(range(len(part.tableau.b))):
            if j in live:
                live |= {i for i, a in enumerate(part.tableau.a[j]) if a}
    return tuple(sorted(live))

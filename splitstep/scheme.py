"""Splitting schemes as pure data: which fields advance, in what order, by what fraction. No torch here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from math import isclose
from typing import TYPE_CHECKING

from .letters import LETTERS
from .tableau import EULER, EXACT, Coefficient, Tableau, coefficient

if TYPE_CHECKING:
    from .moves import Move

PROJECTIONS = frozenset("NMP")


def runs_backwards(letter: str) -> bool:
    """Whether the field of this letter may have negative fractions. Diffusion may not: backwards it is ill-posed."""
    return letter not in LETTERS or LETTERS[letter].backwards


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
        forward = [name[0] for name in self.fields if self.fraction < 0 and not runs_backwards(name[0])]
        if forward:
            letter = forward[0]
            raise ValueError(
                f"{LETTERS[letter].title.capitalize()} {letter} cannot run backwards in time (ill-posed); its fraction "
                f"is {self.fraction}: use a scheme whose fractions of {letter} are positive, such as "
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
        text, letters = "+".join(self.fields), {name[0]: LETTERS.get(name[0]) for name in self.fields}
        unsolved = [name for name, letter in letters.items() if letter and not letter.exact]
        if self.exact and (unsolved or self.half or len(self.fields) > 1):
            reads = "a half of a pair reads the other half" if self.half else ""
            why = f"{unsolved[0]} has none" if unsolved else reads
            raise ValueError(
                f"{text}@exact: only a single field that solves its own equation has an exact flow"
                f"{why and f', and {why}'}; write @exact after such a part alone, as in D/2@exact A F D/2@exact."
            )
        terms = [name for name, letter in letters.items() if letter and not letter.branch]
        if self.replaces and terms:
            raise ValueError(f"={text} replaces the state by a rate of change, which {terms[0]} is: write {text}.")
        forward = [name for name in letters if not runs_backwards(name)]
        if self.half and forward:
            raise ValueError(
                f"{self.half}:{text}: in a pair (a, b) the difference a - b would run {forward[0]} backwards, which is "
                f"ill-posed: use {forward[0]} in a scheme without halves."
            )

    @property
    def exact(self) -> bool:
        """Whether the field itself solves x' = f(t, x) over the part."""
        return self.tableau == EXACT

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


@dataclass(frozen=True)
class Scheme:
    """A weighted sum of programs; nearly always one program of weight 1."""

    branches: tuple[tuple[Coefficient, Program], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "branches", tuple((coefficient(w), tuple(p)) for w, p in self.branches))
        if not self.substeps:
            raise ValueError('A scheme advances at least one field, such as "A F".')
        if not isclose(total := sum(weight for weight, _ in self.branches), 1):
            raise ValueError(f"The weights of the averaged programs must sum to 1; they sum to {total}.")
        if len({bool(s.half) for _, s in self.substeps}) > 1 or (self.doubled and self.projections):
            raise ValueError(
                "In a doubled state every part moves a half (a: or b:) and nothing projects, "
                'as in "b:(A+F)/2 a:A+F b:(A+F)/2".'
            )
        for colour in self.colours:
            total = sum(w * s.fraction for w, s in self.substeps for c in s.colours if c == colour)
            if not isclose(total, 1):
                where = f" of half {colour[1]}" if colour[1:] else ""
                raise ValueError(
                    f"Field {colour[0]}{where} advances by {total} of a step: its fractions must sum to 1, "
                    f"as in {colour[0]}/2 ... {colour[0]}/2."
                )

    @cached_property
    def substeps(self) -> tuple[tuple[Coefficient, Substep], ...]:
        return tuple((w, s) for w, program in self.branches for s in program if isinstance(s, Substep))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, one for each set of weights: ("A", "F0", "F1")."""
        return tuple(sorted({name for _, s in self.substeps for name in s.fields}))

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """The colours of the order theory: the letters of the fields, and the halves that they move."""
        return tuple(sorted({colour for _, s in self.substeps for colour in s.colours}))

    @cached_property
    def projections(self) -> tuple[str, ...]:
        return tuple(sorted({s.field for _, program in self.branches for s in program if isinstance(s, Project)}))

    @cached_property
    def doubled(self) -> bool:
        """Whether the state is a pair (a, b)."""
        return any(s.half for _, s in self.substeps)

    @cached_property
    def replaces(self) -> bool:
        return any(s.replaces for _, s in self.substeps)

    @cached_property
    def plan(self) -> tuple[tuple[float, tuple[Move, ...]], ...]:
        """The scheme in plain floats, as `integrate` runs it."""
        from .moves import lower

        return tuple((float(w), tuple(map(lower, program))) for w, program in self.branches)

    @cached_property
    def evaluations(self) -> int:
        """Field evaluations of one step: what it costs."""
        return sum(self.count(name) for name in self.fields)

    def count(self, name: str) -> int:
        """How often one step evaluates the field of this name, an exact flow counted as one evaluation."""
        return sum(len(m.stages) for _, program in self.plan for m in program if name in m.fields)

    def flows(self, name: str) -> int:
        """How many of these evaluations are exact flows."""
        return sum(name in m.fields for _, program in self.plan for m in program if m.kind == "flow")

    @cached_property
    def solved(self) -> tuple[str, ...]:
        """Names of the fields whose exact flows the scheme needs."""
        return tuple(name for name in self.fields if self.flows(name))

    @cached_property
    def order(self) -> int | None:
        """Order of one step on generic smooth fields, tableaux included; None if a part replaces the state.

        Own weights count as tied: `F0/2 A F1/2` has the order of `F/2 A F/2`. A projection caps the order at 1.
        """
        from .order import order_of_step

        return None if self.replaces else self._capped(order_of_step(self))

    @cached_property
    def untied_order(self) -> int | None:
        """The order if every name is a function of its own: that of `F0/2 A F1/2` on x' = A + F0/2 + F1/2."""
        from .order import order_of_step

        if self.replaces or len({name[0] for name in self.fields}) == len(self.fields):
            return self.order
        return self._capped(order_of_step(self, lambda name: name))

    @cached_property
    def splitting_order(self) -> int | None:
        """Order of the splitting with exact sub-flows."""
        from .order import order_of_splitting

        return None if self.replaces else self._capped(order_of_splitting(self))

    def _capped(self, order: int) -> int:
        return min(order, 1) if self.projections else order

    def __str__(self) -> str:
        from .notation import write

        return write(self)

    def __repr__(self) -> str:
        from .notation import shown

        return f"scheme({shown(self)!r})"


def map_substeps(scheme: Scheme, f: Callable[[Substep], Substep]) -> Scheme:
    return Scheme(tuple((w, tuple(f(s) if isinstance(s, Substep) else s for s in p)) for w, p in scheme.branches))


def with_tableau(scheme: Scheme, tableau: Tableau) -> Scheme:
    """The same splitting with every sub-flow advanced by `tableau`, apart from exact ones."""
    return map_substeps(scheme, lambda s: s if s.exact else replace(s, tableau=tableau))


def compose(scheme: Scheme, *weights: Fraction | float) -> Scheme:
    """Run `scheme` once per weight, each over that fraction of the step: Yoshida's and Suzuki's constructions."""
    if len(scheme.branches) != 1:
        raise ValueError(f"Only a single program can be composed, not an average: {scheme!r}.")
    [(_, program)] = scheme.branches

    def scaled(part: Part, weight: Fraction | float) -> Part:
        return replace(part, fraction=weight * part.fraction) if isinstance(part, Substep) else part

    return Scheme(((Fraction(1), tuple(scaled(part, w) for w in weights for part in program)),))


def average(*schemes: Scheme) -> Scheme:
    """The mean of the schemes' results, step by step."""
    return Scheme(tuple((w / len(schemes), program) for s in schemes for w, program in s.branches))


def unshare(scheme: Scheme, letters: str) -> Scheme:
    """Give every occurrence of these letters its own weights: `F/2 A F/2` becomes `F0/2 A F1/2` for letters "F"."""
    seen: dict[str, int] = {}

    def fresh(name: str) -> str:
        if name[0] not in letters:
            return name
        seen[name[0]] = seen.get(name[0], -1) + 1
        return f"{name[0]}{seen[name[0]]}"

    return map_substeps(scheme, lambda s: replace(s, fields=tuple(map(fresh, s.fields))))


def decoder(scheme: Scheme) -> Scheme:
    """The scheme with cross-attention C, for a decoder.

    If A stands alone in a part of a first-order scheme, C follows it with A's fraction, as in the published
    Transformer and Macaron; if a projection follows A, C gets one of its own: P, or the first free one of P0, P1, ...
    Otherwise C joins A's part, which keeps the order.
    """
    if any(name[0] == "C" for name in scheme.fields):
        return scheme
    joined = (scheme.order or 1) > 1
    free = (name for name in chain("P", map("P{}".format, count())) if name not in scheme.projections)
    own: dict[str, str] = {}  # C's projection for each of A's

    def cross(part: Substep) -> tuple[str, ...]:
        return tuple("C" + name[1:] for name in part.fields if name[0] == "A")

    def parts(program: Program) -> Iterator[Part]:
        waiting: Substep | None = None  # C, until A's projection has passed
        for part in program:
            if isinstance(part, Project):
                yield part
                if waiting:
                    yield waiting
                    yield Project(own.get(part.field) or own.setdefault(part.field, next(free)))
                waiting = None
                continue
            if waiting:
                yield waiting
            alone = len(cross(part)) == len(part.fields) == 1 and not joined
            waiting = replace(part, fields=cross(part)) if alone else None
            yield part if alone else replace(part, fields=part.fields + cross(part))
        if waiting:
            yield waiting

    return Scheme(tuple((w, tuple(parts(program))) for w, program in scheme.branches))


def _branch(name: str) -> bool:
    """Whether a field is a network, which may have a residual connection; D and S are other terms of the equation."""
    return name[0] not in LETTERS or LETTERS[name[0]].branch


def _branch_part(part: Part) -> bool:
    return isinstance(part, Substep) and all(map(_branch, part.fields))


def without_residuals(scheme: Scheme) -> Scheme:
    """Every network replaces the state: "A F" becomes "=A =F". Diffusion, stabiliser and projections stay."""
    if mixed := [s for _, s in scheme.substeps if not _branch_part(s) and any(map(_branch, s.fields))]:
        text = "+".join(mixed[0].fields)
        raise ValueError(f"The part {text} of {str(scheme)!r} sums a network and another term: use a part for each.")
    staged = [s.tableau.name for _, s in scheme.substeps if _branch_part(s) and s.tableau != EULER]
    if scheme.doubled or staged:
        has = "moves halves of a pair" if scheme.doubled else f"has stages (@{staged[0]})"
        raise ValueError(
            f"{str(scheme)!r} {has}, and a part that replaces the state has neither: use a scheme such as A F."
        )
    return map_substeps(scheme, lambda s: replace(s, replaces=True) if _branch_part(s) else s)


def with_projections(scheme: Scheme) -> Scheme:
    """A projection after every network: "A F" becomes "A N F M". The names are N, M, P, then N0, N1, ..."""
    if scheme.doubled or scheme.projections:
        has = "moves halves of a pair, which nothing projects" if scheme.doubled else "has projections already"
        raise ValueError(f"{str(scheme)!r} {has}: use a scheme such as A F.")
    free = chain("NMP", map("N{}".format, count()))

    def parts(program: Program) -> Iterator[Part]:
        for part in program:
            yield part
            if _branch_part(part):
                yield Project(next(free))

    return Scheme(tuple((w, tuple(parts(program))) for w, program in scheme.branches))


def with_diffusion(scheme: Scheme) -> Scheme:
    """Exact diffusion at the end of a step: "A F" becomes "A F D@exact". A program that reads the same backwards gets
    half of it at either end, which keeps its order 2: "F/2 A F/2" becomes "D/2@exact F/2 A F/2 D/2@exact"."""
    if scheme.doubled or any(name[0] == "D" for name in scheme.fields):
        has = "moves halves of a pair, in which D is ill-posed" if scheme.doubled else "has diffusion already"
        raise ValueError(f"{str(scheme)!r} {has}: use a scheme such as A F.")

    def parts(program: Program) -> Program:
        half = Substep(("D",), Fraction(1, 2), EXACT)
        return (half, *program, half) if program == program[::-1] else (*program, replace(half, fraction=Fraction(1)))

    return Scheme(tuple((w, parts(program)) for w, program in scheme.branches))

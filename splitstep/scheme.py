"""Splitting schemes as pure data: which fields advance, in what order, by what fraction. No torch here."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from math import isclose
from pkgutil import resolve_name

from .letters import UNKNOWN, letter_of
from .order import HIGHEST, order_of_splitting, order_of_step
from .parts import Branches, Move, Part, Program, Project, Substep, lower, map_substeps, written
from .tableau import EULER, EXACT, TABLEAUX, Coefficient, Tableau, coefficient

DIAGRAM = "splitstep.report.diagram:in_notebook"


@dataclass(frozen=True)
class Scheme:
    """A weighted sum of programs; nearly always one program of weight 1."""

    branches: Branches

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
        for colour in sorted(self.colours, key=lambda one: letter_of(one[0]) is not UNKNOWN):
            total = sum(w * s.fraction for w, s in self.substeps for c in s.colours if c == colour)
            if not isclose(total, 1):
                where = f" of half {colour[1]}" if colour[1:] else ""
                where += ", a letter that no model has," if letter_of(colour[0]) is UNKNOWN else ""
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
        return self._capped(order_of_step)

    @cached_property
    def untied_order(self) -> int | None:
        """The order if every name is a function of its own: that of `F0/2 A F1/2` on x' = A + F0/2 + F1/2."""
        if len({name[0] for name in self.fields}) == len(self.fields):
            return self.order
        return self._capped(lambda branches: order_of_step(branches, lambda name: name))

    @cached_property
    def splitting_order(self) -> int | None:
        """Order of the splitting with exact sub-flows."""
        return self._capped(order_of_splitting)

    def _capped(self, order: Callable[[Branches], int]) -> int | None:
        if self.replaces:
            return None
        return min(order(self.branches), 1 if self.projections else HIGHEST)

    def __str__(self) -> str:
        """The canonical text, which reads back bit for bit."""
        for tableau in {s.tableau for _, s in self.substeps if not s.exact}:
            if TABLEAUX.get(tableau.name) != tableau:
                raise ValueError(
                    f"The notation cannot name the tableau {tableau.name!r}, which is not in splitstep.TABLEAUX: "
                    f'register it with TABLEAUX.add("{tableau.name}", tableau), or in the entry points of a package.'
                )
        return shown(self)

    def __repr__(self) -> str:
        return f"scheme({shown(self)!r})"

    def _repr_html_(self) -> str:
        """The diagram of one step, for a notebook."""
        return resolve_name(DIAGRAM)([(shown(self), self)])


def shown(scheme: Scheme) -> str:
    """The text for humans; it also names tableaux that are not registered."""
    tableaux = {s.tableau for _, s in scheme.substeps if not s.replaces}
    common = tableaux.pop() if len(tableaux) == 1 else EULER
    texts = [(w, " ".join(written(part, common) for part in program)) for w, program in scheme.branches]
    tail = "" if common == EULER else f" @{common.name}"
    if len(texts) == 1 and texts[0][0] == 1:
        return texts[0][1] + tail
    return " + ".join(f"{w}({program})" for w, program in texts) + tail


def map_programs(scheme: Scheme, f: Callable[[Program], Iterable[Part]]) -> Scheme:
    """The scheme with `f` of each of its programs."""
    return Scheme(tuple((w, tuple(f(program))) for w, program in scheme.branches))


def with_tableau(scheme: Scheme, tableau: Tableau) -> Scheme:
    """The same splitting with every sub-flow advanced by `tableau`, apart from exact ones."""
    return Scheme(map_substeps(scheme.branches, lambda s: s.by(tableau)))


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

    return Scheme(map_substeps(scheme.branches, lambda s: replace(s, fields=tuple(map(fresh, s.fields)))))


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

    return map_programs(scheme, parts)


def _branches(part: Substep) -> list[bool]:
    """Whether each field is a network, which may have a residual connection; D and S are other terms."""
    return [letter_of(name).branch for name in part.fields]


def _branch_part(part: Part) -> bool:
    return isinstance(part, Substep) and all(_branches(part))


def without_residuals(scheme: Scheme) -> Scheme:
    """Every network replaces the state: "A F" becomes "=A =F". Diffusion, stabiliser and projections stay."""
    if mixed := [s for _, s in scheme.substeps if any(_branches(s)) and not all(_branches(s))]:
        text = "+".join(mixed[0].fields)
        raise ValueError(f"The part {text} of {str(scheme)!r} sums a network and another term: use a part for each.")
    staged = [s.tableau.name for _, s in scheme.substeps if _branch_part(s) and s.tableau != EULER]
    if scheme.doubled or staged:
        has = "moves halves of a pair" if scheme.doubled else f"has stages (@{staged[0]})"
        raise ValueError(
            f"{str(scheme)!r} {has}, and a part that replaces the state has neither: use a scheme such as A F."
        )
    return Scheme(map_substeps(scheme.branches, lambda s: replace(s, replaces=True) if _branch_part(s) else s))


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

    return map_programs(scheme, parts)


def with_diffusion(scheme: Scheme) -> Scheme:
    """Exact diffusion at the end of a step: "A F" becomes "A F D@exact". A program that reads the same backwards gets
    half of it at either end, which keeps its order 2: "F/2 A F/2" becomes "D/2@exact F/2 A F/2 D/2@exact"."""
    if scheme.doubled or any(name[0] == "D" for name in scheme.fields):
        has = "moves halves of a pair, in which D is ill-posed" if scheme.doubled else "has diffusion already"
        raise ValueError(f"{str(scheme)!r} {has}: use a scheme such as A F.")

    def parts(program: Program) -> Program:
        half = Substep(("D",), Fraction(1, 2), EXACT)
        return (half, *program, half) if program == program[::-1] else (*program, replace(half, fraction=Fraction(1)))

    return map_programs(scheme, parts)

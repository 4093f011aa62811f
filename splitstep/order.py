"""Order of a step, from order conditions on trees coloured by field. No torch here.

One step of any scheme (all branches, parts and stages) is one explicit additive Runge-Kutta method: evaluation j has a
colour, is taken at the state x + h sum_i A[j][i] k_i, and the step adds h sum_j b[j] k_j. The step has order p if for
every coloured tree of at most p nodes the elementary weight is W/gamma(tree), where W is the product over the nodes of
what a step advances their colours by: 1 for a letter, less for a name that shares its letter with others. No order of
the sub-flows is needed, and errors that cancel count as cancelled: Yoshida's triple jump with Heun sub-flows has order
3, not 2.

In a doubled state (a, b) a field that moves one half reads only the other, so the only trees are those whose colours
alternate between the halves, and those with leaves that stand for the derivative with respect to time.

Conditions on fractions are tested exactly, in integers. Those on doubles are tested up to TOLERANCE, or up to rounding
if the terms are so large that rounding exceeds it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from math import lcm, prod

from .parts import Branches, Substep, map_substeps
from .tableau import BUTCHER5, Coefficient

TOLERANCE = 1e-9  # coefficients may be typed with ten digits
ROUNDING = 1e-14  # of a sum of doubles, relative to the sum of their absolute values
HIGHEST = 5  # that is tested

Tree = tuple[str, tuple["Tree", ...]]
Number = int | float
Row = dict[int, Number]  # evaluation -> its coefficient
Colouring = Callable[[str], str]  # from a field's name to its colour


def letter(name: str) -> str:
    """The colour of a field whose weights count as tied: F for both F0 and F1."""
    return name[0]


def additive_method(branches: Branches) -> tuple[list[Row], Row, list[tuple[str, str]]]:
    """Rows A, weights b, and the name and half of every field evaluation of one step, without projections.

    If the scheme has no doubles, all are integers in units of the least common denominator.
    """
    A: list[dict[int, Coefficient]] = []
    b: dict[int, Coefficient] = {}
    names: list[tuple[str, str]] = []
    for weight, program in branches:
        state: dict[int, Coefficient] = {}  # what the evaluations of this branch have added so far
        for part in program:
            if not isinstance(part, Substep):
                continue
            stages: list[range] = []
            for row in part.tableau.a:
                A.extend([state | _terms(part, row, stages)] * len(part.fields))
                stages.append(range(len(names), len(A)))
                names.extend((name, part.half) for name in part.fields)
            state |= _terms(part, part.tableau.b, stages)
        b |= {j: weight * value for j, value in state.items()}
    *rows, last = in_units([*A, b])
    return rows, last, names


def _terms(part: Substep, row: Iterable[Coefficient], stages: Iterable[range]) -> dict[int, Coefficient]:
    return {j: a * part.fraction for a, stage in zip(row, stages, strict=True) if a for j in stage}


def in_units(rows: list[dict[int, Coefficient]]) -> list[Row]:
    """Fractions as integers, in units of their least common denominator; as doubles if one number is a double."""
    denominators = [value.denominator if isinstance(value, Fraction) else 0 for row in rows for value in row.values()]
    unit = lcm(*denominators)
    return [{j: int(value * unit) if unit else float(value) for j, value in row.items()} for row in rows]


def partitions(n: int, largest: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
    for k in range(min(n, largest), 0, -1):
        for rest in partitions(n - k, k):
            yield (k, *rest)


def half_of(colour: str) -> str:
    return colour[-1] if colour[-1] in "ab" else ""


@lru_cache
def trees(n: int, colours: tuple[str, ...]) -> tuple[Tree, ...]:
    """All rooted trees of n nodes, each node of one colour."""
    found = {
        (colour, tuple(sorted(children)))
        for colour in colours
        for sizes in partitions(n - 1, n - 1)
        for children in product(*(subtrees(k, colour, colours) for k in sizes))
    }
    return tuple(sorted(found))


@lru_cache
def subtrees(n: int, parent: str, colours: tuple[str, ...]) -> tuple[Tree, ...]:
    """The trees in whose direction the derivative of `parent` need not vanish."""
    half = half_of(parent)
    clock: tuple[Tree, ...] = ((f"t{parent[0]}{half}", ()),) if half and n == 1 else ()
    return clock + tuple(tree for tree in trees(n, colours) if not half or half_of(tree[0]) != half)


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree[1]))


def gamma(tree: Tree) -> int:
    return size(tree) * prod(map(gamma, tree[1]))


def elementary_weight(A: list[Row], b: Row, members: Mapping[str, list[int]]) -> Callable[[Tree], Number]:
    """The function from a tree to sum_j b_j Phi_j(tree)."""

    @cache
    def phi(tree: Tree) -> list[Number]:
        """The weight of the tree with its root at each evaluation; 0 if the colour differs."""
        w: list[Number] = [*members[tree[0]]]
        for child in tree[1]:
            u = phi(child)
            w = [v and v * sum(a * u[i] for i, a in row.items()) for v, row in zip(w, A, strict=True)]
        return w

    return lambda tree: sum(value * phi(tree)[j] for j, value in b.items())


def order_of_step(branches: Branches, colouring: Colouring = letter) -> int:
    """The order of one step, HIGHEST at most, if fields of the same colour count as the same function."""
    A, b, names = additive_method(branches)
    coloured = [colouring(name) + half for name, half in names]
    clocks = [f"t{letter(name)}{half}" for name, half in names]
    members = {c: [int(c in both) for both in zip(coloured, clocks, strict=True)] for c in {*coloured, *clocks}}
    exact = all(isinstance(value, int) for value in b.values())
    weight = elementary_weight(A, b, members)
    *rows, last = [{j: abs(value) for j, value in row.items()} for row in (*A, b)]
    absolute = elementary_weight(rows, last, members)  # the sum of the absolute values of the terms

    def expected(tree: Tree) -> Number:
        return weight((tree[0], ())) * prod(map(expected, tree[1]))

    def holds(tree: Tree) -> bool:
        error = gamma(tree) * weight(tree) - expected(tree)
        if exact:
            return error == 0
        left = abs(error / gamma(tree))
        return left <= TOLERANCE or left <= ROUNDING * absolute(tree)

    colours = tuple(sorted({*coloured}))
    return next((p - 1 for p in range(1, HIGHEST + 1) if not all(map(holds, trees(p, colours)))), HIGHEST)


def order_of_splitting(branches: Branches) -> int:
    """Order with exact sub-flows; sub-flows of order 5 do as well, because no higher order is tested.

    Letters that always advance together count as one field, their sum: fewer colours make fewer trees.
    """
    sums = [part.fields for _, program in branches for part in program if isinstance(part, Substep)]

    def parts(name: str) -> tuple[int, ...]:
        """How many fields of this name's letter each part advances."""
        return tuple(sum(letter(other) == letter(name) for other in fields) for fields in sums)

    together = {parts(name): letter(name) for name in sorted({name for fields in sums for name in fields})}
    exact = map_substeps(branches, lambda part: part.by(BUTCHER5))
    return order_of_step(exact, lambda name: together[parts(name)])

"""Order of a step, from order conditions on trees coloured by field; order of a splitting. No torch here.

One step of any scheme (all branches, parts and stages) is one explicit additive Runge-Kutta method: evaluation j has a
colour, is taken at the state x + h sum_i A[j][i] k_i, and the step adds h sum_j b[j] k_j. The step has order p if for
every coloured tree of at most p nodes the elementary weight is 1/gamma(tree). The order of the sub-flows need not be
known, and errors that cancel count as cancelled: Yoshida's triple jump with Heun sub-flows has order 3, not 2.

In a doubled state (a, b) a field that moves one half reads only the other, so the only trees are those whose colours
alternate between the halves; a leaf of its parent's own colour stands for the derivative with respect to time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import groupby, product
from math import prod

from .scheme import Scheme, Substep

TOLERANCE = 1e-9
HIGHEST = 5

Tree = tuple[str, tuple["Tree", ...]]


def additive_method(scheme: Scheme) -> tuple[list[dict[int, float]], dict[int, float], list[str]]:
    """Rows A, weights b and colours of every field evaluation of one step (projections left out)."""
    A: list[dict[int, float]] = []
    b: dict[int, float] = {}
    colours: list[str] = []
    for weight, program in scheme.branches:
        added: dict[int, float] = {}  # evaluation -> its coefficient in the present state
        for part in program:
            if not isinstance(part, Substep):
                continue
            h = float(part.fraction)
            stages: list[range] = []
            for row in part.tableau.a:
                state = dict(added)
                for a, stage in zip(row, stages, strict=True):
                    for j in stage:
                        state[j] = state.get(j, 0.0) + float(a) * h
                stages.append(range(len(colours), len(colours) + len(part.fields)))
                colours.extend(part.colours)
                A.extend([state] * len(part.fields))
            for weight_of_stage, stage in zip(part.tableau.b, stages, strict=True):
                for j in stage:
                    added[j] = added.get(j, 0.0) + float(weight_of_stage) * h
        for j, value in added.items():
            b[j] = b.get(j, 0.0) + float(weight) * value
    return A, b, colours


def partitions(n: int, largest: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
    for k in range(min(n, largest), 0, -1):
        for rest in partitions(n - k, k):
            yield (k, *rest)


def connects(parent: str, child: Tree) -> bool:
    """Whether the derivative of `parent` in the direction of `child` can be other than zero."""
    half = parent[1:]
    return not half or child[0][1:] != half or child == (parent, ())


@lru_cache
def trees(n: int, colours: tuple[str, ...]) -> tuple[Tree, ...]:
    """All rooted trees of n nodes, each node of one colour."""
    found = {
        (colour, tuple(sorted(children)))
        for sizes in partitions(n - 1, n - 1)
        for children in product(*(trees(k, colours) for k in sizes))
        for colour in colours
        if all(connects(colour, child) for child in children)
    }
    return tuple(sorted(found))


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree[1]))


def gamma(tree: Tree) -> int:
    return size(tree) * prod(map(gamma, tree[1]))


def order_of_step(scheme: Scheme, highest: int = HIGHEST) -> int:
    A, b, colours = additive_method(scheme)

    @cache
    def weight(tree: Tree) -> tuple[float, ...]:
        """Elementary weight of the tree with its root at each evaluation; 0 where the colour differs."""
        w = [float(colour == tree[0]) for colour in colours]
        for child in tree[1]:
            u = weight(child)
            w = [w[j] and w[j] * sum(a * u[i] for i, a in A[j].items()) for j in range(len(colours))]
        return tuple(w)

    for p in range(1, highest + 1):
        for tree in trees(p, tuple(sorted(set(colours)))):
            w = weight(tree)
            if abs(sum(value * w[j] for j, value in b.items()) - 1 / gamma(tree)) > TOLERANCE:
                return p - 1
    return highest


Word = tuple[str, ...]
Series = dict[Word, float]


def _exp(colours: Iterable[str], scale: float, n: int) -> Series:
    """exp(scale * (sum of the colours)) up to words of length n."""
    colours = tuple(colours)
    out: Series = {(): 1.0}
    term = out
    for k in range(1, n + 1):
        term = {(*word, s): c * scale / k for word, c in term.items() for s in colours}
        out = out | term
    return out


def _product(left: Series, right: Series, n: int) -> Series:
    out: Series = {}
    for (u, a), (v, b) in product(left.items(), right.items()):
        if len(u) + len(v) <= n:
            out[u + v] = out.get(u + v, 0.0) + a * b
    return out


def _commuted(series: Series) -> Series:
    """Words up to what commutes: two fields that move the same half read the other, so their order is immaterial."""
    out: Series = {}
    for word, c in series.items():
        runs = (sorted(run) if half else run for half, run in groupby(word, lambda colour: colour[1:]))
        key = tuple(colour for run in runs for colour in run)
        out[key] = out.get(key, 0.0) + c
    return out


def order_of_splitting(scheme: Scheme, highest: int = HIGHEST) -> int:
    """Order with exact sub-flows, by matching exponential series in non-commuting letters."""
    total: Series = {}
    for weight, program in scheme.branches:
        flow: Series = {(): 1.0}
        for part in program:
            if isinstance(part, Substep):
                flow = _product(flow, _exp(part.colours, float(part.fraction), highest), highest)
        for word, c in flow.items():
            total[word] = total.get(word, 0.0) + float(weight) * c
    colours = sorted({colour for _, s in scheme.substeps for colour in s.colours})
    total, exact = _commuted(total), _commuted(_exp(colours, 1.0, highest))
    wrong = [len(word) for word in {*total, *exact} if abs(total.get(word, 0.0) - exact.get(word, 0.0)) > TOLERANCE]
    return min(wrong, default=highest + 1) - 1

"""Sums of ridge functions: c + l . x + sum of a relu(k . x - t) with integer directions k, fitted by least squares.

Outputs of a target that are equal up to a symmetry are fitted once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, permutations, product
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from .targets import Array, Target, samples

Direction = tuple[int, ...]
Order = tuple[int, ...]  # of the variables
Function = Callable[[Array], Array]  # [N, m] -> [N]
EXACT = 1e-11  # a residual that is rounding
ROUNDS = 20  # of reweighting
MOST_UNKNOWNS = 4500  # of one least-squares problem: its matrix has 160 MB
LEVELS: dict[int, list[tuple[int, int]]] = {  # by variables: the largest entry of a direction, and pieces of a profile
    1: [(1, 4), (1, 8), (1, 16), (1, 32), (1, 64), (1, 128), (1, 256), (1, 512)],
    2: [(1, 8), (1, 16), (2, 12), (2, 24), (3, 24), (4, 32), (5, 48), (6, 64)],
    3: [(1, 6), (1, 12), (2, 8), (2, 16), (3, 16), (3, 24), (4, 24), (5, 24)],
    4: [(1, 6), (1, 12), (2, 8), (2, 16)],
}
TRANSLATED = [
    (1, 4), (1, 8), (2, 8), (1, 16), (2, 16), (2, 32), (3, 32), (4, 32), (5, 40), (6, 48),
]  # fmt: skip
"""The same for functions of differences."""
POINTS = {1: 4000, 2: 16000, 3: 20000, 4: 30000}
HOPELESS = 3.0  # a fit this many times too bad after a few rounds is given up
SHARE = {1: 0.5, 2: 0.45, 4: 0.2}  # of eps that the fit may use, by variables; the proof's cells need the rest
SHARE_OF_MANY = 0.6
SYMMETRY_SAMPLES = 512
SAME = 1e-12
MOST_PERMUTED = 5  # variables of which all permutations are tried
SHARPNESSES = (0.0, 12.0, -12.0)  # of exponential means: the mean, a soft maximum and a soft minimum
MOST_LEVELS = 2  # of fits to means: the third takes a minute and has some thousand units
Level = tuple[list[list[Direction]], int, int]


class RidgeSum(NamedTuple):
    """The function c + l . x + sum_u a_u relu(k_u . x - t_u) of m variables."""

    constant: float
    linear: Array  # [m]
    directions: Array  # [U, m]
    knots: Array  # [U]
    weights: Array  # [U]

    def __call__(self, x: Array) -> Array:
        active = np.maximum(x @ self.directions.T - self.knots, 0)
        return self.constant + x @ self.linear + active @ self.weights

    def among(self, active: Sequence[int], variables: int) -> "RidgeSum":
        """The function of more variables that depends on these."""
        linear, directions = np.zeros(variables), np.zeros((len(self.knots), variables))
        linear[list(active)], directions[:, list(active)] = self.linear, self.directions
        return self._replace(linear=linear, directions=directions)


class Fit(NamedTuple):
    """A fitted function, its largest error on the points of the fit, and how it was found."""

    function: RidgeSum
    error: float
    how: str


def primitive(variables: int, largest: int) -> list[Direction]:
    """Integer directions up to sign and multiples, the short ones first."""
    found = [k for k in product(range(-largest, largest + 1), repeat=variables) if any(k) and gcd(*k) == 1]
    return sorted((k for k in found if next(c for c in k if c) > 0), key=lambda k: (sum(map(abs, k)), k))


def orbits(variables: int, largest: int, symmetries: Sequence[Sequence[int]]) -> list[list[Direction]]:
    """Directions whose profiles are the same because the target is invariant under these permutations."""
    seen, found = set[Direction](), list[list[Direction]]()
    for k in primitive(variables, largest):
        orbit = sorted({tuple(k[i] for i in order) for order in symmetries})
        if k not in seen:
            found.append(orbit)
        seen |= set(orbit) | {tuple(-c for c in v) for v in orbit}
    return found


def ends(k: Direction) -> tuple[float, float]:
    """The range of k . x on the cube."""
    return float(sum(c for c in k if c < 0)), float(sum(c for c in k if c > 0))


def hats(x: Array, found: list[list[Direction]], pieces: int) -> scipy.sparse.csr_matrix:
    """The matrix of a sum of profiles at points x: each direction interpolates between two of its orbit's values."""
    rows, columns, entries = [], [], []
    for number, orbit in enumerate(found):
        for k in orbit:
            low, high = ends(k)
            at = (x @ np.array(k, float) - low) * (pieces / (high - low))
            left = np.clip(np.floor(at), 0, pieces - 1).astype(np.int64)
            for side, weight in ((0, 1 - (at - left)), (1, at - left)):
                rows.append(np.arange(len(x)))
                columns.append(number * (pieces + 1) + left + side)
                entries.append(weight)
    shape = (len(x), len(found) * (pieces + 1))
    where = (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csr_matrix((np.concatenate(entries), where), shape=shape)


def minimax(a: Any, y: Array, enough: float) -> tuple[Array, float]:
    """Coefficients of a small largest error: least squares, with more weight where the error is large (Lawson)."""
    weight, best, least = np.full(len(y), 1 / len(y)), np.zeros(a.shape[1]), np.inf
    for turn in range(ROUNDS):
        weighted = a.multiply(weight[:, None]).tocsr()
        gram = (a.T @ weighted).toarray()
        gram[np.diag_indices_from(gram)] += 1e-9 * gram.diagonal().mean() + 1e-300
        found = scipy.linalg.solve(gram, weighted.T @ y, assume_a="pos", check_finite=False, overwrite_a=True)
        error = np.abs(a @ found - y)
        if error.max() < least:
            best, least = found, float(error.max())
        if least <= enough or (turn >= 3 and least > HOPELESS * enough):
            break
        weight = weight * (error / error.max() + 0.02)
        weight /= weight.sum()
    return best, least


def as_units(values: Array, found: list[list[Direction]], pieces: int) -> RidgeSum:
    """Values at knots as ReLU units: a profile's slope changes at each knot by a unit's weight."""
    variables = len(found[0][0])
    constant, linear = 0.0, np.zeros(variables)
    units: defaultdict[tuple[Direction, float], float] = defaultdict(float)
    for profile, orbit in zip(values.reshape(len(found), -1), found, strict=True):
        for k in orbit:
            low, high = ends(k)
            step = (high - low) / pieces
            slopes = np.diff(profile) / step
            constant += profile[0] - slopes[0] * low
            linear += slopes[0] * np.array(k, float)
            flip = next(c for c in k if c) < 0  # relu(-t) = relu(t) - t: one unit for both signs of a direction
            for i, change in enumerate(np.diff(slopes), 1):
                knot = low + i * step
                if flip:
                    constant, linear = constant + change * -knot, linear + change * np.array(k, float)
                    units[tuple(-c for c in k), round(-knot, 12)] += change
                else:
                    units[k, round(knot, 12)] += change
    kept = [(k, t, a) for (k, t), a in units.items() if abs(a) > EXACT]
    return RidgeSum(
        constant, linear, np.array([k for k, _, _ in kept], float).reshape(-1, variables),
        np.array([t for _, t, _ in kept]), np.array([a for _, _, a in kept]),
    )  # fmt: skip


def exact(x: Array, y: Array) -> Fit | None:
    """The function if it is linear, or linear but for maxima of pairs of variables."""
    variables = x.shape[1]
    unit = np.eye(variables)
    directions = np.array([unit[i] - unit[j] for i in range(variables) for j in range(i)]).reshape(-1, variables)
    for many in (0, len(directions)):
        kinks = np.maximum(x @ directions[:many].T, 0)
        matrix = np.hstack([np.ones((len(x), 1)), x, kinks])
        found = np.linalg.lstsq(matrix, y, rcond=None)[0]
        found = np.where(np.abs(found - np.round(found, 6)) < 1e-9, np.round(found, 6), found)
        if (error := float(np.abs(matrix @ found - y).max())) < EXACT:
            used = np.abs(found[1 + variables :]) > EXACT
            kept = directions[:many][used]
            sums = RidgeSum(found[0], found[1 : 1 + variables], kept, np.zeros(len(kept)), found[1 + variables :][used])
            return Fit(sums, error, "exact")
    return None


def single(f: Function, x: Array, y: Array, enough: float) -> Fit | None:
    """The function if it is one ridge function of a short direction."""
    variables, some = x.shape[1], slice(0, 1500)
    if variables == 1 or variables > 4:
        return None
    for k in primitive(variables, 3 if variables < 4 else 2):
        start = hats(x[some], [[k]], 48)
        dense = start.toarray()
        if np.abs(dense @ np.linalg.lstsq(dense, y[some], rcond=None)[0] - y[some]).max() > max(enough, 1e-4):
            continue
        for _, pieces in LEVELS[1]:
            values, error = minimax(hats(x, [[k]], pieces), y, enough)
            if error <= enough:
                return Fit(as_units(values, [[k]], pieces), error, f"one direction, {pieces} pieces")
    return None


def levels(variables: int, symmetries: Sequence[Sequence[int]], flat: bool) -> Iterator[Level]:
    """Orbits of directions and pieces, from few to many; `flat`: only directions whose entries sum to 0."""
    for largest, pieces in TRANSLATED if flat else LEVELS.get(variables, [(1, 4), (1, 8)]):
        found = [orbit for orbit in orbits(variables, largest, symmetries) if not (flat and sum(orbit[0]))]
        if len(found) * (pieces + 1) <= MOST_UNKNOWNS:
            yield found, pieces, largest


def grid_and_random(variables: int) -> Array:
    """Points of the fit: a grid with its faces and corners, and random ones."""
    many = POINTS.get(variables, 40000)
    side = np.linspace(0, 1, max(3, int((many / 2) ** (1 / variables))))
    grid = np.stack(np.meshgrid(*[side] * variables, indexing="ij"), -1).reshape(-1, variables)
    return np.concatenate([np.random.default_rng(2).random((many // 2, variables)), grid])


def points_beside(variables: int) -> Array:
    """Other points, inside and on the faces, that show whether a fit holds between its own."""
    rng = np.random.default_rng(5)
    x = rng.random((20000, variables))
    return np.where(rng.random(x.shape) < 0.3 * (np.arange(len(x)) % 2)[:, None], np.round(x), x)


def translation(f: Function, x: Array, y: Array) -> float | None:
    """The number g with f(x + c) = f(x) + g c for every c, if samples know one: then only differences matter."""
    c = np.random.default_rng(6).random(len(x)) * (1 - x.max(1))
    moved, far = f(x + c[:, None]) - y, c > 0.01
    if x.shape[1] < 3 or not far.any():
        return None
    g = float(np.median(moved[far] / c[far]))
    return g if np.abs(moved - g * c).max() < EXACT else None


def fit(f: Function, variables: int, symmetries: Sequence[Sequence[int]], enough: float) -> Fit:
    """A sum of ridge functions whose error on the points is at most `enough`, or the best that was found."""
    x = grid_and_random(variables)
    y = f(x)
    found = exact(x, y) or single(f, x, y, enough)
    if found is not None:
        return found
    slope, beside = translation(f, x, y), points_beside(variables)
    some = levels(variables, symmetries, slope is not None)
    return best_fit(some, (x, y), (beside, f(beside)), enough, 1.1 * enough, slope=slope or 0.0)


def best_fit(
    candidates: Iterable[Level],
    points: tuple[Array, Array],
    others: tuple[Array, Array],
    enough: float,
    allowed: float,
    how: str = "",
    slope: float = 0.0,
) -> Fit:
    """The first sum of profiles whose error is at most `allowed`, else the best: fitted to `points`, and to
    `enough` there, and judged on `others`, too. `slope` is that of a multiple of the mean, which is not fitted."""
    (x, y), (beside, there), found = points, others, list[Fit]()
    for orbits, pieces, largest in candidates:
        values, error = minimax(hats(x, orbits, pieces), y - slope * x.mean(1), enough)
        sums = as_units(values, orbits, pieces)
        sums = sums._replace(linear=sums.linear + slope / x.shape[1])
        error = max(error, float(np.abs(sums(beside) - there).max()))
        found.append(Fit(sums, error, f"{how}directions up to {largest}, {pieces} pieces"))
        if error <= allowed:
            break
    return min(found, key=lambda one: one.error)


def symmetries_of(target: Target, x: Array, y: Array) -> tuple[list[tuple[int, Order]], list[list[Order]]]:
    """For each output another one with an order of the variables, such that output(x) = other(x[order]), itself if it
    is like no earlier one; and the orders that leave it as it is. Found on samples: they only save work, for the
    certificate looks at every output by itself."""
    m, itself = target.variables, tuple(range(target.variables))
    moved = {order: target(x[:, order]) for order in (permutations(itself) if m <= MOST_PERMUTED else [itself])}
    like, own = [], []
    for output in range(m):
        same = [
            (o, order)
            for o in range(output + 1)
            for order, z in moved.items()
            if np.abs(y[:, output] - z[:, o]).max() < SAME
        ]
        same.sort(key=lambda pair: pair[1] != itself)  # an output that is simply equal shares its units
        like.append(same[0])
        own.append([order for o, order in same if o == output])
    return like, own


def active_of(target: Target, x: Array, y: Array) -> list[list[int]]:
    """The variables that each output depends on."""
    other, variables = np.random.default_rng(3).random(x.shape), range(target.variables)
    changed = (np.where(np.arange(target.variables) == j, other, x) for j in variables)
    moves = [np.abs(target(one) - y).max(0) > SAME for one in changed]
    return [[j for j in variables if moves[j][output]] for output in variables]


def within(active: Sequence[int], found: Sequence[Order]) -> list[Order]:
    """Orders of all variables as orders of the active ones, if they move no others."""
    at = {variable: k for k, variable in enumerate(active)}
    inside = {tuple(at[order[j]] for j in active) for order in found if all(order[j] in at for j in active)}
    return sorted(inside | {tuple(range(len(active)))})


def fit_outputs(target: Target, eps: float) -> tuple[list[RidgeSum], list[Fit]]:
    """A sum of ridge functions for each output, and the fits that they come from."""
    x = samples(target, SYMMETRY_SAMPLES)
    like, own = symmetries_of(target, x, y := target(x))
    active, fits, functions = active_of(target, x, y), dict[int, Fit](), list[RidgeSum]()
    for output, (other, order) in enumerate(like):
        if other == output:
            fits[output] = fit_one(target, output, active[output], own[output], eps)
            functions.append(fits[output].function)
        elif list(order) == sorted(order):
            functions.append(functions[other])  # the same object: its units are shared
        else:
            back, one = np.argsort(order), functions[other]  # x -> one(x[order])
            functions.append(one._replace(linear=one.linear[back], directions=one.directions[:, back]))
    return functions, list(fits.values())


def fit_one(target: Target, output: int, active: Sequence[int], own: Sequence[Order], eps: float) -> Fit:
    """The fit of one output in the variables that it depends on."""
    m = target.variables

    def f(x: Array) -> Array:
        whole = np.full((len(x), m), 0.5)
        whole[:, active] = x
        return target(whole)[:, output]

    if not active:
        constant = float(f(np.zeros((1, 0)))[0])
        return Fit(RidgeSum(constant, np.zeros(m), np.zeros((0, m)), np.zeros(0), np.zeros(0)), 0.0, "exact")
    share = SHARE.get(m, SHARE_OF_MANY)
    one = fit(f, len(active), within(active, own), share * eps)
    return one._replace(function=one.function.among(active, m))


def features(x: Array) -> Array:
    """The first token's own number and the exponential means of all: [N, n] -> [N, 1 + means].

    A head with the query s and the key x_j gives token j the weight exp(s x_j) / sum_k exp(s x_k). So its mean does not
    depend on the order of the tokens, and means with several s say more about the numbers than one.
    """
    weights = np.exp(np.multiply.outer(SHARPNESSES, x))
    return np.column_stack([x[:, 0], *((weights * x).sum(-1) / weights.sum(-1))])


def fit_means(target: Target, enough: float) -> Fit:
    """A sum of ridge functions of the features: the error on points is at most `enough`, or the least found."""
    points = grid_and_random(target.variables), points_beside(target.variables)
    here, beside = ((features(x), target(x)[:, 0]) for x in points)
    variables = here[0].shape[1]
    some = islice(levels(variables, [range(variables)], flat=False), MOST_LEVELS)
    return best_fit(some, here, beside, enough, enough, "exponential means, ")

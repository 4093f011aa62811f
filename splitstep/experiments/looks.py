"""Looking at paired differences several times: how large a t statistic must be then, and what each look decides.

The t statistics of the first n seeds have a joint law under the null hypothesis that does not depend on the spread.
With u_n = S_n / sqrt(n Q_n), where S_n is the sum of n differences and Q_n that of their squares,

    t_n = u_n sqrt(n - 1) / sqrt(1 - u_n^2),    u_(n+1) = (sqrt(n) u_n cos(phi) + sin(phi)) / sqrt(n + 1).

The direction of n normal values is uniform and tells nothing of their length, so phi is independent of the past, with
density proportional to cos(phi)^(n-1): u_n is a Markov chain, and one integral a seed gives the probability that no
look goes beyond its bound. With a true mean it is weighted by the likelihood ratio of the last u_n.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from .statistics import FEWEST, LEVEL, UNBOUNDED, Bounds, Estimate, estimate, student_t

Word = Literal["ahead", "behind", "inside", "open"]
NODES, POINTS = 300, 48  # of the chain's values in the angle of u_n, and of one Gauss-Legendre rule


@dataclass(frozen=True)
class Looks:
    """At how many seeds the differences of `many` arms to the first are looked at.

    Each look has Student's interval of the same level, Pocock's, so that all looks at all arms hold at once in 95% of
    the cases. One look is the usual interval with Bonferroni's correction.
    """

    at: tuple[int, ...] = (4, 6, 8, 10, 12)
    many: int = 1

    def __post_init__(self) -> None:
        if not self.at or self.at[0] < FEWEST or list(self.at) != sorted(set(self.at)):
            raise ValueError(f"looks need increasing numbers of seeds from {FEWEST} on, such as 4,6,8; got {self.at}")

    @cached_property
    def level(self) -> float:
        """The probability with which one look at one arm goes beyond its bound if there is no difference."""
        return pocock(self.at, (1 - LEVEL) / self.many)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The least |t| that decides, at each look."""
        return tuple(student_t(n, 1 - self.level) for n in self.at)

    def power(self, size: float) -> float:
        """The probability that some look shows a true mean of so many standard deviations."""
        return 1 - survival(self.at, self.bounds, size)


@lru_cache
def pocock(at: tuple[int, ...], error: float) -> float:
    """The level of each look with which the looks together are beyond their bounds with this probability."""
    from scipy.optimize import brentq

    def excess(log_level: float) -> float:
        level = math.exp(log_level)
        return 1 - survival(at, [student_t(n, 1 - level) for n in at]) - error

    if len(at) == 1:
        return error
    fewest, most = math.log(error / len(at)) - 0.1, math.log(error) + 0.1  # with room for rounding
    return math.exp(brentq(excess, fewest, most, xtol=1e-4))  # pyright: ignore[reportArgumentType]


def survival(at: Sequence[int], bounds: Sequence[float], size: float = 0.0) -> float:
    """The probability that no |t| is beyond its bound, if the differences have a mean of `size` standard deviations."""
    ends = {n: math.asin(t / math.sqrt(n - 1 + t * t)) for n, t in zip(at, bounds, strict=True)}  # angles of u_n
    angles = np.linspace(0, math.pi / 2, NODES)
    values = likelihood_ratio(np.sin(angles), at[-1], size)
    for n in range(at[-1] - 1, at[0] - 1, -1):
        values = one_seed_back(angles, values, n, ends.get(n + 1))
    theta, weights = gauss_legendre(0.0, ends[at[0]])
    return float(2 * weights @ (np.cos(theta) ** (at[0] - 2) * np.interp(theta, angles, values)) / cosines(at[0] - 2))


def one_seed_back(angles: np.ndarray, values: np.ndarray, n: int, end: float | None) -> np.ndarray:
    """What is expected of the chain at n seeds for each angle of u_n, from its values at n + 1; beyond `end` it is 0.

    u_(n+1) = r sin(phi + psi), so it is within its bound on two intervals of phi, which meet where r is within it.
    """
    u = np.sin(angles)
    psi, r = np.arctan(math.sqrt(n) * u), np.sqrt((n * u * u + 1) / (n + 1))
    reach = np.full_like(u, math.pi / 2) if end is None else np.arcsin(np.minimum(math.sin(end) / r, 1.0))
    right, total = np.full_like(u, math.pi / 2), np.zeros_like(u)
    for low, high in ((-right, reach - psi), (math.pi - reach - psi, right)):
        phi, weights = gauss_legendre(low[:, None], high[:, None])
        after = np.arcsin(np.minimum(np.abs(r[:, None] * np.sin(phi + psi[:, None])), 1.0))
        total += (weights * np.cos(phi) ** (n - 1) * np.interp(after, angles, values)).sum(-1)
    return total / cosines(n - 1)


def likelihood_ratio(u: np.ndarray, n: int, size: float) -> np.ndarray:
    """E cosh(size sqrt(n) u R) exp(-n size^2 / 2) over the length R of n normal values: how much likelier +-u is with a
    mean of `size` standard deviations than without."""
    from scipy.special import gammaln

    length, weights = gauss_legendre(0.0, math.sqrt(n) * (1 + abs(size)) + 9, 200)
    shift = size * math.sqrt(n) * np.outer(u, length)
    log = (n - 1) * np.log(length) - length**2 / 2 - (n / 2 - 1) * math.log(2) - gammaln(n / 2) - n * size**2 / 2
    return 0.5 * (np.exp(log + shift) + np.exp(log - shift)) @ weights


def gauss_legendre(low: np.ndarray | float, high: np.ndarray | float, points: int = POINTS) -> tuple[np.ndarray, ...]:
    """Places and weights of a Gauss-Legendre rule between two ends."""
    x, weights = legendre(points)
    half = (np.asarray(high) - low) / 2
    return low + half * (1 + x), half * weights


@lru_cache
def legendre(points: int) -> tuple[np.ndarray, np.ndarray]:
    """The rule between -1 and 1."""
    return np.polynomial.legendre.leggauss(points)


def cosines(power: int) -> float:
    """The integral of cos(phi)^power between -pi/2 and pi/2."""
    return math.sqrt(math.pi) * math.exp(math.lgamma((power + 1) / 2) - math.lgamma(power / 2 + 1))


class Decision(NamedTuple):
    """What is known of an arm: whether it is ahead of the first or behind it, or whether the difference is inside the
    margin; its lead with the interval of the look, and how many seeds were looked at."""

    word: Word
    lead: Estimate | None
    seeds: int


def follow(
    leads: Mapping[int, float],
    seeds: Sequence[int],
    looks: Looks,
    margin: float | None = None,
    lost: Collection[int] = (),
    first_lost: Collection[int] = (),
    bounds: Bounds = UNBOUNDED,
) -> Decision:
    """The first look that decides, or the last one.

    `leads` are the differences of an arm to the first one by seed, positive where the arm is better, and `seeds` have
    their order. A look takes place when each of its seeds ended. Of an arm that diverged, as `lost` has it, a lead
    shows nothing, nor does one of the first arm over it if that one diverged. `bounds` are those of the metric.
    """
    early = estimate([leads[seed] for seed in seeds if seed in leads])
    found = Decision("open", early and early._replace(low=None, high=None), 0)
    for n in looks.at:
        own = seeds[:n]
        if len(own) < n or not all(seed in leads or seed in lost or seed in first_lost for seed in own):
            break
        lead = estimate([leads[seed] for seed in own if seed in leads], 1 - looks.level, bounds.of_differences)
        fell = bool(set(own) & set(lost)), bool(set(own) & set(first_lost))
        found = Decision(word_of(lead, margin, *fell), lead, n)
        if found.word != "open":
            break
    return found


def within(found: Estimate, margin: float | None) -> bool:
    """Whether the interval is inside the margin."""
    if margin is None or found.low is None or found.high is None:
        return False
    return -margin < found.low and found.high < margin


def word_of(lead: Estimate | None, margin: float | None, lost: bool, first_lost: bool) -> Word:
    """What an interval decides. Inside the margin it is so on whichever side of zero: the margin says what is equal."""
    if lead is None or lead.low is None or lead.high is None:
        return "open"
    if within(lead, margin) and not (lost or first_lost):
        return "inside"
    if lead.low > 0 and not lost:
        return "ahead"
    return "behind" if lead.high < 0 and not first_lost else "open"

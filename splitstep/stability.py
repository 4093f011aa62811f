"""How long an explicit step of diffusion may be: limits from the stability polynomials of tableaux. No torch here.

One explicit step of x' = lambda x multiplies x by R(h lambda), R(z) = 1 + sum_k z^k b A^(k-1) 1. Modes may not grow, so
|R| <= 1 at alpha h times every rate of the stencil. Those of the second difference fill [-4, 0] on one axis and
[-8, 0] on two. The upwind difference is not symmetric; noise travelling along the tokens, e^(i theta j), has
e^(-i theta) - 1, the circle of radius 1 around -1.
"""

from cmath import exp
from functools import lru_cache, reduce
from math import pi

from .letters import Place
from .scheme import Scheme
from .tableau import Tableau

ROUNDING = 1e-9  # |R| may exceed 1 by this
LONGEST = 64.0  # of alpha h that is searched
ANGLES = 180  # on half of the circle


def polynomial(tableau: Tableau) -> tuple[float, ...]:
    """The coefficients of R(z), the constant first."""
    found, power = [1.0], [1.0] * len(tableau.b)
    for _ in tableau.b:
        found.append(float(sum(float(b) * p for b, p in zip(tableau.b, power, strict=True))))
        power = [sum(float(a) * power[i] for i, a in enumerate(row)) for row in tableau.a]
    return tuple(found)


def modes(ends: str, axes: int) -> tuple[complex, ...]:
    """The rates of a stencil with alpha = 1: the fastest ones, or all directions of the circle."""
    if ends == "upwind":
        return tuple(exp(-1j * pi * k / ANGLES) - 1 for k in range(1, ANGLES + 1))
    return (complex(-4.0 * axes),)


@lru_cache
def limit(tableau: Tableau, ends: str = "reflecting", axes: int = 1) -> float:
    """The largest alpha h up to which no step of this tableau makes any mode grow."""
    coefficients, rates = polynomial(tableau), modes(ends, axes)

    def value(z: complex) -> complex:
        return reduce(lambda found, c: found * z + c, reversed(coefficients), 0j)

    def stable(s: float) -> bool:
        return all(abs(value(s * rate)) <= 1 + ROUNDING for rate in rates)

    step = 1.0 / 256
    good = next((k - 1 for k in range(1, int(LONGEST / step)) if not stable(k * step)), int(LONGEST / step)) * step
    bad = good + step
    for _ in range(50):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if stable(middle) else (good, middle)
    return good


def longest_step(scheme: Scheme, ends: str, axes: int = 1) -> tuple[float, str]:
    """The largest alpha h, h a whole step, that every explicit part of D allows, and the tableau that sets it."""
    found = [
        (limit(part.tableau, ends, axes) / (float(part.fraction) * times), part.tableau.name)
        for _, part in scheme.substeps
        if not part.exact and (times := sum(name[0] == "D" for name in part.fields))
    ]
    return min(found, default=(float("inf"), "exact"))


def beyond_limit(scheme: Scheme, alpha: float, h: float, ends: str, axes: int = 1) -> str:
    """Why explicit diffusion of this alpha with steps of h blows up and what to type; "" if it does not."""
    most, tableau = longest_step(scheme, ends, axes)
    if alpha * h <= most:
        return ""
    return (
        f"alpha * h = {alpha:.4g} * {h:.4g} = {alpha * h:.4g} is above {most:.4g}, the limit of explicit diffusion in "
        f"{str(scheme)!r} (@{tableau}), so noise would grow: write D@exact, or use "
        f"{int(alpha * h / most) + 1} times as many model.substeps, or model.letters.D.alpha below {most / h:.4g}"
    )


def check_diffusion(place: Place) -> None:
    """Refuse a boundary in a model without ends that it could mean, and an explicit step beyond the limit."""
    shape, options, name = place.shape, place.options, place.name
    if options.boundary != "reflecting" and all(shape.causal_stacks()):
        raise ValueError(
            f"letters.{name}.boundary={options.boundary!r} is for diffusion that looks both ways, and a causal model "
            f"may not look at later tokens: leave it out, and {name} is the upwind relaxation of a token towards the "
            "one before it."
        )
    ends, axes = "upwind" if place.causal else options.boundary, 1 if shape.grid is None else 2
    if wrong := beyond_limit(place.scheme, options.alpha, shape.step / shape.substeps, ends, axes):
        raise ValueError(f"letters.{name}.alpha={options.alpha}: {wrong}.")

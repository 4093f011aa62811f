"""A scheme and a tableau."""

from fractions import Fraction

from splitstep import Tableau

RALSTON = Tableau("ralston", ((), (Fraction(2, 3),)), (Fraction(1, 4), Fraction(3, 4)))
DAMPED = "A F G"

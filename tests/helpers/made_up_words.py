"""Words that nobody uses, for tests of text."""

import random

SYLLABLES = [a + b for a in "bdfghklmnprstvz" for b in "aeiou"]
WORDS = ["".join(random.Random(n).choices(SYLLABLES, k=2 + n % 3)) for n in range(1200)]

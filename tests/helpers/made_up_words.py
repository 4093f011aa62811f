"""Words that nobody uses, and sentences of them, for tests of text."""

import random

SYLLABLES = [a + b for a in "bdfghklmnprstvz" for b in "aeiou"]
WORDS = ["".join(random.Random(n).choices(SYLLABLES, k=2 + n % 3)) for n in range(1200)]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Made-up sentences of 3 to 40 words, no two alike."""
    chosen = random.Random(seed)
    return [f"{n} {' '.join(chosen.choices(WORDS, k=chosen.randint(3, 40)))}." for n in range(count)]

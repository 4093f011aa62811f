"""Generated verdicts on films: short sentences in which "not" turns good into bad. No data needed, none real."""

from itertools import product

FILMS = ("film", "plot", "music", "cast", "ending", "dialogue", "camera", "story", "acting", "pace")
VERBS = ("is", "was", "seems", "feels")
DEGREES = ("", "really", "quite", "hardly", "never", "not", "not at all", "rather")
GOOD = ("good", "moving", "clever", "funny", "fresh", "lovely")
BAD = ("bad", "dull", "clumsy", "tedious", "stale", "awful")
WORDS = (*GOOD, *BAD)
TURNING = frozenset({"hardly", "never", "not", "not at all"})


def verdicts() -> list[tuple[str, str]]:
    """1,920 sentences, each with "positive" or "negative": half of the possible ones, like the squares of one colour on
    a chess board, so every word is among them."""
    found = []
    for places in product(*(range(len(words)) for words in (FILMS, VERBS, DEGREES, WORDS))):
        film, verb, degree, word = (words[i] for words, i in zip((FILMS, VERBS, DEGREES, WORDS), places, strict=True))
        praise = (word in GOOD) != (degree in TURNING)
        sentence = " ".join(filter(None, ("the", film, verb, degree, word)))
        if sum(places) % 2 == 0:
            found.append((sentence, "positive" if praise else "negative"))
    return found

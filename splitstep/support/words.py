"""Numbers with their nouns, and suggestions for misspelt names."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(n: int, noun: str) -> str:
    """The number and the noun as people write them: 1 layer, 2 layers, 1,000 layers."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time for people: about 45 seconds, about 3 minutes, about 1.5 hours."""
    if seconds < 90:
        return f"about {counted(max(1, round(seconds)), 'second')}"
    return f"about {seconds / 60:,.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:,.1f} hours"


def listed(names: Sequence[str]) -> str:
    """The names as people list them: one; one and two; one, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


NEAR = 0.66  # how alike words must be, from 0 to 1, for one to be a misspelling of the other


def nearest(word: str, known: Iterable[str], cutoff: float = NEAR) -> str | None:
    """The known word that is nearest to a wrong one; None if none is near."""
    return next(iter(get_close_matches(word, list(known), 1, cutoff)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about a wrong word: the word it may have meant, or all known words."""
    names = list(known)
    near = nearest(word, names)
    return f"Did you mean {near}?" if near else f"Known: {', '.join(names)}."


def first_line(error: BaseException) -> str:
    """What an error says in its first line, and in the second if that only announces it; its name, if it says
    nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])


def one_line(text: str, most: int = 500) -> str:
    """The text in one line; of a long one the beginning, and the end, which says what to do."""
    line = " ".join(text.splitlines())
    return line if len(line) <= most else f"{line[: most - most // 3]} ... {line[-most // 3 :]}"


def split_list(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]

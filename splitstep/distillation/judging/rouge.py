"""ROUGE-L of answers: the longest common subsequence of words, as an F-measure. It equals that of `rouge-score`.

The words and the F-measure are the package's own. Its table for the subsequence is slow for the thousands of answers of
one model, so the length is found here, a row of the table at a time.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import fmean
from typing import Any

POINTS = 100.0
WORDS = 2**17  # whose stems are remembered


@cache
def package() -> tuple[Any, Any]:
    """The tokenizer of the papers, words of Latin letters and digits in lower case, stemmed by Porter's rules; and the
    F-measure."""
    try:
        from rouge_score.scoring import fmeasure  # pyright: ignore[reportMissingTypeStubs]
        from rouge_score.tokenizers import DefaultTokenizer  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise ValueError("ROUGE-L needs the package rouge-score: pip install 'splitstep[distil]'") from None
    return DefaultTokenizer(use_stemmer=True), fmeasure


@lru_cache(WORDS)
def words_of_piece(piece: str) -> tuple[str, ...]:
    return tuple(package()[0].tokenize(piece))


def words(text: str) -> list[str]:
    """The words of a text; blanks divide words, so each piece between them is read by itself."""
    return [word for piece in text.split() for word in words_of_piece(piece)]


def common_length(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    The table of lengths of all beginnings grows by at most 1 from column to column. `row` has a bit for each column, 0
    where it grows, and the whole row follows from the one before it by an addition (Hyyrö 2004).
    """
    columns: dict[str, int] = {}
    for number, word in enumerate(a):
        columns[word] = columns.get(word, 0) | 1 << number
    whole = row = (1 << len(a)) - 1
    for word in b:
        found = row & columns.get(word, 0)
        row = (row + found | row - found) & whole
    return len(a) - row.bit_count()


def rouge_l(answer: str, reference: str) -> float:
    """2 P R / (P + R) in points, where P and R are the length of the longest common subsequence over the number of
    words of the answer and of the reference; 0 if they have no word in common."""
    ours, theirs = words(answer), words(reference)
    if not ours or not theirs:
        return 0.0
    length = common_length(theirs, ours)
    return POINTS * package()[1](length / len(ours), length / len(theirs))


def mean_rouge(answers: Sequence[str], references: Sequence[str]) -> float:
    """The mean over rows."""
    return fmean(rouge_l(answer, reference) for answer, reference in zip(answers, references, strict=True))

"""ROUGE-L of answers, by the package `rouge-score`: the longest common subsequence of words, as an F-measure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

POINTS = 100.0


@cache
def scorer() -> Any:
    """The scorer of the papers: words of Latin letters and digits in lower case, stemmed by Porter's rules."""
    try:
        from rouge_score.rouge_scorer import RougeScorer  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise ValueError("ROUGE-L needs the package rouge-score: pip install 'splitstep[distil]'") from None
    return RougeScorer(["rougeL"], use_stemmer=True)


def rouge_l(answer: str, reference: str) -> float:
    """2 P R / (P + R) in points, where P and R are the length of the longest common subsequence over the number of
    words of the answer and of the reference; 0 if they have no word in common."""
    return POINTS * scorer().score(reference, answer)["rougeL"].fmeasure


def mean_rouge(answers: Sequence[str], references: Sequence[str]) -> float:
    """The mean over rows."""
    return fmean(rouge_l(answer, reference) for answer, reference in zip(answers, references, strict=True))

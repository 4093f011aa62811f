"""BLEU from counts summed over sentences: a bootstrap needs it thousands of times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tasks.pairs.scores import multi_bleu_metric


def sentence_counts(lines: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """The counts that BLEU sums over sentences [N, 10]: matches and n-grams for n = 1 to 4, both lengths in words."""
    metric = multi_bleu_metric(effective_order=True)
    found = (metric.sentence_score(line, [reference]) for line, reference in zip(lines, references, strict=True))
    return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found], dtype=np.float64)


def bleu_of(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU of summed counts [..., 10], as by multi-bleu.perl: 100 b (p1 p2 p3 p4)^(1/4), without smoothing."""
    return _bleu(sums, sums[..., :4])


def sacrebleu_of(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU as by sacreBLEU: lengths of which no n-gram matches count half a match, then a quarter, and so on."""
    right = sums[..., :4]
    some = right.any(-1, keepdims=True)
    return _bleu(sums, np.where((right == 0) & some, 0.5 ** np.cumsum(right == 0, -1), right))


def _bleu(sums: np.ndarray, right: np.ndarray) -> np.ndarray:
    total, ours, theirs = sums[..., 4:8], sums[..., 8], sums[..., 9]
    some = (right.min(-1) > 0) & (total.min(-1) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):  # if nothing matches
        found = 100 * np.exp(np.minimum(0.0, 1 - theirs / ours) + np.log(right / total).mean(-1))
    return np.where(some, found, 0.0)


def match_of(sums: np.ndarray) -> np.ndarray:
    """Percent of lines that match, from summed counts [..., 2] of matches and of lines."""
    return 100 * sums[..., 0] / sums[..., 1]

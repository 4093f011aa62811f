"""Translators on each test split: scores over seeds, and differences over sentences and seeds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...experiments import statistics
from ...experiments.trials import RunRecord
from ...tasks.pairs import scores
from ...tasks.pairs.translation import EXACT_MATCH, Translation
from .result import OnTestSet, Pair, ScoreEstimate

PERCENT = statistics.Bounds(0.0, 100.0)  # of all scores of text


class System(NamedTuple):
    """One scheme: the task that it was trained on, and its finished runs by seed."""

    scheme: str
    task: Translation
    runs: Mapping[int, RunRecord]
    arm: str = ""
    alone: bool = False

    def counts(self, split: str) -> "Counts":
        """What the metric counts in each run's lines."""
        return {seed: count(self.task, split, run.written[split]) for seed, run in self.runs.items()}


class SentenceCounts(NamedTuple):
    """A run on a split: its lines as the metric sees them, and what the metric adds up over them [N, K]."""

    texts: scores.Texts
    counts: np.ndarray


Counts = Mapping[int, SentenceCounts]  # by seed


def on_test_sets(systems: Sequence[System]) -> tuple[OnTestSet, ...]:
    """Every scheme on every test split; the others are compared with the first."""
    found, (first, *others) = list[OnTestSet](), systems
    for split in first.task.tests:
        base = first.counts(split)
        found += [tested(first, base, {}, split), *(tested(one, one.counts(split), base, split) for one in others)]
    return tuple(found)


def tested(system: System, own: Counts, first: Counts, split: str) -> OnTestSet:
    """One scheme on one split, paired seed by seed with the first scheme if both have the same references."""
    pairs = {
        seed: (one, first[seed])
        for seed, one in sorted(own.items())
        if seed in first and list(one.texts.theirs) == list(first[seed].texts.theirs)
    }
    difference, apart = paired_scores(pairs, FIGURES[system.task.metric.name])
    return OnTestSet(
        split,
        system.scheme,
        lines=max((len(one.counts) for one in own.values()), default=0),
        scores=over_seeds([(run.trial.splits or {})[split].scores for run in system.runs.values()]),
        difference=difference,
        pairs=apart,
        arm=system.arm,
        alone=system.alone,
    )


def over_seeds(runs: Sequence[Sequence[scores.Score]]) -> tuple[ScoreEstimate, ...]:
    """Each score's mean over the runs."""
    means = [
        (own[0], statistics.estimate([one.value for one in own], bounds=PERCENT)) for own in zip(*runs, strict=True)
    ]
    return tuple(ScoreEstimate(one.key, one.name, one.signature, one.comparable, mean) for one, mean in means if mean)


def paired_scores(
    pairs: Mapping[int, tuple[SentenceCounts, SentenceCounts]], figure: statistics.Figure
) -> tuple[statistics.Estimate | None, tuple[Pair, ...]]:
    """The mean difference with its interval, and each seed's by itself."""
    if not pairs:
        return None, ()
    ours, theirs = (np.stack([pair[side].counts for pair in pairs.values()]) for side in (0, 1))
    found = figure(ours.sum(1)) - figure(theirs.sum(1))
    resampled = statistics.resampled_differences(ours, theirs, figure, statistics.draw_sentences(ours.shape[1]))
    each = zip(pairs, found.tolist(), resampled.T, strict=True)
    apart = tuple(Pair(seed, gap, statistics.two_sided_p(gap, drawn)) for seed, gap, drawn in each)
    return statistics.mean_difference(found, resampled), apart


def count(task: Translation, split: str, lines: Sequence[str]) -> SentenceCounts:
    """The lines as the task's metric counts them."""
    references, form = task.text(split), task.codec.form
    if task.metric == EXACT_MATCH:
        texts = scores.as_people_write(lines, references, form)
        right = np.array(scores.matches(texts, form), dtype=np.float64)
        return SentenceCounts(texts, np.stack([right, np.ones_like(right)], -1))
    if task.papers is None:
        texts = scores.as_sacrebleu_counts(lines, references, form)
    else:
        texts = scores.as_papers_count(lines, references, form, task.papers)
    return SentenceCounts(texts, sentence_counts(*texts))


def sentence_counts(lines: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """The counts that BLEU sums over sentences [N, 10]: matches and n-grams for n = 1 to 4, both lengths in words."""
    metric = scores.multi_bleu_metric(effective_order=True)
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


FIGURES: dict[str, statistics.Figure] = {"bleu": bleu_of, "sacrebleu": sacrebleu_of, "exact_match": match_of}

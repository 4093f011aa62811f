"""Scoring translations: each BLEU under its own name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from . import moses
from .codec import Form
from .lines import Lines

PapersBleu = Literal["lower-cased", "compounds"]
"""The BLEU that papers print: on Moses tokens in small letters, or cased with compounds split."""


class Score(NamedTuple):
    """A figure with its signature; it is not `comparable` where the references are no published text."""

    name: str
    value: float
    signature: str
    comparable: bool = True


def score(hypotheses: Sequence[str], references: Lines, form: Form, papers: PapersBleu = "lower-cased") -> list[Score]:
    """All figures of prepared hypotheses: sacreBLEU, chrF, and the BLEU that papers print on such data.

    Where only Moses tokens of the references are published, sacreBLEU and chrF are on their detokenised form and not
    comparable with anybody's.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references.target) or not hypotheses:
        raise ValueError(
            f"{len(hypotheses):,} translations cannot be scored against {len(references.target):,} references"
        )
    ours = form.plain(hypotheses, form.target)
    published = references.plain if form.tokens == "given" else references.target
    theirs = form.plain(references.target, form.target) if published is None else published
    bleu, chrf = BLEU(lowercase=form.lower), CHRF(lowercase=form.lower)
    found = [
        Score(name, metric.corpus_score(ours, [theirs]).score, str(metric.get_signature()), published is not None)
        for name, metric in (("sacreBLEU", bleu), ("chrF", chrf))
    ]
    wanted = [line.lower() for line in theirs] if form.lower else theirs
    equal = sum(one == two for one, two in zip(ours, wanted, strict=True))
    exact = Score(
        "exact match", 100 * equal / len(ours), "percent of lines equal to their reference", published is not None
    )
    return [*found, papers_score(hypotheses, ours, references.target, theirs, form, papers), exact]


def papers_score(
    hypotheses: Sequence[str], ours: Sequence[str], given: Sequence[str], theirs: Sequence[str], form: Form,
    papers: PapersBleu,
) -> Score:  # fmt: skip
    """multi-bleu.perl's figure on Moses tokens."""
    if papers == "compounds":
        one, two = (split_compounds(moses.tokenise(lines, form.target)) for lines in (ours, theirs))
        return Score("BLEU (tokenised, cased, compounds split)", *multi_bleu(one, two))
    if form.tokens == "plain":
        one, two = moses.tokenise(ours, form.target), moses.tokenise(theirs, form.target)
    else:
        one, two = hypotheses, given if form.tokens == "given" else moses.tokenise(theirs, form.target)
    return Score("BLEU (tokenised, lower-cased)", *multi_bleu([x.lower() for x in one], [x.lower() for x in two]))


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus BLEU on tokens as they stand, no smoothing, and its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def split_compounds(lines: Sequence[str]) -> list[str]:
    """a-b as a ##AT##-##AT## b, as the papers on WMT14 do before they count."""
    return [COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


COMPOUND = re.compile(r"(\S)-(\S)")

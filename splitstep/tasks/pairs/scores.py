"""Scoring translations: each BLEU under its own name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...text import moses
from ...text.lines import Lines
from .codec import TextForm

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

PapersBleu = Literal["lower-cased", "compounds"]
"""The BLEU that papers report: on lower-cased Moses tokens, or on cased ones with compounds split."""
PAPERS: dict[PapersBleu, str] = {
    "lower-cased": "BLEU (tokenised, lower-cased)",
    "compounds": "BLEU (tokenised, cased, compounds split)",
}


class Score(NamedTuple):
    """A figure with its signature; it is not `comparable` if the references are not published text."""

    key: str
    name: str
    value: float
    signature: str
    comparable: bool = True


class Texts(NamedTuple):
    """Translations and their references, line by line."""

    ours: Sequence[str]
    theirs: Sequence[str]


def score(hypotheses: Sequence[str], references: Lines, form: TextForm, papers: PapersBleu | None) -> list[Score]:
    """All figures of prepared hypotheses: sacreBLEU, chrF, the BLEU that papers report on such data, exact match.

    If only Moses tokens of the references are published, all but the papers' BLEU are on their detokenised form and not
    comparable with published scores.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    written = as_people_write(hypotheses, references, form)
    published = form.tokens != "given" or references.plain is not None
    found = [
        Score(key, name, metric.corpus_score(list(written.ours), [list(written.theirs)]).score,
              str(metric.get_signature()), published)
        for key, name, metric in (
            ("sacrebleu", "sacreBLEU", BLEU(lowercase=form.lower)), ("chrf", "chrF", CHRF(lowercase=form.lower))
        )
    ]  # fmt: skip
    if papers is not None:
        found.append(Score("bleu", PAPERS[papers], *multi_bleu(*as_papers_count(hypotheses, references, form, papers))))
    equal = matches(written, form)
    meaning = "percent of lines equal to their reference"
    return [*found, Score("exact_match", "exact match", 100 * sum(equal) / len(equal), meaning, published)]


def as_people_write(hypotheses: Sequence[str], references: Lines, form: TextForm) -> Texts:
    """Untokenised text, with the references in their own case."""
    if len(hypotheses) != len(references.target) or not hypotheses:
        raise ValueError(
            f"{len(hypotheses):,} translations cannot be scored against {len(references.target):,} references"
        )
    published = references.plain if form.tokens == "given" else references.target
    theirs = form.plain(references.target, form.target) if published is None else published
    return Texts(form.plain(hypotheses, form.target), theirs)


def as_papers_count(hypotheses: Sequence[str], references: Lines, form: TextForm, papers: PapersBleu) -> Texts:
    """Moses tokens, whose n-grams multi-bleu.perl counts."""
    ours, theirs = as_people_write(hypotheses, references, form)
    if papers == "compounds":
        return Texts(*(split_compounds(moses.tokenise(lines, form.target)) for lines in (ours, theirs)))
    if form.tokens == "plain":
        one, two = moses.tokenise(ours, form.target), moses.tokenise(theirs, form.target)
    else:
        one, two = hypotheses, references.target if form.tokens == "given" else moses.tokenise(theirs, form.target)
    return Texts([x.lower() for x in one], [x.lower() for x in two])


def as_sacrebleu_counts(hypotheses: Sequence[str], references: Lines, form: TextForm) -> Texts:
    """Plain text in sacreBLEU's tokens."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenise = Tokenizer13a()
    ours, theirs = as_people_write(hypotheses, references, form)
    return Texts(*([tokenise(x.lower() if form.lower else x) for x in lines] for lines in (ours, theirs)))


def matches(written: Texts, form: TextForm) -> list[bool]:
    """Which translations are equal to their reference, which is lower-cased if the model's text is, and gets single
    blanks, as the model writes them."""
    wanted = [" ".join(line.split()) for line in written.theirs]
    return [one == (two.lower() if form.lower else two) for one, two in zip(written.ours, wanted, strict=True)]


def multi_bleu_metric(effective_order: bool = False) -> BLEU:
    """sacrebleu's equivalent of multi-bleu.perl: tokens as given, no smoothing."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", smooth_method="none", force=True, effective_order=effective_order)


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """The multi-bleu score of a corpus, and its signature."""
    metric = multi_bleu_metric()
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Lines with a-b as a ##AT##-##AT## b, as in the papers on WMT14."""
    return [COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


COMPOUND = re.compile(r"(\S)-(\S)")

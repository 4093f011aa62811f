"""Claims about decoding and scoring: order is restored, batches change nothing, each BLEU is what it says."""

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up import trial
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from splitstep.experiments import statistics
from splitstep.experiments.statistics import Estimate, Figure, draw_sentences, mean_difference, resampled_differences
from splitstep.experiments.trials import RunRecord
from splitstep.inference.translate import translate_split
from splitstep.models import SplitstepForTranslation, TranslationConfig
from splitstep.studies.compare.test_splits import System, bleu_of, match_of, on_test_sets, sacrebleu_of, sentence_counts
from splitstep.tasks import task
from splitstep.tasks.pairs.codec import END, PAD, Codec, Search, TextForm, learn
from splitstep.tasks.pairs.scores import Score, multi_bleu, score, split_compounds
from splitstep.tasks.pairs.search import generate_ids, longer_than_trained, translate
from splitstep.text.lines import Lines
from splitstep.training.result import SplitResult

WORDS = ["the", "a", "dog", "cat", "house", "tree", "runs", "sees", "red", "blue", "and", "of", "on", "."]


def sentences(n: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(4, 15))) for _ in range(n)]


def worsened(lines: list[str], share: float, seed: int = 1) -> list[str]:
    """Lines with a share of their words replaced."""
    random = np.random.default_rng(seed)
    return [" ".join(str(random.choice(WORDS)) if random.random() < share else w for w in x.split()) for x in lines]


def bleu_by_hand(hypotheses: list[str], references: list[str]) -> float:
    """Papineni's corpus BLEU as multi-bleu.perl counts it."""
    right, total = [0] * 4, [0] * 4
    ours = theirs = 0
    for one, two in zip(hypotheses, references, strict=True):
        h, r = one.split(), two.split()
        ours, theirs = ours + len(h), theirs + len(r)
        for n in range(1, 5):
            grams = Counter(tuple(h[i : i + n]) for i in range(len(h) - n + 1))
            wanted = Counter(tuple(r[i : i + n]) for i in range(len(r) - n + 1))
            right[n - 1] += sum((grams & wanted).values())
            total[n - 1] += sum(grams.values())
    if not all(right):
        return 0.0
    brevity = min(0.0, 1 - theirs / ours)
    return 100 * math.exp(brevity + sum(math.log(a / b) for a, b in zip(right, total, strict=True)) / 4)


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
def test_multi_bleu_is_corpus_bleu(share: float) -> None:
    references = sentences(200)
    hypotheses = [line.rsplit(" ", 1)[0] for line in worsened(references, share)]  # shorter: a brevity penalty
    value, signature = multi_bleu(hypotheses, references)
    assert value == pytest.approx(bleu_by_hand(hypotheses, references), abs=1e-9)
    assert "tok:none" in signature
    assert multi_bleu(["a b"], ["a b"])[0] == bleu_by_hand(["a b"], ["a b"]) == 0.0  # no four words: not smoothed


def scored(hypotheses: list[str], references: Lines, form: TextForm, papers: Any) -> dict[str, Score]:
    return {one.name: one for one in score(hypotheses, references, form, papers)}


LOWER = "BLEU (tokenised, lower-cased)"


def test_scores_of_text_as_people_write_it() -> None:
    references = [f"The dog, the cat and the house: {line}" for line in sentences(50)]
    hypotheses = worsened(references, 0.1)
    found = scored(hypotheses, Lines([], references), TextForm("de", "en"), "lower-cased")
    sacre = BLEU()
    assert found["sacreBLEU"].value == pytest.approx(sacre.corpus_score(hypotheses, [references]).score)
    assert (found["sacreBLEU"].signature, found["sacreBLEU"].comparable) == (str(sacre.get_signature()), True)
    assert 0 < found["chrF"].value < 100
    tokens = [[x.replace(",", " ,").replace(":", " :").lower() for x in lines] for lines in (hypotheses, references)]
    assert found[LOWER].value == pytest.approx(bleu_by_hand(*tokens), abs=1e-9)
    assert found["exact match"].value == 100 * np.mean([a == b for a, b in zip(hypotheses, references, strict=True)])


def test_a_match_needs_no_odd_blanks() -> None:
    """Text is prepared with single blanks, so that a model cannot write others."""
    references = ["Guten  Tag. ", "Guten\u00a0Tag.", "\tGuten Tag.", "Gute Nacht."]
    found = scored(["Guten Tag."] * 4, Lines([], references), TextForm("en", "de"), None)
    assert found["exact match"].value == 75


def test_scores_of_tokens_made_here() -> None:
    """Hypotheses are Moses tokens in small letters, references plain and cased: sacreBLEU ignores case and says so."""
    form = TextForm("en", "de", "moses", lower=True)
    references = ["Der Hund, der dort läuft, ist schwarz.", "Die Katze sieht ihn heute nicht."]
    found = scored(form.prepare(references, "de"), Lines([], references), form, "lower-cased")
    assert [found[name].value for name in (LOWER, "sacreBLEU", "exact match")] == pytest.approx([100] * 3)
    assert "case:lc" in found["sacreBLEU"].signature
    assert found["sacreBLEU"].comparable


def test_scores_against_tokens_only_are_not_comparable() -> None:
    form = TextForm("de", "en", "given", lower=True)
    references = ["it &apos;s a dog , isn &apos;t it ?", "the cat runs on the red house ."]
    found = scored(references, Lines([], references), form, "lower-cased")
    assert [found[name].comparable for name in ("sacreBLEU", "chrF", LOWER)] == [False, False, True]
    assert found[LOWER].value == pytest.approx(100)
    plain = ["It's a dog, isn't it?", "The cat runs on the red house."]
    assert scored(references, Lines([], references, plain), form, "lower-cased")["sacreBLEU"].comparable


def test_compounds_are_split_as_for_wmt14() -> None:
    assert split_compounds(["a well-known dog - aa-bb-cc"]) == [
        "a well ##AT##-##AT## known dog - aa ##AT##-##AT## bb ##AT##-##AT## cc"
    ]
    form, name = TextForm("en", "de", "given", hyphens=True), "BLEU (tokenised, cased, compounds split)"
    plain = ["Das Grün-Weiß steht heute dort drüben."]
    given = form.prepare(plain, "de")
    lines = Lines([], given, plain)
    assert scored(given, lines, form, "compounds")[name].value == pytest.approx(100)
    assert scored([x.lower() for x in given], lines, form, "compounds")[name].value < 100


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="1 translations cannot be scored against 2"):
        score(["a"], Lines([], ["a", "b"]), TextForm("de", "en"), None)


def test_counts_of_sentences_add_up_to_corpus_bleu() -> None:
    references = sentences(60)
    groups = [worsened(references, share, seed) for share, seed in ((0.3, 1), (0.0, 2), (1.0, 3))]
    groups.append([line.rsplit(" ", 2)[0] for line in groups[0]])  # shorter than the references
    groups.append(["nothing right here at all"] * 60)
    groups.append(["the", *[""] * 59])  # no two words anywhere
    sums = np.stack([sentence_counts(lines, references).sum(0) for lines in groups])
    expected = [multi_bleu(lines, references)[0] for lines in groups]
    assert bleu_of(sums) == pytest.approx(expected, abs=1e-9)  # all at once
    assert [float(bleu_of(one)) for one in sums] == pytest.approx(expected, abs=1e-9)
    assert expected[1] == pytest.approx(100)
    assert expected[4] == expected[5] == 0
    assert match_of(np.array([[3.0, 4.0]])).tolist() == [75.0]


def test_counts_of_few_sentences_add_up_to_sacrebleu() -> None:
    """Where no n-gram of some length matches, sacreBLEU is smoothed; where there is none at all, it is 0."""
    random = np.random.default_rng(0)
    lines = [[" ".join(random.choice(WORDS, random.integers(0, 6))) for _ in range(3)] for _ in range(200)]
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    expected = [BLEU(tokenize="none", force=True).corpus_score(one, [two]).score for one, two in pairs]
    sums = np.stack([sentence_counts(one, two).sum(0) for one, two in pairs])
    assert sacrebleu_of(sums) == pytest.approx(expected, abs=1e-9)
    assert sum(value > 0 for value in expected) > 20 > np.count_nonzero(bleu_of(sums))


def test_differences_on_few_sentences_are_those_of_the_printed_scores(tmp_path: Path) -> None:
    """No four words in a row are right: sacreBLEU is above 0 all the same, and so is the difference."""
    for name, column in (("my.en", sentences(60)), ("my.de", sentences(60, seed=1))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in column), encoding="utf-8")
    data = task("parallel", {"train": ("my.en", "my.de"), "merges": 20}, tmp_path)
    references = data.text("test")
    written = [[" ".join([*line.split()[:n], *"wxyz"]) for line in references.target] for n in (2, 3)]
    scores = [score(lines, references, data.codec.form, None) for lines in written]
    splits = [{"test": SplitResult(len(references.target), {}, tuple(found))} for found in scores]
    trials = [dataclasses.replace(trial("lie", 0, 0.5), splits=found) for found in splits]
    runs = [RunRecord(one, data.metric, {"test": lines}) for one, lines in zip(trials, written, strict=True)]
    found = on_test_sets([System(name, data, {0: run}) for name, run in zip("ab", runs, strict=True)])[1]
    assert found.difference.mean == pytest.approx(scores[1][0].value - scores[0][0].value) != 0


def test_the_bootstrap_is_a_loop_over_resampled_lines() -> None:
    """Sums of counts against sacrebleu on the lines themselves, drawn again and again."""
    references = sentences(40)
    ours = [worsened(references, 0.2, seed) for seed in (1, 2, 3)]
    theirs = [worsened(references, 0.3, seed) for seed in (4, 5, 6)]
    rows = draw_sentences(40, samples=12)
    assert rows.shape == (12, 40)

    def drawn(lines: list[str], row: np.ndarray) -> float:
        return multi_bleu([lines[i] for i in row], [references[i] for i in row])[0]

    expected = [[drawn(one, row) - drawn(two, row) for one, two in zip(ours, theirs, strict=True)] for row in rows]
    counts = [np.stack([sentence_counts(lines, references) for lines in group]) for group in (ours, theirs)]
    assert resampled_differences(*counts, bleu_of, rows) == pytest.approx(np.array(expected), abs=1e-9)


def difference_of(ours: np.ndarray, theirs: np.ndarray, figure: Figure, samples: int = 1000) -> tuple[Estimate, float]:
    """The mean difference with its interval, and the first pair's p."""
    found = figure(ours.sum(1)) - figure(theirs.sum(1))
    resampled = resampled_differences(ours, theirs, figure, draw_sentences(ours.shape[1], samples))
    return mean_difference(found, resampled), statistics.two_sided_p(float(found[0]), resampled[:, 0])


def test_the_interval_is_over_seeds_and_sentences() -> None:
    references = sentences(150)
    counts = {share: sentence_counts(worsened(references, share, 7), references) for share in (0.1, 0.2, 0.3)}
    one, _ = difference_of(counts[0.1][None], counts[0.2][None], bleu_of)
    assert one.low < one.mean < one.high
    same, _ = difference_of(np.stack([counts[0.1]] * 4), np.stack([counts[0.2]] * 4), bleu_of)
    assert same == (pytest.approx(one.mean), None, None, 4)  # equal seeds do not show their spread
    assert same.lacks == "too few seeds: all equal"
    found = np.array([1.0, 3.0, 2.0])
    calm = mean_difference(found, np.tile(found, (9, 1)))  # no sentence matters: seeds alone
    assert calm == pytest.approx((2, 2 - 2.4841377, 2 + 2.4841377, 3))  # t_2 = 4.302653 times 1 / sqrt(3)
    both = mean_difference(found, found + np.array([-1.0, 0.0, 1.0])[:, None])  # deviation 1 over sentences
    assert both.high == pytest.approx(2 + np.hypot(2.4841377, 1.959964))
    equal, p = difference_of(counts[0.1][None], counts[0.1][None], bleu_of)
    assert (equal, p) == ((0, 0, 0, 1), 1)
    noise = np.random.default_rng(0).normal(0.2, 0.1, (100, 3))
    assert mean_difference(np.array([0.1, 0.3]), noise[:, :2]) == pytest.approx((0.2, None, None, 2))  # two are too few
    assert mean_difference(np.full(3, 0.2), noise) == pytest.approx((0.2, None, None, 3))


@pytest.mark.parametrize(("seeds", "t"), [(3, 4.303), (5, 2.776)])
def test_intervals_contain_the_truth_as_often_as_they_say(seeds: int, t: float) -> None:
    """Two schemes of equal quality: seeds differ, sentences differ, and 95% of the intervals or a few more hold zero.

    They are at most a quarter wider than Student's of the means: chance in single sentences differs from seed to seed
    here, and so is in both of an interval's parts.
    """
    random, held, times = np.random.default_rng(seeds), 0, 200
    means, halves = list[float](), list[float]()
    for _ in range(times):
        hard = random.normal(0, 0.2, 40)
        quality = 0.5 + random.normal(0, 0.05, (2, seeds, 1)) + hard
        right = (random.random((2, seeds, 40)) < quality).astype(float)
        counts = np.stack([right, np.ones_like(right)], -1)
        found, _ = difference_of(counts[0], counts[1], match_of, samples=100)
        if found.low is None or found.high is None:
            continue  # by chance all seeds are equal
        held += found.low <= 0 <= found.high
        means.append(found.mean)
        halves.append((found.high - found.low) / 2)
    assert len(means) > 0.97 * times
    assert held / len(means) > 0.93
    assert np.sqrt(np.mean(np.square(halves))) < 1.25 * t * np.std(means)


def test_p_is_two_sided() -> None:
    """Of equal systems about one in twenty is below .05; sacrebleu's own p counts one side: about half of ours."""
    random, below, times = np.random.default_rng(0), 0, 300
    for _ in range(times):
        right = (random.random((2, 1, 100)) < 0.5).astype(float)
        counts = np.stack([right, np.ones_like(right)], -1)
        below += difference_of(counts[0], counts[1], match_of, samples=200)[1] < 0.05
    assert 0.02 < below / times < 0.09
    references = sentences(150)
    worse, better = worsened(references, 0.4, 1), worsened(references, 0.36, 2)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    _, results = PairedTest([("a", worse), ("b", better)], {"BLEU": metric}, [references], "bs")()
    result = results["BLEU"][1]
    assert not isinstance(result, str)
    counts = [sentence_counts(lines, references)[None] for lines in (better, worse)]
    _, p = difference_of(counts[0], counts[1], bleu_of)
    assert 0.01 < p < 0.5
    assert p / 2 == pytest.approx(result.p_value, abs=0.03)


@pytest.fixture(scope="module")
def codec() -> Codec:
    lines = sentences(200)
    return learn(lines, lines, TextForm("en", "de"), 40)


def model_for(codec: Codec, **more: Any) -> SplitstepForTranslation:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "ffn": 32, "max_positions": 64}
    config = TranslationConfig(vocab_size=codec.size, init="normal", init_std=0.3, **(shape | more))
    return SplitstepForTranslation(config).double().eval()


@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_batches_and_order_change_nothing(codec: Codec, beams: int) -> None:
    """Lines of many lengths in one call against one call for each; an empty line stays empty."""
    model = model_for(codec)
    lines = [*sentences(7, seed=5), "", "dog", *sentences(3, seed=6)]
    seen: list[tuple[int, int]] = []
    search = Search(beams=beams, batch_tokens=48, stretch=1.5, extra=2)  # random weights: most lines meet their limit
    together = translate(model, codec, lines, search, progress=lambda done, total: seen.append((done, total)))
    assert together == [translate(model, codec, [line], search)[0] for line in lines]
    assert together[7] == ""
    assert len(set(together)) > 3
    sources = list(codec.encode(lines))
    found = generate_ids(model, sources, search, torch.float32)  # no autocast
    written = [len([one for one in ids[1:] if one not in (END, PAD)]) for ids in found]
    most = [int(1.5 * len(source)) + 2 for source in sources]
    assert all(count <= limit for count, limit in zip(written, most, strict=True))
    assert any(count == limit < max(most) for count, limit in zip(written, most, strict=True))
    assert seen == sorted(seen)
    assert seen[-1] == (12, 12)


def test_long_lines_are_reported_not_cut(codec: Codec) -> None:
    lines = ["dog", " ".join(WORDS * 12)]
    model = model_for(codec)
    assert longer_than_trained(model, codec, lines) == [2]
    learned = model_for(codec, positions="learned")
    with pytest.raises(ValueError, match=r"1 of 2 lines have more tokens than this model's 64 .* line 2 with"):
        translate(learned, codec, lines, Search(beams=1))
    assert len(translate(learned, codec, lines[:1], Search(beams=1))) == 1


def test_too_many_beams_for_the_memory_are_one_line(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation fails for real, whatever memory there is."""
    model = model_for(codec)
    monkeypatch.setattr(model, "generate", lambda *args, **kwargs: torch.empty(2**58))
    with pytest.raises(ValueError, match=r"too little memory for 1,000 beams .* use fewer beams"):
        translate(model, codec, ["dog"], Search(beams=1000))


def test_a_tokenizer_of_another_model_is_refused(codec: Codec) -> None:
    other = learn(sentences(50), sentences(50), TextForm("en", "de"), 7)
    with pytest.raises(ValueError, match=r"the tokenizer has .* tokens and the model .*saved with the model"):
        translate(model_for(codec), other, ["dog"])


def test_a_split_is_translated_and_scored() -> None:
    made = task("numbers", {"train": 200, "valid": 5, "test": 5, "highest": 999})
    found = translate_split(model_for(made.codec), made, "valid", Search(beams=2))
    assert (found.lines, len(found.hypotheses)) == (5, 5)
    document = found.document()
    assert [one["name"] for one in document["scores"]] == ["sacreBLEU", "chrF", "exact match"]  # no papers' BLEU
    assert document["search"]["beams"] == 2
    assert translate_split(model_for(made.codec), made, "valid").search == Search(5, 1.0)
    with pytest.raises(ValueError, match="no split"):
        translate_split(model_for(made.codec), made, "test2016")
    with pytest.raises(ValueError, match="not of train"):
        translate_split(model_for(made.codec), made, "train")

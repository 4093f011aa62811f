"""Claims about decoding and scoring: order is restored, batches change nothing, each BLEU is what it says."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from safetensors.torch import save_file

from splitstep.models import SplitstepForTranslation, TranslationConfig
from splitstep.studies.translate import average, bleu_of, paired_bootstrap, sentence_counts, translate_split
from splitstep.tasks import task
from splitstep.tasks.text_pairs.codec import Codec, Form, learn
from splitstep.tasks.text_pairs.lines import Lines
from splitstep.tasks.text_pairs.scores import multi_bleu, score, split_compounds
from splitstep.tasks.text_pairs.search import Search, longer_than_trained, translate
from splitstep.tasks.translation import Translation

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


def by_name(scores: list) -> dict:
    return {one.name: one for one in scores}


def test_scores_of_text_as_people_write_it() -> None:
    references = [f"The dog, the cat and the house: {line}" for line in sentences(50)]
    hypotheses = worsened(references, 0.1)
    found = by_name(score(hypotheses, Lines([], references), Form("de", "en")))
    sacre = BLEU()
    assert found["sacreBLEU"].value == pytest.approx(sacre.corpus_score(hypotheses, [references]).score)
    assert found["sacreBLEU"].signature == str(sacre.get_signature())
    assert found["sacreBLEU"].comparable
    assert 0 < found["chrF"].value < 100
    tokens = [[x.replace(",", " ,").replace(":", " :").lower() for x in lines] for lines in (hypotheses, references)]
    assert found["BLEU (tokenised, lower-cased)"].value == pytest.approx(bleu_by_hand(*tokens), abs=1e-9)
    assert found["exact match"].value == 100 * np.mean([a == b for a, b in zip(hypotheses, references, strict=True)])


def test_scores_of_tokens_made_here() -> None:
    """Hypotheses are Moses tokens in small letters, references plain and cased: sacreBLEU ignores case and says so."""
    form = Form("en", "de", "moses", lower=True)
    references = ["Der Hund, der dort läuft, ist schwarz.", "Die Katze sieht ihn heute nicht."]
    perfect = form.prepare(references, "de", tokenised=False)
    found = by_name(score(perfect, Lines([], references), form))
    assert found["BLEU (tokenised, lower-cased)"].value == pytest.approx(100)
    assert found["sacreBLEU"].value == pytest.approx(100)
    assert "case:lc" in found["sacreBLEU"].signature
    assert found["exact match"].value == 100
    assert found["sacreBLEU"].comparable


def test_scores_against_tokens_only_are_not_comparable() -> None:
    form = Form("de", "en", "given", lower=True)
    references = ["it &apos;s a dog , isn &apos;t it ?", "the cat runs on the red house ."]
    found = by_name(score(references, Lines([], references), form))
    assert not found["sacreBLEU"].comparable
    assert not found["chrF"].comparable
    assert found["BLEU (tokenised, lower-cased)"].comparable
    assert found["BLEU (tokenised, lower-cased)"].value == pytest.approx(100)
    plain = ["It's a dog, isn't it?", "The cat runs on the red house."]
    assert by_name(score(references, Lines([], references, plain), form))["sacreBLEU"].comparable


def test_compounds_are_split_as_for_wmt14() -> None:
    assert split_compounds(["a well-known dog - aa-bb-cc"]) == [
        "a well ##AT##-##AT## known dog - aa ##AT##-##AT## bb ##AT##-##AT## cc"
    ]
    form = Form("en", "de", "given", hyphens=True)
    plain = ["Das Grün-Weiß steht heute dort drüben."]
    given = form.prepare(plain, "de", tokenised=False)
    found = by_name(score(given, Lines([], given, plain), form, "compounds"))
    assert found["BLEU (tokenised, cased, compounds split)"].value == pytest.approx(100)
    lower = by_name(score([x.lower() for x in given], Lines([], given, plain), form, "compounds"))
    assert lower["BLEU (tokenised, cased, compounds split)"].value < 100


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="1 translations cannot be scored against 2"):
        score(["a"], Lines([], ["a", "b"]), Form("de", "en"))
    with pytest.raises(ValueError, match="1 and 1 translations, 2 references"):
        paired_bootstrap(["a"], ["a"], ["a", "b"])


def test_counts_of_sentences_add_up_to_corpus_bleu() -> None:
    references = sentences(60)
    hypotheses = worsened(references, 0.3)
    total = sentence_counts(hypotheses, references, "13a", False).sum(0)
    assert bleu_of(total) == pytest.approx(BLEU().corpus_score(hypotheses, [references]).score, abs=1e-9)


def test_paired_bootstrap() -> None:
    references = sentences(150)
    worse, better = worsened(references, 0.4, 1), worsened(references, 0.2, 2)
    found = paired_bootstrap(worse, better, references, samples=300)
    assert found.difference == pytest.approx(found.system - found.baseline)
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.05
    same = paired_bootstrap(worse, worse, references, samples=100)
    assert (same.difference, same.low, same.high) == (0, 0, 0)
    assert same.p == 1


@pytest.fixture(scope="module")
def codec() -> Codec:
    lines = sentences(200)
    return learn(lines, lines, Form("en", "de"), 40)


def model_for(codec: Codec, **more: object) -> SplitstepForTranslation:
    torch.manual_seed(0)
    shape: dict = {"layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "ffn": 32, "max_positions": 64}
    config = TranslationConfig(vocab_size=codec.size, init="normal", init_std=0.3, **(shape | more))
    return SplitstepForTranslation(config).double().eval()


@pytest.mark.parametrize("beams", [1, 3])
def test_batches_and_order_change_nothing(codec: Codec, beams: int) -> None:
    """Lines of many lengths in one call against one call for each; an empty line stays empty."""
    model = model_for(codec)
    lines = [*sentences(7, seed=5), "", "dog", *sentences(3, seed=6)]
    seen: list[tuple[int, int]] = []
    search = Search(beams=beams, batch_tokens=48, stretch=0.0, extra=12)
    together = translate(model, codec, lines, search, progress=lambda done, total: seen.append((done, total)))
    assert together == [translate(model, codec, [line], search)[0] for line in lines]
    assert together[7] == ""
    assert len(set(together)) > 3
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


def test_a_tokenizer_of_another_model_is_refused(codec: Codec) -> None:
    other = learn(sentences(50), sentences(50), Form("en", "de"), 7)
    with pytest.raises(ValueError, match=r"the tokenizer has .* tokens and the model .*saved with the model"):
        translate(model_for(codec), other, ["dog"])


def test_average(tmp_path: Path) -> None:
    tensors = [{"w": torch.randn(3, 4), "b": torch.randn(2).bfloat16()} for _ in range(3)]
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for path, part in zip(paths, tensors, strict=True):
        save_file(part, path)
    found = average(paths)
    torch.testing.assert_close(found["w"], torch.stack([part["w"] for part in tensors]).mean(0))
    assert found["b"].dtype == torch.bfloat16
    assert torch.equal(average(paths[:1])["w"], tensors[0]["w"])
    save_file({"w": torch.randn(3, 5), "b": torch.randn(2)}, paths[2])
    with pytest.raises(ValueError, match=r"0.safetensors and .*2.safetensors are of different models, e.g. in w"):
        average(paths)
    paths[2].write_bytes(b"broken")
    with pytest.raises(ValueError, match="cannot read the weights"):
        average(paths)
    with pytest.raises(ValueError, match="no checkpoints"):
        average([])


def test_a_split_is_translated_and_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path))
    made = task("numbers", {"train": 200, "valid": 5, "test": 5, "highest": 999})
    assert isinstance(made, Translation)
    found = translate_split(model_for(made.codec), made, "valid", Search(beams=2))
    assert (found.lines, len(found.hypotheses)) == (5, 5)
    document = found.document()
    assert [one["name"] for one in document["scores"]] == [
        "sacreBLEU", "chrF", "BLEU (tokenised, lower-cased)", "exact match",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no split"):
        translate_split(model_for(made.codec), made, "test2016")
    with pytest.raises(ValueError, match="not of train"):
        translate_split(model_for(made.codec), made, "train")

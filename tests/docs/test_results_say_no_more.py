"""What the pages under docs/results say of a difference is what was seen: its size, its interval, and its limits."""

from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from test_findings import LIE, MACARON, bare, figures, interval, paired, read

ROOT = Path(__file__).parents[2]
NAMES = ("comparisons", "distil", "inspect", "lessons", "modifications", "order", "pde", "pretrain")
PAGES = {name: " ".join((ROOT / "docs" / "results" / f"{name}.md").read_text().split()) for name in NAMES}


def test_glue_is_undecided() -> None:
    rows = read("pretrain/glue")["differences"]
    found = {one["what"]: one["found"] for one in rows if one["to"] == "lie"}
    mean = "+{mean:.2f} points [{low:.2f}, {high:.2f}]".format(**found["mean"])
    assert "on GLUE the result is undecided" in PAGES["pretrain"]
    assert mean in PAGES["pretrain"]
    assert f"p = {bare('.4f', 2 * 0.5**5)}" in PAGES["pretrain"]
    assert f"{found['stsb']['mean'] / 5:.1f} of the points are STS-B" in PAGES["pretrain"]
    losses = [figures("pretrain/mlm", "loss", scheme) for scheme in (MACARON, LIE)]
    assert all(losses[0][seed] < losses[1][seed] for seed in losses[1])
    assert "masked loss is lower in each of five pairs" in PAGES["pretrain"]
    assert "on GLUE the result is undecided" in PAGES["comparisons"]


def test_macaron_is_behind_in_two_figures() -> None:
    mean, low, high = paired(*(figures("translation/multi30k-en-de", "loss", one) for one in (MACARON, LIE)))
    assert f"higher by {mean:.3f} nats [{low:.3f}, {high:.3f}]" in PAGES["comparisons"]
    names = ("compare/newsgroups", "compare/newsgroups-unscaled")
    preferred = {
        scheme: max(names, key=lambda name: fmean(figures(name, "accuracy", scheme, "valid").values()))
        for scheme in (LIE, MACARON)
    }
    accuracies = [figures(preferred[scheme], "accuracy", scheme) for scheme in (MACARON, LIE)]
    mean, low, high = (100 * one for one in paired(*accuracies))
    assert f"{-mean:.2f} points lower [{low:.2f}, {high:.2f}]" in PAGES["comparisons"]


def test_asymmetry_of_j_minus_i_falls_with_training() -> None:
    found = read("inspect/smollm2")
    assert "asymmetry of J - I is -.46 [-.50, -.41] in the trained network, and .00" in PAGES["inspect"]
    shown: dict[str, Any] = {
        who: next(one for one in found[who]["series"] if one["name"] == "J - I asymmetry") for who in ("model", "other")
    }
    assert [f"{min(map(min, shown['other']['figures'])):.1f}", f"{max(map(max, shown['other']['figures'])):.1f}"] == [
        "1.4"
    ] * 2


def test_skewed_kl_has_answers_that_do_not_end() -> None:
    [skl] = [one for one in read("distil/pair_e")["rows"] if one["method"] == "skl"]
    assert f"{1 - skl['ended']['mean']:.0%} of its answers do not end" in PAGES["distil"]


def test_sra_is_behind_uld_in_the_contrast_of_the_paper() -> None:
    found = read("distil/pair_f")
    runs = {(one["method"], one["seed"]): one["figures"]["rouge"] for one in found["runs"]}
    mean, low, high = interval([runs["sra", seed] - runs["uld-paper", seed] for seed in found["seeds"]])
    assert f"the difference is {mean:.2f} points [{low:.2f}, {high:.2f}]" in PAGES["distil"]
    assert f"{-mean:.2f} points [{-high:.2f}, {-low:.2f}] behind ULD" in PAGES["distil"]


def test_information_about_ten_classes_beyond_their_entropy_is_an_artefact() -> None:
    [arm] = [one for one in read("pde/mnist")["arms"] if one["name"] == "neither"]
    last = {name: arm["own"]["profiles"][f"I(Y;T) {name}"][-1]["mean"] for name in ("neighbours", "mixture 1")}
    assert last["neighbours"] > log(10) > last["mixture 1"]
    said = f"gives {last['neighbours']:.2f} nats", f"ten classes have at most {log(10):.2f}"
    assert all(one in PAGES["pde"] for one in (*said, f"with noise, gives {last['mixture 1']:.2f}", "artefact of ties"))


def test_networks_without_norms_are_as_good_on_two_tasks_of_four() -> None:
    assert (
        "within one point of the full one on two tasks of four: MNIST (99.29% and 99.33%) and ListOps" in PAGES["pde"]
    )
    for task, shown in (("mnist", "99.29% and 99.33%"), ("listops", "39.84% and 39.86%")):
        arms = {one["name"]: one["own"] for one in read(f"pde/{task}")["arms"]}
        assert shown == f"{arms['no-norm']['test']['mean']:.2%} and {arms['full']['test']['mean']:.2%}"
        found = arms["no-norm"]["difference"]
        assert max(-found["low"], found["high"]) < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_a_difference_of_percentages_is_in_points(name: str) -> None:
    words = PAGES[name].replace("[", " ").replace(",", " ").split()
    assert not [word for word in words if word[0] in "+-" and "%" in word]

"""What README and docs/findings.md say was found is what the files say, with its sign, its size and its limits."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from scipy.stats import spearmanr, t

ROOT = Path(__file__).parents[2]
FINDINGS, README = (" ".join((ROOT / file).read_text().split()) for file in ("docs/findings.md", "README.md"))
LIE, MACARON = "A F", "F0/2 A F1/2"


def read(name: str) -> Any:
    return json.loads((ROOT / "results" / name / "result.json").read_text())


def figures(name: str, figure: str, scheme: str, split: str = "test") -> dict[int, float]:
    """A figure of a comparison's runs, by seed."""
    return {one["seed"]: one[split][figure] for one in read(name)["trials"] if one["scheme"] == scheme}


def interval(values: list[float]) -> tuple[float, float, float]:
    """The mean and Student's 95% interval."""
    n, mean = len(values), fmean(values)
    half = t.ppf(0.975, n - 1) * (sum((one - mean) ** 2 for one in values) / (n - 1) / n) ** 0.5
    return mean, mean - half, mean + half


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> tuple[float, float, float]:
    assert set(ours) == set(theirs)
    return interval([ours[seed] - theirs[seed] for seed in ours])


def bare(form: str, value: float) -> str:
    """A figure without the zero before its point."""
    return format(value, form).replace("0.", ".", 1) if abs(value) < 1 else format(value, form)


def test_macaron_has_the_lower_masked_loss_in_each_of_five_pairs() -> None:
    ours, theirs = (figures("pretrain/mlm", "loss", scheme) for scheme in (MACARON, LIE))
    assert len(ours) == 5
    assert all(ours[seed] < theirs[seed] for seed in theirs)
    mean, low, high = paired(ours, theirs)
    for page in (README, FINDINGS):
        assert "lower loss in each of five pairs" in page
        assert f"{mean:.3f} nats [{low:.3f}, {high:.3f}]" in page


def test_glue_is_undecided_with_five_pairs() -> None:
    found = {one["what"]: one["found"] for one in read("pretrain/glue")["differences"] if one["to"] == "lie"}
    mean, stsb = found["mean"], found["stsb"]
    assert mean["n"] == 5
    assert f"+{mean['mean']:.2f} points [{mean['low']:.2f}, {mean['high']:.2f}] rest on five pairs" in FINDINGS
    assert f"{2 * 0.5**5:.4f}".lstrip("0") in FINDINGS  # all five signs alike, by chance
    assert f"{stsb['mean'] / 5:.1f} of the points are STS-B" in FINDINGS
    assert "on GLUE the five pairs leave it undecided" in README


def test_macaron_is_behind_on_two_tasks() -> None:
    loss = paired(*(figures("translation/multi30k-en-de", "loss", scheme) for scheme in (MACARON, LIE)))
    assert loss[1] > 0
    said = f"by {loss[0]:.3f}", f"[{loss[1]:.3f}, {loss[2]:.3f}]"
    for page in (README, FINDINGS):
        assert all(one in page for one in said)
    names = ("compare/newsgroups", "compare/newsgroups-unscaled")
    preferred = {
        scheme: max(names, key=lambda name: fmean(figures(name, "accuracy", scheme, "valid").values()))
        for scheme in (LIE, MACARON)
    }
    mean, low, high = (
        100 * one for one in paired(*(figures(preferred[scheme], "accuracy", scheme) for scheme in (MACARON, LIE)))
    )
    for page in (README, FINDINGS):
        assert f"differs by {mean:.2f} points [{low:.2f}, {high:.2f}]" in page


def test_a_hyperparameter_is_mistaken_for_a_scheme_effect() -> None:
    without, with_scale = (
        paired(*(figures(f"compare/{name}", "accuracy", scheme) for scheme in (MACARON, LIE)))
        for name in ("newsgroups-unscaled", "newsgroups")
    )
    mean, low, high = (-100 * one for one in without)
    assert with_scale[1] < 0 < with_scale[2]
    for page in (README, FINDINGS):
        assert f"is {mean:.2f} points [{high:.2f}, {low:.2f}] behind" in page


def test_a_second_order_scheme_costs_perplexity_at_equal_flops() -> None:
    [row] = [one for one in read("compare/wikitext2-flops")["rows"] if one["name"] == "strang-midpoint"]
    found = row["difference"]
    for page in (README, FINDINGS):
        assert "WikiText-2 by {mean:.1f} [{low:.1f}, {high:.1f}]".format(**found) in page


def test_networks_without_norms_are_within_a_point_on_two_tasks_of_four() -> None:
    close = []
    for task in ("mnist", "newsgroups", "listops", "stdlib"):
        [arm] = [one for one in read(f"pde/{task}")["arms"] if one["name"] == "no-norm"]
        found = arm["own"]["difference"]
        assert found["low"] < 0 < found["high"]
        if max(-found["low"], found["high"]) < 0.01:
            close.append(task)
    assert close == ["mnist", "listops"]
    assert "are within one point of full ones on two tasks of four (MNIST and ListOps)" in FINDINGS


def test_asymmetry_falls_with_training_in_j_minus_i() -> None:
    found = read("inspect/smollm2")

    def trend(who: str) -> tuple[float, float, float]:
        [series] = [one for one in found[who]["series"] if one["name"] == "J - I asymmetry"]
        return interval([float(spearmanr(range(len(row)), row)[0]) for row in series["figures"]])

    trained, random = trend("model"), trend("other")
    shown = "{} [{}, {}]".format(*(bare(".2f", one) for one in trained))
    assert len(found["model"]["losses"]) == 8
    assert f"{shown} over eight texts" in FINDINGS
    assert f"{bare('.2f', abs(random[0]))} with random weights" in FINDINGS
    assert random[1] < 0 < random[2]


def test_smollm_is_not_a_discretised_flow() -> None:
    halved = read("inspect/smollm2-converge")["halved"]
    assert (halved["substeps"], halved["scheme"]) == (2, LIE)
    assert halved["loss"]["low"] > 0.1  # the limit of the rule, in nats
    for page in (README, FINDINGS):
        assert f"two sub-steps for each layer cost {halved['loss']['mean']:.1f} nats per token" in page


def test_what_is_said_about_distillation() -> None:
    same = {(one["of"], one["what"]): one["found"] for one in read("distil/pair_e")["differences"]}
    other = {(one["of"], one["what"]): one["found"] for one in read("distil/pair_f")["differences"]}
    gain = "{mean:.2f} points [{low:.2f}, {high:.2f}]".format(**same["skl", "ROUGE-L"])
    [skl] = [one for one in read("distil/pair_e")["rows"] if one["method"] == "skl"]
    for page in (README, FINDINGS):
        assert gain in page
        assert f"{1 - skl['ended']['mean']:.0%} of its answers do not end" in page
    raised = "raise ROUGE-L by {mean:.2f} points [{low:.2f}, {high:.2f}]".format(**other["uld-paper", "ROUGE-L"])
    assert raised in FINDINGS
    assert other["uld-paper", "bits per byte"]["low"] > 0 > other["sra", "bits per byte"]["high"]
    assert same["kl", "bits per byte"]["high"] < 0 < same["skl", "bits per byte"]["low"]
    assert same["kl", "ROUGE-L"]["low"] < 0 < same["kl", "ROUGE-L"]["high"]
    for method in ("skl+mta", "kl+mta"):
        assert same[method, "ROUGE-L"]["high"] < 0 < same[method, "bits per byte"]["low"]
    runs = {(one["method"], one["seed"]): one["figures"]["rouge"] for one in read("distil/pair_f")["runs"]}
    mean, low, high = interval([runs["uld-paper", seed] - runs["sra", seed] for seed in read("distil/pair_f")["seeds"]])
    assert f"SRA is {mean:.2f} points [{low:.2f}, {high:.2f}] behind" in FINDINGS


def test_a_certificate_has_the_size_that_is_said() -> None:
    last = read("approximate/product")["rows"][-1]
    assert last["met"]
    assert last["error"] <= 0.005
    for page in (README, FINDINGS):
        assert f"with {last['parameters']:,} parameters" in page


def test_squared_relu_has_the_lead_that_is_said() -> None:
    """With Bonferroni's correction, for the four finalists."""
    found = read("compare/modifications/stdlib/stage2")
    [row] = [one for one in found["rows"] if one["arm"] == "relu2"]
    lead, others = row["difference"], len(found["rows"]) - 1
    wider = t.ppf(1 - 0.025 / others, lead["n"] - 1) / t.ppf(0.975, lead["n"] - 1)
    low, high = (-lead["mean"] + sign * wider * (lead["high"] - lead["mean"]) for sign in (-1, 1))
    shown = f"{-lead['mean']:.3f} nats lower loss [{low:.3f}, {high:.3f}] over eight seeds at equal parameters"
    assert (lead["n"], others) == (8, 4)
    for page in (README, FINDINGS):
        assert f"{shown}, corrected for four comparisons" in page


def test_as_many_architectures_are_exact_as_the_table_has() -> None:
    guide = (ROOT / "docs" / "guide" / "inspect.md").read_text()
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \| (?:`.*`|none) \| (exact|refused)", guide, re.M)
    count = {
        answer: sum(len(names.split(", ")) for names, one in rows if one == answer) for answer in ("exact", "refused")
    }
    said = f"{count['exact']} of {sum(count.values())} architectures are exact end to end"
    assert count["refused"] == 9
    assert said in README
    assert said in FINDINGS


def test_times_are_those_of_the_files() -> None:
    found = json.loads((ROOT / "results" / "inspect" / "time.json").read_text())
    said = f"{found['commands']['default']['seconds']:.0f} seconds on two cores"
    assert f"{said}: one page shows tokens" in README
    assert said in (ROOT / "docs" / "notebooks" / "inspect.ipynb").read_text()


@pytest.mark.parametrize("page", [README, FINDINGS])
def test_no_page_claims_that_macaron_is_better_on_glue(page: str) -> None:
    assert not re.search(r"GLUE[^.]*(supported|is ahead|significant)", page)


def test_slopes_are_as_close_to_orders_as_the_tour_says() -> None:
    def off(row: Any) -> float:
        return max(abs(row["measured"][way] - row["order"]) for way in ("autonomous", "time_dependent"))

    rows = {one["name"]: off(one) for one in read("schemes")["rows"]}
    conformer = rows.pop("conformer")
    tour = " ".join((ROOT / "docs" / "guide" / "tour.md").read_text().split())
    assert f"within {max(rows.values()):.2f} of the computed orders, {conformer:.2f} for the Conformer" in tour

"""What the page on pretrained models shows is what its files say."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from zoo import APART, schemes

from splitstep import cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "inspect"
PAGE = (ROOT / "docs" / "results" / "inspect.md").read_text()
WORDS = " ".join(PAGE.split())


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_the_verdict_and_the_table_are_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(FOLDER / "smollm2"), "--markdown"]) == 0
    printed = capsys.readouterr().out.strip()
    assert len(printed) > 1000
    assert printed in PAGE


def test_what_is_said_about_layers_is_in_the_file() -> None:
    found = read("smollm2/result.json")
    first = found["model"]["paths"][0]["norm"]
    assert f"jumps from {first[11][0]:,.0f} to {first[12][0]:,.0f}" in WORDS
    assert f"no other token's exceeds {max(first[12][1:]):.0f}" in WORDS
    ranks = [mean_of(found["model"], "rank", "effective centred", state) for state in (11, 12)]
    assert "falls from {:.0f} to {:.0f} there".format(*ranks) in WORDS
    shares = [mean_of(found["model"], "jacobian", "complex", layer) for layer in (0, 29)]
    assert "from {:.0%} in the first layer to {:.0%} in the last".format(*shares) in WORDS
    product = [mean_of(found[who], "products", "effective rank", -1) for who in ("model", "other")]
    assert "rank of {:.1f} of 576 in the trained network and {:.0f} in the random one".format(*product) in WORDS
    random = [mean_of(found["other"], "jacobian", "J - I asymmetry", layer) for layer in range(30)]
    assert all(f"{one:.2f}" in ("1.41", "1.42") for one in random)


def mean_of(looked: Any, probe: str, name: str, place: int) -> float:
    [series] = [one for one in looked["series"] if (one["probe"], one["name"]) == (probe, name)]
    return fmean(float(row[place]) for row in series["figures"])


def test_the_table_of_tools_is_what_the_benchmark_wrote() -> None:
    tools = read("peers.json")["tools"]
    order = ["splitstep", "TransformerLens", "nnterp", "InterpKit"]
    for model in tools["splitstep"]["models"]:
        answers = [[tools[tool]["models"][model][std]["answer"] for std in ("0.02", "0.2")] for tool in order]
        cells = [one if one == other else f"{one} / {other}" for one, other in answers]
        assert f"| {model} | {' | '.join(cells)} |\n" in PAGE
    assert f"| **right with both** | {' | '.join(str(tools[tool]['right_with_both']) for tool in order)} |" in PAGE


def test_the_numbers_of_architectures_are_those_of_the_zoo() -> None:
    apart = sum(len(names.split()) for names in APART.values())
    assert f"has {len(schemes())} architectures; in {apart} of them" in WORDS
    assert f"the other {len(schemes()) - apart} stand in" in WORDS


def test_costs_are_what_the_benchmarks_measured_and_within_their_bars() -> None:
    for model, found in read("capture.json")["models"].items():
        for way, one in found["ways"].items():
            if way != "plain" and one.get("ratio_cpu") is not None:
                assert f"| {model} | {way} | {one['states']} | {one['ratio_cpu']:.3f} |" in PAGE
        assert found["ways"]["ours"]["ratio_cpu"] <= 1.10
    cost = read("cost.json")
    token = cost["token jacobian"]
    assert f"takes {token['ratio_cpu']:.2f} of the time" in WORDS
    assert f"{token['ours_MiB']:.0f} MiB instead of {token['plain_MiB']:.0f}" in WORDS
    assert token["ratio_cpu"] <= 1.2
    for one in cost["leading"]:
        assert f"| {one['std']:g} | {1 / one['ratio_cpu']:.0f} | {one['error']:.1e} | {one['plain_MiB']:,.0f} |" in PAGE
        assert one["ratio_cpu"] <= 1 / 30
        assert one["error"] <= 0.01


def test_a_default_inspection_takes_what_the_page_says() -> None:
    found = read("time.json")
    assert found["pass"]
    assert f"took {found['seconds']:.0f} s and {found['peak_gib']:.2f} GiB on two cores" in WORDS

"""What the page on pre-training shows is what its files say."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "pretrain"
PAGE = (ROOT / "docs" / "results" / "pretrain.md").read_text()
WORDS = " ".join(PAGE.split())


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_what_is_said_about_two_kinds_of_networks_is_in_the_files() -> None:
    pairs = {(one["scheme"], one["seed"]): one["test"]["next_accuracy"] for one in read("mlm/result.json")["trials"]}
    runs = [one for one in read("glue/result.json")["runs"] if (one["task"], one["kind"]) == ("stsb", "pre-trained")]

    def pearson(name: str, seed: int) -> float:
        return fmean(one["test"]["pearson"] for one in runs if (one["name"], one["body"]) == (name, seed))

    better, worse = (1, 3), (0, 2, 4)
    told = [f"{pairs['A F', seed]:.1%}" for seed in (*better, *worse)]
    assert "tell in {} and {} of the held-out pairs".format(*told[:2]) in WORDS
    assert "stay at {}, {} and {}".format(*told[2:]) in WORDS
    reached = [f"{pearson('lie', seed):.3f}".lstrip("0") for seed in (*better, *worse)]
    assert "reach {} and {} on STS-B".format(*reached[:2]) in WORDS
    assert "and reach {}, {} and {}".format(*reached[2:]) in WORDS
    least = min(found for (scheme, _), found in pairs.items() if scheme != "A F")
    assert f"Macaron networks are above {least - 5e-4:.1%}" in WORDS
    assert min(pearson("macaron", seed) for seed in range(5)) > 0.823


def test_the_table_of_baselines_is_what_the_benchmark_wrote() -> None:
    tasks = read("baselines.json")["tasks"]
    shown = {
        "CoLA": "matthews",
        "SST-2": "accuracy",
        "MRPC": "f1 accuracy",
        "RTE": "accuracy",
        "STS-B": "pearson spearman",
    }
    for task, (title, names) in zip(tasks, shown.items(), strict=True):
        for way, figures in tasks[task].items():
            cells = ", ".join(f"{100 * figures[name]:.1f}" for name in names.split())
            assert f"| {title} | {way} | {cells} |\n" in PAGE


def test_the_table_of_throughput_is_what_the_benchmark_wrote() -> None:
    found = read("throughput.json")
    for row in found["rows"]:
        bar = "" if row["bar"] is None else f"{row['bar']:.2f}"
        figures = f"{row['real_tokens_per_second']:,.0f} | {row['ratio']:.2f} | {bar}"
        assert f"| {row['way']} | {row['text']} | {figures} |\n" in PAGE
    assert f"{found['share_of_real_tokens']['mixture']:.0%} of the tokens are real" in WORDS


def test_what_is_said_about_preparing_text_is_in_the_file() -> None:
    found = json.loads((ROOT / "results" / "prepare_text" / "result.json").read_text())
    assert found["bytes"] >= 1e9
    assert f"1 GB in {found['seconds']:.0f} s and {found['memory'] / 2**20:.0f} MiB" in WORDS

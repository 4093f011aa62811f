"""What the page on distillation shows is what its files say."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from splitstep import cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "distil"
PAGE = (ROOT / "docs" / "results" / "distil.md").read_text()
WORDS = " ".join(PAGE.split())
STUDIES = sorted(file.parent.name for file in FOLDER.glob("*/result.json") if "study" in json.loads(file.read_text()))


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_there_is_a_study() -> None:
    assert {"other", "tuned_other"} <= set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_verdicts_and_tables_are_what_the_command_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(FOLDER / name), "--markdown"]) == 0
    printed = capsys.readouterr().out.strip()
    assert len(printed) > 400
    assert printed in PAGE


def test_what_is_said_about_rates_is_in_the_files() -> None:
    losses = {
        pair: [read(f"rates/{pair}-{rate}.json")["valid"]["loss"] for rate in ("1e-4", "3e-4", "1e-3")]
        for pair in ("same", "other", "tuned_other")
    }
    for pair in ("other", "tuned_other"):
        assert losses[pair][0] == min(losses[pair])
        assert "were {:.3f}, {:.3f} and {:.3f} at 1e-4, 3e-4 and 1e-3".format(*losses[pair]) in WORDS
    assert losses["same"][2] == min(losses["same"])
    perplexity = read("rates/same-1e-3.json")["valid"]["perplexity"]
    assert f"is {losses['same'][2]:.3f}, a perplexity of {perplexity:.0f}" in WORDS
    guide = (ROOT / "docs" / "guide" / "distil.md").read_text()
    assert f"at a perplexity of {perplexity:.0f} after 1,000 updates" in " ".join(guide.split())


def test_what_is_said_about_the_pair_with_another_tokenizer_is_in_the_files() -> None:
    found, student = read("other/result.json"), read("student/result.json")
    runs = {(run["method"], run["seed"]): run["figures"] for run in found["runs"]}
    for seed in found["seeds"]:
        assert runs["uld-paper", seed]["rouge"] > runs["ce", seed]["rouge"]
        assert runs["sra", seed]["bits_per_byte"] < runs["ce", seed]["bits_per_byte"]
    ce, before = found["rows"][0], found["others"]["student before"]
    rise = ce["rouge"]["mean"] - before["rouge"]
    fall = before["bits_per_byte"] - ce["bits_per_byte"]["mean"]
    assert f"the mean ROUGE-L rises by {rise:.2f} points, and bits per byte fall by {fall:.3f}" in WORDS
    assert f"the mean of its own ROUGE-L is {found['others']['teacher']['rouge']:.2f}" in WORDS
    assert f"has {student['test']['bits_per_byte']:.3f} bits per byte on held-out text of enwik8" in WORDS
    assert f"after {student['best_step']:,} of {student['steps']:,} updates" in WORDS


def test_what_is_said_about_the_tuned_teacher_is_in_the_files() -> None:
    found, before = read("tuned_other/result.json"), read("other/result.json")
    teachers = [one["others"]["teacher"]["rouge"] for one in (found, before)]
    assert "has a mean ROUGE-L of {:.2f} in place of {:.2f}".format(*teachers) in WORDS
    runs = {(run["method"], run["seed"]): run["figures"] for run in found["runs"]}
    for seed in found["seeds"]:
        ce, uld, sra = (runs[method, seed] for method in ("ce", "uld-paper", "sra"))
        assert uld["rouge"] > ce["rouge"] > 0
        assert uld["bits_per_byte"] > ce["bits_per_byte"] > sra["bits_per_byte"]
    distances = [
        fmean(runs[method, seed]["distances"][-1]["distance"] for seed in found["seeds"]) for method in ("sra", "ce")
    ]
    kl = {row["method"]: row["kl"]["mean"] for row in found["rows"]}
    assert "have a distance (1 - CKA) of {:.3f} in place of {:.3f}".format(*distances) in WORDS
    assert f"the mean KL divergence is {kl['sra']:.3f} in place of {kl['ce']:.3f}" in WORDS
    teacher, student = read("tuned/result.json"), read("tuned_student/result.json")
    assert (
        f"a validation perplexity of {teacher['valid']['perplexity']:.2f} after its {teacher['steps']} updates" in WORDS
    )
    assert f"the student {student['test']['bits_per_byte']:.3f} bits per byte on held-out text" in WORDS


def test_what_the_readme_says_is_in_the_files() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    found = {(one["of"], one["what"]): one["found"] for one in read("tuned_other/result.json")["differences"]}
    gain = "raise ROUGE-L by {mean:.2f} points [{low:.2f}, {high:.2f}]".format(**found["uld-paper", "ROUGE-L"])
    assert gain in readme
    assert found["uld-paper", "bits per byte"]["low"] > 0 > found["sra", "bits per byte"]["high"]
    assert found["sra", "ROUGE-L"]["low"] < 0 < found["sra", "ROUGE-L"]["high"]

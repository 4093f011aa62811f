"""What the page on distillation shows is what its files say."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from splitstep import cli
from splitstep.experiments.study import STUDIES

read_distil = STUDIES["distil"].read


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "distil"
PAGE = (ROOT / "docs" / "results" / "distil.md").read_text()
WORDS = " ".join(PAGE.split())
COSTS = ("seconds", "loop_seconds", "memory")
STUDIES = sorted(file.parent.name for file in FOLDER.glob("*/result.json") if "study" in json.loads(file.read_text()))
IN_SHORT = ("tuned_other", "tuned_same")  # of which the page has the differences alone


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def runs_of(found: Any) -> dict[str, list[Any]]:
    """The figures of each method's runs, seed by seed."""
    return {row["method"]: [run["figures"] for run in found["runs"] if run["method"] == row["method"]]
            for row in found["rows"]}  # fmt: skip


def last_distance(figures: list[Any]) -> float:
    """The mean distance to the teacher after the last layer."""
    return fmean(one["distances"][-1]["distance"] for one in figures)


def points(found: Any, unit: str = "") -> str:
    return "{mean:+.2f}{} [{low:+.2f}, {high:+.2f}]".format(unit, **found)


def bits(found: Any) -> str:
    return "{mean:+.4f} [{low:+.4f}, {high:+.4f}]".format(**found)


def test_there_is_a_study() -> None:
    assert {"other", "tuned_other", "tuned_same", "pair_e", "pair_f"} <= set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_shown_as_it_is_stored(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Older files have the base minus the method in bits per byte."""
    if name not in IN_SHORT:
        assert cli.main(["report", str(FOLDER / name), "--markdown"]) == 0
        printed = capsys.readouterr().out.strip()
        assert len(printed) > 400
        assert printed in PAGE
    stored, shown = read(f"{name}/result.json"), read_distil(read(f"{name}/result.json"), name)
    assert [(one.question, one.answer) for one in shown.claims] == [
        (one["question"], one["answer"]) for one in stored["claims"]
    ]
    for one, made in zip(shown.claims, stored["differences"], strict=True):
        sign = "{:+.2f}" if made["what"] == "ROUGE-L" else "{:+.4f}"
        assert one.evidence.startswith(f"{made['of']} minus {made['to']} is {sign.format(made['found']['mean'])} ")
    sets = {key: one["rows"] for key, one in stored["data"]["sets"].items()}
    assert f"{sets['held out']} of the last 500" in WORDS
    assert f"the {sets['self-instruct']} of Self-Instruct" in WORDS


def test_what_is_said_about_rates_is_in_the_files() -> None:
    def found(pair: str, *rates: str) -> list[float]:
        return [read(f"rates/{pair}-{rate}.json")["valid"]["loss"] for rate in rates]

    losses = {pair: found(pair, "1e-4", "3e-4", "1e-3") for pair in ("same", "other", "tuned_other", "tuned_same")}
    for pair in ("other", "tuned_other", "tuned_same"):
        assert losses[pair][0] == min(losses[pair])
        assert "were {:.3f}, {:.3f} and {:.3f} at 1e-4, 3e-4 and 1e-3".format(*losses[pair]) in WORDS
    for pair in ("pair_e", "pair_f"):
        low, middle, high = found(pair, "3e-5", "1e-4", "3e-4")
        assert middle < min(low, high)
        assert f"were {low:.3f}, {middle:.3f} and {high:.3f} at 3e-5, 1e-4 and 3e-4" in WORDS
    assert losses["same"][2] == min(losses["same"])
    perplexity = read("rates/same-1e-3.json")["valid"]["perplexity"]
    assert f"is {losses['same'][2]:.3f}, a perplexity of {perplexity:.0f}" in WORDS
    guide = (ROOT / "docs" / "guide" / "distil.md").read_text()
    assert f"at a perplexity of {perplexity:.0f} after 1,000 updates" in " ".join(guide.split())


def test_what_is_said_about_the_pair_with_another_tokenizer_is_in_the_files() -> None:
    found, student = read("other/result.json"), read("student/result.json")
    runs = runs_of(found)
    for ce, uld, sra in zip(runs["ce"], runs["uld-paper"], runs["sra"], strict=True):
        assert uld["rouge"] > ce["rouge"]
        assert sra["bits_per_byte"] < ce["bits_per_byte"]
    ce, before = found["rows"][0], found["others"]["student before"]
    rise = ce["rouge"]["mean"] - before["rouge"]
    fall = before["bits_per_byte"] - ce["bits_per_byte"]["mean"]
    assert f"the mean ROUGE-L rises by {rise:.2f} points, and bits per byte fall by {fall:.3f}" in WORDS
    assert f"the mean of its own ROUGE-L is {found['others']['teacher']['rouge']:.2f}" in WORDS
    assert f"has {student['test']['bits_per_byte']:.3f} bits per byte on held-out text of enwik8" in WORDS
    assert f"after {student['best_step']:,} of {student['steps']:,} updates" in WORDS


def test_what_is_said_about_the_tuned_teacher_is_in_the_files() -> None:
    found, before = read("pair_f/result.json"), read("other/result.json")
    teachers = [one["others"]["teacher"]["rouge"] for one in (found, before)]
    assert "has a mean ROUGE-L of {:.2f} in place of {:.2f}".format(*teachers) in WORDS
    runs, rows = runs_of(found), {row["method"]: row for row in found["rows"]}
    assert len(found["seeds"]) == 4
    for ce, uld, sra in zip(runs["ce"], runs["uld-paper"], runs["sra"], strict=True):
        assert uld["rouge"] > ce["rouge"] > 0
        assert uld["bits_per_byte"] > ce["bits_per_byte"] > sra["bits_per_byte"]
    distances = [last_distance(runs[method]) for method in ("sra", "ce")]
    assert "have a distance (1 - CKA) of {:.3f} in place of {:.3f}".format(*distances) in WORDS
    assert f"divergence is {rows['sra']['kl']['mean']:.3f} in place of {rows['ce']['kl']['mean']:.3f}" in WORDS
    ended = [rows[method]["ended"]["mean"] for method in ("uld-paper", "ce")]
    assert "end more often: {:.1%} do, {:.1%} with `ce`".format(*ended) in WORDS
    teacher, student = read("pair_f_teacher/result.json"), read("pair_f_student/result.json")
    perplexity = teacher["valid"]["perplexity"]
    assert f"a validation perplexity of {perplexity:.2f} after its {teacher['steps']} updates" in WORDS
    assert f"the student {student['test']['bits_per_byte']:.3f} bits per byte on held-out text" in WORDS


def test_the_pair_with_the_wrong_end_gave_the_answers_that_are_quoted() -> None:
    wrong, right = read("tuned_other/result.json"), read("pair_f/result.json")
    answers = [[(one["question"], one["answer"]) for one in found["claims"]] for found in (wrong, right)]
    assert answers[0] == answers[1]
    uld, sra, uld_bits, sra_bits = (one["found"] for one in wrong["differences"])
    assert f"`uld-paper` minus `ce` was {points(uld, ' points')}" in WORDS
    assert f"`sra` minus `ce` {points(sra)}" in WORDS
    assert f"in bits per byte {bits(uld_bits)} and {bits(sra_bits)}" in WORDS


def test_what_is_said_about_the_cut_student_is_in_the_files() -> None:
    found = read("pair_e/result.json")
    runs, rows = runs_of(found), {row["method"]: row for row in found["rows"]}
    assert len(found["seeds"]) == 4
    for seed in range(4):
        ce, kl, skl = (runs[method][seed] for method in ("ce", "kl", "skl"))
        assert skl["rouge"] > kl["rouge"] > ce["rouge"]
        assert kl["bits_per_byte"] < ce["bits_per_byte"] < skl["bits_per_byte"]
        for base in ("kl", "skl"):
            assert runs[f"{base}+mta"][seed]["rouge"] < runs[base][seed]["rouge"]
            assert runs[f"{base}+mta"][seed]["bits_per_byte"] > runs[base][seed]["bits_per_byte"]
    ended = [rows[method]["ended"]["mean"] for method in ("skl", "ce")]
    assert "do not end more often: {:.1%} do, {:.1%} with `ce`".format(*ended) in WORDS
    (low, *_, high), (least, *_, most) = (sorted(one["rouge"] for one in runs[method]) for method in ("ce", "kl"))
    assert f"are between {low:.2f} and {high:.2f}, those of `kl` between {least:.2f} and {most:.2f}" in WORDS
    distance = {method: last_distance(own) for method, own in runs.items()}
    assert f"{distance['skl+mta']:.3f} and not {distance['skl']:.3f} with `skl`" in WORDS
    assert f"{distance['kl+mta']:.3f} and not {distance['kl']:.3f} with `kl`" in WORDS
    falls = [rows[base]["rouge"]["mean"] - rows[f"{base}+mta"]["rouge"]["mean"] for base in ("skl", "kl")]
    assert "by little: {:.2f} and {:.2f} points".format(*falls) in WORDS
    rise = rows["skl"]["rouge"]["mean"] - found["others"]["student before"]["rouge"]
    assert rise > 1
    assert f"to `skl`, the mean ROUGE-L rises by {rise:.2f} points" in WORDS
    cut, teacher = read("pair_e_student/result.json"), read("pair_e_teacher/result.json")
    assert f"a test perplexity of {cut['test']['perplexity']:.1f} on enwik8 after {cut['steps']:,} updates" in WORDS
    assert f"its validation perplexity is {teacher['valid']['perplexity']:.2f}" in WORDS
    assert cut["cost"]["parameters"] < teacher["cost"]["parameters"] / 2


def test_what_is_said_about_the_cut_student_with_the_wrong_end_is_in_the_files() -> None:
    found = read("tuned_same/result.json")
    kl, skl, mta, *in_bits = (one["found"] for one in found["differences"])
    assert f"`kl` minus `ce` was {points(kl, ' points')}, `skl` minus `ce` {points(skl)}" in WORDS
    assert f"`skl+mta` minus `skl` {points(mta)}; in bits per byte" in WORDS
    assert "{}, {} and {}.".format(*map(bits, in_bits)) in WORDS
    answers = {one["question"]: one["answer"] for one in found["claims"]}
    assert {answer for question, answer in answers.items() if question.startswith("kl ")} == {"supported"}
    assert {answer for question, answer in answers.items() if question.startswith("skl ")} == {"not supported"}
    lengths = [{one["who"]: len(one["text"]) for one in shown["answers"]} for shown in found["shown"]]
    assert len(lengths) == 6
    assert min(min(one["skl"], one["skl+mta"]) for one in lengths) > 1000
    assert f"the longest of `ce` has {max(one['ce'] for one in lengths)}" in WORDS


def test_what_is_said_about_the_cost_of_a_step_is_in_the_file() -> None:
    found = read("cost.json")
    ratios: dict[tuple[str, int], dict[str, Any]] = {}
    for one in found["ratios"]:
        ratios.setdefault((one["ratio"], one["batch"]), {})[one["of"]] = one
    with_bars = {key: of for key, of in ratios.items() if of["memory"]["bar"]}
    assert len(with_bars) == 8
    missed: set[tuple[str, int, str]] = set()
    for (name, batch), of in with_bars.items():
        cells = [f"`{name}`", str(batch), f"{of['FLOPs']['value']:.2f}"]
        cells += [f"{of[what]['value']:.2f} (bar {of[what]['bar']:.2f})" for what in COSTS]
        assert f"| {' | '.join(cells)} | {of['seconds']['rounds']} |" in PAGE
        missed |= {(name, batch, what) for what in COSTS if of[what]["value"] > of[what]["bar"]}
    assert missed == {("skl + mta / skl", 16, "loop_seconds")}
    assert ratios["skl + mta / skl", 16]["loop_seconds"]["rounds"] == 1
    saved = [of["seconds"]["value"] for key, of in ratios.items() if key not in with_bars]
    assert f"takes {min(saved):.2f} to {max(saved):.2f} of the time of an eager one" in WORDS
    times = {(row["method"], row["mode"]): 1e3 * row["seconds"] for row in found["rows"] if row["batch"] == 32}
    (sra, skl), (slow, slower) = ([times[one, mode] for one in ("sra", "skl")] for mode in ("capture", "eager"))
    assert f"`sra` {sra:.1f} ms and `skl` {skl:.1f} ms at batch 32, in place of {slow:.1f} and {slower:.1f}" in WORDS


def test_what_the_readme_says_is_in_the_files() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    found = {(one["of"], one["what"]): one["found"] for one in read("pair_f/result.json")["differences"]}
    gain = "raise ROUGE-L by {mean:.2f} points [{low:.2f}, {high:.2f}]".format(**found["uld-paper", "ROUGE-L"])
    assert gain in readme
    assert found["uld-paper", "bits per byte"]["low"] > 0 > found["sra", "bits per byte"]["high"]
    assert found["sra", "ROUGE-L"]["low"] < 0 < found["sra", "ROUGE-L"]["high"]
    same = {(one["of"], one["what"]): one["found"] for one in read("pair_e/result.json")["differences"]}
    assert "raises ROUGE-L by {mean:.2f} points [{low:.2f}, {high:.2f}]".format(**same["skl", "ROUGE-L"]) in readme
    assert same["kl", "bits per byte"]["high"] < 0 < same["skl", "bits per byte"]["low"]
    assert same["kl", "ROUGE-L"]["low"] < 0 < same["kl", "ROUGE-L"]["high"]
    for method in ("skl+mta", "kl+mta"):
        assert same[method, "ROUGE-L"]["high"] < 0 < same[method, "bits per byte"]["low"]

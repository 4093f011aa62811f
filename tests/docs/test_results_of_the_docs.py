"""What the pages on distillation, pretrained models and pre-training show is what their files say."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from commands import Capsys
from zoo import APART, schemes

from splitstep import cli
from splitstep.experiments.study import STUDIES

read_distil = STUDIES["distil"].read

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DISTIL_PAGE, INSPECT_PAGE, PRETRAIN_PAGE = (
    (ROOT / "docs" / "results" / f"{name}.md").read_text() for name in ("distil", "inspect", "pretrain")
)
DISTIL, INSPECT, PRETRAIN = (" ".join(page.split()) for page in (DISTIL_PAGE, INSPECT_PAGE, PRETRAIN_PAGE))
COSTS = ("seconds", "loop_seconds", "memory")
FOUND = sorted(
    file.parent.name for file in RESULTS.glob("distil/*/result.json") if "study" in json.loads(file.read_text())
)


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


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


@pytest.mark.parametrize("name", FOUND)
def test_a_study_is_read_as_it_is_stored(name: str) -> None:
    """Older files have the base minus the method in bits per byte."""
    stored, shown = read(f"distil/{name}/result.json"), read_distil(read(f"distil/{name}/result.json"), name)
    assert [(one.question, one.answer) for one in shown.claims] == [
        (one["question"], one["answer"]) for one in stored["claims"]
    ]
    for one, made in zip(shown.claims, stored["differences"], strict=True):
        sign = "{:+.2f}" if made["what"] == "ROUGE-L" else "{:+.4f}"
        assert one.evidence.startswith(f"{made['of']} minus {made['to']} is {sign.format(made['found']['mean'])} ")
    sets = {key: one["rows"] for key, one in stored["data"]["sets"].items()}
    assert f"{sets['held out']} of the last 500" in DISTIL
    assert f"the {sets['self-instruct']} of Self-Instruct" in DISTIL


def test_what_is_said_about_rates_is_in_the_files() -> None:
    def found(pair: str, *rates: str) -> list[float]:
        return [read(f"distil/rates/{pair}-{rate}.json")["valid"]["loss"] for rate in rates]

    losses = {pair: found(pair, "1e-4", "3e-4", "1e-3") for pair in ("same", "other", "tuned_other", "tuned_same")}
    for pair in ("other", "tuned_other", "tuned_same"):
        assert losses[pair][0] == min(losses[pair])
        assert "were {:.3f}, {:.3f} and {:.3f} at 1e-4, 3e-4 and 1e-3".format(*losses[pair]) in DISTIL
    for pair in ("pair_e", "pair_f"):
        low, middle, high = found(pair, "3e-5", "1e-4", "3e-4")
        assert middle < min(low, high)
        assert f"were {low:.3f}, {middle:.3f} and {high:.3f} at 3e-5, 1e-4 and 3e-4" in DISTIL
    assert losses["same"][2] == min(losses["same"])
    perplexity = read("distil/rates/same-1e-3.json")["valid"]["perplexity"]
    assert f"is {losses['same'][2]:.3f}, a perplexity of {perplexity:.0f}" in DISTIL
    guide = (ROOT / "docs" / "guide" / "distil.md").read_text()
    assert f"it had a perplexity of {perplexity:.0f} after 1,000 updates" in " ".join(guide.split())


def test_what_is_said_about_the_pair_with_another_tokenizer_is_in_the_files() -> None:
    found, student = read("distil/other/result.json"), read("distil/student/result.json")
    runs = runs_of(found)
    for ce, uld, sra in zip(runs["ce"], runs["uld-paper"], runs["sra"], strict=True):
        assert uld["rouge"] > ce["rouge"]
        assert sra["bits_per_byte"] < ce["bits_per_byte"]
    ce, before = found["rows"][0], found["others"]["student before"]
    rise = ce["rouge"]["mean"] - before["rouge"]
    fall = before["bits_per_byte"] - ce["bits_per_byte"]["mean"]
    assert f"the mean ROUGE-L rises by {rise:.2f} points, and bits per byte fall by {fall:.3f}" in DISTIL
    assert f"the mean of its own ROUGE-L is {found['others']['teacher']['rouge']:.2f}" in DISTIL
    assert f"has {student['test']['bits_per_byte']:.3f} bits per byte on held-out text of enwik8" in DISTIL
    assert f"after {student['best_step']:,} of {student['steps']:,} updates" in DISTIL


def test_what_is_said_about_the_tuned_teacher_is_in_the_files() -> None:
    found, before = read("distil/pair_f/result.json"), read("distil/other/result.json")
    teachers = [one["others"]["teacher"]["rouge"] for one in (found, before)]
    assert "has a mean ROUGE-L of {:.2f} instead of {:.2f}".format(*teachers) in DISTIL
    runs, rows = runs_of(found), {row["method"]: row for row in found["rows"]}
    assert len(found["seeds"]) == 4
    for ce, uld, sra in zip(runs["ce"], runs["uld-paper"], runs["sra"], strict=True):
        assert uld["rouge"] > ce["rouge"] > 0
        assert uld["bits_per_byte"] > ce["bits_per_byte"] > sra["bits_per_byte"]
    distances = [last_distance(runs[method]) for method in ("sra", "ce")]
    assert "have a distance (1 - CKA) of {:.3f} instead of {:.3f}".format(*distances) in DISTIL
    assert f"divergence is {rows['sra']['kl']['mean']:.3f} instead of {rows['ce']['kl']['mean']:.3f}" in DISTIL
    ended = [rows[method]["ended"]["mean"] for method in ("uld-paper", "ce")]
    assert "end more often: {:.1%} do, {:.1%} with `ce`".format(*ended) in DISTIL
    teacher, student = read("distil/pair_f_teacher/result.json"), read("distil/pair_f_student/result.json")
    perplexity = teacher["valid"]["perplexity"]
    assert f"a validation perplexity of {perplexity:.2f} after its {teacher['steps']} updates" in DISTIL
    assert f"the student {student['test']['bits_per_byte']:.3f} bits per byte on held-out text" in DISTIL


def test_the_pair_with_the_wrong_end_gave_the_answers_that_are_quoted() -> None:
    wrong, right = read("distil/tuned_other/result.json"), read("distil/pair_f/result.json")
    answers = [[(one["question"], one["answer"]) for one in found["claims"]] for found in (wrong, right)]
    assert answers[0] == answers[1]
    uld, sra, uld_bits, sra_bits = (one["found"] for one in wrong["differences"])
    assert f"`uld-paper` minus `ce` was {points(uld, ' points')}" in DISTIL
    assert f"`sra` minus `ce` {points(sra)}" in DISTIL
    assert f"in bits per byte {bits(uld_bits)} and {bits(sra_bits)}" in DISTIL


def test_what_is_said_about_the_cut_student_is_in_the_files() -> None:
    found = read("distil/pair_e/result.json")
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
    assert "do not end more often: {:.1%} do, {:.1%} with `ce`".format(*ended) in DISTIL
    (low, *_, high), (least, *_, most) = (sorted(one["rouge"] for one in runs[method]) for method in ("ce", "kl"))
    assert f"are between {low:.2f} and {high:.2f}, those of `kl` between {least:.2f} and {most:.2f}" in DISTIL
    distance = {method: last_distance(own) for method, own in runs.items()}
    assert f"{distance['skl+mta']:.3f} and not {distance['skl']:.3f} with `skl`" in DISTIL
    assert f"{distance['kl+mta']:.3f} and not {distance['kl']:.3f} with `kl`" in DISTIL
    falls = [rows[base]["rouge"]["mean"] - rows[f"{base}+mta"]["rouge"]["mean"] for base in ("skl", "kl")]
    assert "by little: {:.2f} and {:.2f} points".format(*falls) in DISTIL
    rise = rows["skl"]["rouge"]["mean"] - found["others"]["student before"]["rouge"]
    assert rise > 1
    assert f"to `skl`, the mean ROUGE-L rises by {rise:.2f} points" in DISTIL
    cut, teacher = read("distil/pair_e_student/result.json"), read("distil/pair_e_teacher/result.json")
    assert f"a test perplexity of {cut['test']['perplexity']:.1f} on enwik8 after {cut['steps']:,} updates" in DISTIL
    assert f"its validation perplexity is {teacher['valid']['perplexity']:.2f}" in DISTIL
    assert cut["cost"]["parameters"] < teacher["cost"]["parameters"] / 2


def test_what_is_said_about_the_cut_student_with_the_wrong_end_is_in_the_files() -> None:
    found = read("distil/tuned_same/result.json")
    kl, skl, mta, *in_bits = (one["found"] for one in found["differences"])
    assert f"`kl` minus `ce` was {points(kl, ' points')}, `skl` minus `ce` {points(skl)}" in DISTIL
    assert f"`skl+mta` minus `skl` {points(mta)}; in bits per byte" in DISTIL
    assert "{}, {} and {}.".format(*map(bits, in_bits)) in DISTIL
    answers = {one["question"]: one["answer"] for one in found["claims"]}
    assert {answer for question, answer in answers.items() if question.startswith("kl ")} == {"supported"}
    assert {answer for question, answer in answers.items() if question.startswith("skl ")} == {"not supported"}
    lengths = [{one["who"]: len(one["text"]) for one in shown["answers"]} for shown in found["shown"]]
    assert len(lengths) == 6
    assert min(min(one["skl"], one["skl+mta"]) for one in lengths) > 1000
    assert f"the longest of `ce` has {max(one['ce'] for one in lengths)}" in DISTIL


def test_what_is_said_about_the_cost_of_a_step_is_in_the_file() -> None:
    found = read("distil/cost.json")
    ratios: dict[tuple[str, int], dict[str, Any]] = {}
    for one in found["ratios"]:
        ratios.setdefault((one["ratio"], one["batch"]), {})[one["of"]] = one
    with_bars = {key: of for key, of in ratios.items() if of["memory"]["bar"]}
    assert len(with_bars) == 8
    missed: set[tuple[str, int, str]] = set()
    for (name, batch), of in with_bars.items():
        cells = [f"`{name}`", str(batch), f"{of['FLOPs']['value']:.2f}"]
        cells += [f"{of[what]['value']:.2f} (bar {of[what]['bar']:.2f})" for what in COSTS]
        assert f"| {' | '.join(cells)} | {of['seconds']['rounds']} |" in DISTIL_PAGE
        missed |= {(name, batch, what) for what in COSTS if of[what]["value"] > of[what]["bar"]}
    assert missed == {("skl + mta / skl", 16, "loop_seconds")}
    assert ratios["skl + mta / skl", 16]["loop_seconds"]["rounds"] == 1
    saved = [of["seconds"]["value"] for key, of in ratios.items() if key not in with_bars]
    assert f"takes {min(saved):.2f} to {max(saved):.2f} of the time of an eager one" in DISTIL
    times = {(row["method"], row["mode"]): 1e3 * row["seconds"] for row in found["rows"] if row["batch"] == 32}
    (sra, skl), (slow, slower) = ([times[one, mode] for one in ("sra", "skl")] for mode in ("capture", "eager"))
    assert f"`sra` {sra:.1f} ms and `skl` {skl:.1f} ms at batch 32, instead of {slow:.1f} and {slower:.1f}" in DISTIL


def test_the_verdict_and_the_table_are_what_the_command_prints(capsys: Capsys) -> None:
    assert cli.main(["report", str(RESULTS / "inspect" / "smollm2"), "--markdown"]) == 0
    printed = capsys.readouterr().out.strip()
    assert len(printed) > 1000
    assert printed in INSPECT_PAGE


def test_what_is_said_about_layers_is_in_the_file() -> None:
    found = read("inspect/smollm2/result.json")
    first = found["model"]["paths"][0]["norm"]
    assert f"jumps from {first[11][0]:,.0f} to {first[12][0]:,.0f}" in INSPECT
    assert f"no other token's exceeds {max(first[12][1:]):.0f}" in INSPECT
    ranks = [mean_of(found["model"], "rank", "effective centred", state) for state in (11, 12)]
    assert "falls from {:.0f} to {:.0f} there".format(*ranks) in INSPECT
    shares = [mean_of(found["model"], "jacobian", "complex", layer) for layer in (0, 29)]
    assert "from {:.0%} in the first layer to {:.0%} in the last".format(*shares) in INSPECT
    product = [mean_of(found[who], "products", "effective rank", -1) for who in ("model", "other")]
    assert "rank of {:.1f} of 576 in the trained network and {:.0f} in the random one".format(*product) in INSPECT
    random = [mean_of(found["other"], "jacobian", "J - I asymmetry", layer) for layer in range(30)]
    assert all(f"{one:.2f}" in ("1.41", "1.42") for one in random)


def mean_of(looked: Any, probe: str, name: str, place: int) -> float:
    [series] = [one for one in looked["series"] if (one["probe"], one["name"]) == (probe, name)]
    return fmean(float(row[place]) for row in series["figures"])


def test_the_table_of_tools_is_what_the_benchmark_wrote() -> None:
    tools = read("inspect/peers.json")["tools"]
    order = ["splitstep", "TransformerLens", "nnterp", "InterpKit"]
    for model in tools["splitstep"]["models"]:
        answers = [[tools[tool]["models"][model][std]["answer"] for std in ("0.02", "0.2")] for tool in order]
        cells = [one if one == other else f"{one} / {other}" for one, other in answers]
        assert f"| {model} | {' | '.join(cells)} |\n" in INSPECT_PAGE
    assert (
        f"| **right with both** | {' | '.join(str(tools[tool]['right_with_both']) for tool in order)} |" in INSPECT_PAGE
    )


def test_the_numbers_of_architectures_are_those_of_the_zoo() -> None:
    apart = sum(len(names.split()) for names in APART.values())
    assert f"has {len(schemes())} architectures; in {apart} of them" in INSPECT
    assert f"gives the reasons for the other {len(schemes()) - apart}." in INSPECT


def test_costs_are_what_the_benchmarks_measured_and_within_their_bars() -> None:
    for model, found in read("inspect/capture.json")["models"].items():
        for way, one in found["ways"].items():
            if way != "plain" and one.get("ratio_cpu") is not None:
                assert f"| {model} | {way} | {one['states']} | {one['ratio_cpu']:.3f} |" in INSPECT_PAGE
        assert found["ways"]["ours"]["ratio_cpu"] <= 1.10
    for name, one in read("inspect/cost.json")["probes"].items():
        cells = f"{one['before']:.3g} | {one['now']:.3g} | {one['ratio']:.2f} | {one['floor']:.3g} | {one['floor_is']}"
        assert f"| {name} | {cells} |" in INSPECT_PAGE
        assert one["difference"] <= 1e-5
        assert one["ratio"] <= 1.1


@pytest.mark.parametrize("name", ["default", "cut", "deep"])
def test_inspections_take_what_the_page_says(name: str) -> None:
    found = read("inspect/time.json")
    one, bars = found["commands"][name], found["bars"]
    assert one["seconds"] <= bars["seconds"][name]
    assert one["gib"] <= bars["gib"]
    cells = f"{one['seconds']:.0f} s | {one['gib']:.2f} GiB | {one['to_estimate']:.1f} s | {one['over_real']:.2f}"
    assert f"| {cells} |" in INSPECT_PAGE


def test_what_is_said_about_two_kinds_of_networks_is_in_the_files() -> None:
    pairs = {
        (one["scheme"], one["seed"]): one["test"]["next_accuracy"] for one in read("pretrain/mlm/result.json")["trials"]
    }
    runs = [
        one
        for one in read("pretrain/glue/result.json")["runs"]
        if (one["task"], one["kind"]) == ("stsb", "pre-trained")
    ]

    def pearson(name: str, seed: int) -> float:
        return fmean(one["test"]["pearson"] for one in runs if (one["name"], one["body"]) == (name, seed))

    better, worse = (1, 3), (0, 2, 4)
    told = [f"{pairs['A F', seed]:.1%}" for seed in (*better, *worse)]
    assert "predict correctly in {} and {} of the held-out pairs".format(*told[:2]) in PRETRAIN
    assert "stay at {}, {} and {}".format(*told[2:]) in PRETRAIN
    reached = [f"{pearson('lie', seed):.3f}".lstrip("0") for seed in (*better, *worse)]
    assert "reach {} and {} on STS-B".format(*reached[:2]) in PRETRAIN
    assert "and reach {}, {} and {}".format(*reached[2:]) in PRETRAIN
    least = min(found for (scheme, _), found in pairs.items() if scheme != "A F")
    assert f"Macaron networks are above {least - 5e-4:.1%}" in PRETRAIN
    assert min(pearson("macaron", seed) for seed in range(5)) > 0.823


def test_the_table_of_baselines_is_what_the_benchmark_wrote() -> None:
    tasks = read("pretrain/baselines.json")["tasks"]
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
            assert f"| {title} | {way} | {cells} |\n" in PRETRAIN_PAGE


def test_the_table_of_throughput_is_what_the_benchmark_wrote() -> None:
    found = read("pretrain/throughput.json")
    for row in found["rows"]:
        bar = "" if row["bar"] is None else f"{row['bar']:.2f}"
        figures = f"{row['real_tokens_per_second']:,.0f} | {row['ratio']:.2f} | {bar}"
        assert f"| {row['way']} | {row['text']} | {figures} |\n" in PRETRAIN_PAGE
    assert f"{found['share_of_real_tokens']['mixture']:.0%} of the tokens are real" in PRETRAIN


def test_what_is_said_about_preparing_text_is_in_the_file() -> None:
    found = json.loads((ROOT / "results" / "prepare_text" / "result.json").read_text())
    assert found["bytes"] >= 1e9
    assert f"1 GB in {found['seconds']:.0f} s and {found['memory'] / 2**20:.0f} MiB" in PRETRAIN

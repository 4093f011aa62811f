"""Pre-trained networks on GLUE: the whole command, the unit of its intervals, pairing, the rule, refusals."""

import json
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from commands import read_back
from made_up import trial
from made_up_glue import made_up
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from splitstep import cli
from splitstep.experiments.statistics import Estimate
from splitstep.experiments.trials import outcome_of
from splitstep.studies.glue import DEFAULT, glue, read_starts, settings
from splitstep.studies.glue import result as scored
from splitstep.studies.glue.bodies import Body
from splitstep.studies.glue.document import glue_verdict
from splitstep.studies.glue.result import LOSS, MEAN, WITHOUT, Arm, FineTuning, GlueResult, Kind, differences
from splitstep.training import read_recipe, train

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
QUICK = ["train.steps=2", "train.batch=4", "sst2.train.steps=3"]
TASKS = ["sst2", "stsb"]
FIGURES = {"cola": "matthews", "sst2": "accuracy", "mrpc": "f1", "rte": "accuracy", "stsb": "pearson"}


def starts_of(room: Path) -> str:
    return f"lie={room}/lie-[01],macaron={room}/macaron-0+{room}/macaron-1"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, inline: None) -> Path:
    """Text, GLUE's files and pre-trained runs of two schemes with the same two seeds."""
    folder, chosen = tmp_path_factory.mktemp("room"), random.Random(0)
    words = ["".join(random.Random(n).choices(SYLLABLES, k=2 + n % 2)) for n in range(400)]
    (folder / "text").mkdir()
    for number in range(300):
        start = chosen.randrange(400)
        text = " ".join(["he said sentence", *(words[(start + k) % 400] for k in range(4 + number % 50))])
        (folder / "text" / f"{number:03}.txt").write_text(text)
    for task in (*DEFAULT, "wnli"):
        made_up(folder / "data", task)
    for scheme in ("lie", "macaron"):
        for seed in range(2):
            train(read_recipe(masked(folder, scheme, seed), "it"), folder / f"{scheme}-{seed}", quiet=True)
    return folder


def masked(folder: Path, scheme: str, seed: int) -> dict[str, Any]:
    return {
        "task": "mlm", "scheme": scheme,
        "data": {"train": str(folder / "text"), "vocab_size": 300, "length": 32},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "token_types": 2},
        "train": {"steps": 2, "batch": 8, "warmup": 1, "seed": seed},
    }  # fmt: skip


@pytest.mark.slow
def test_the_whole_study_runs_once_and_is_read_back(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, asked = room / "glue", read_starts(starts_of(room))
    options: Any = {"changes": QUICK, "data": room / "data", "quiet": True, "tasks": TASKS}
    result = glue(asked, out, **options)
    assert len(result.runs) == 2 * 2 * 2 * 2  # schemes, bodies, fine-tunings, tasks
    assert {(run.task, run.steps) for run in result.runs} == {("sst2", 3), ("stsb", 2)}
    assert {(run.body, run.seed) for run in result.runs} == {(s, 1000 * s + k) for s in range(2) for k in range(2)}
    for row, name in zip(result.rows, ("lie", "macaron"), strict=True):
        own = [json.loads((room / f"{name}-{s}" / "result.json").read_text())["test"]["loss"] for s in range(2)]
        assert row.masked_loss
        assert (row.title, row.masked_loss.mean) == (name, pytest.approx(np.mean(own)))
    first = out / result.runs[0].folder
    assert json.loads((first / "environment.json").read_text())["start"]["loaded"] > 5
    assert not (first / "checkpoints").exists()
    monkeypatch.setattr("splitstep.experiments.running.open_engine", None)  # nothing may be run again
    assert glue(asked, out, **options).rows == result.rows
    page = result.save(out).read_text()
    assert read_back(out) == result
    assert "The claim that macaron has a higher GLUE mean than lie is undecided" in page
    assert page.count("<h3") >= 3


@pytest.mark.slow
def test_scratch_has_the_tokens_and_the_shape_of_the_start_but_none_of_its_weights(room: Path) -> None:
    starts = read_starts(f"macaron={room}/macaron-1/model")  # a run's model folder is known by its run
    options: Any = {"seeds": 1, "tasks": ["wnli"], "changes": QUICK[:2], "data": room / "data", "quiet": True}
    result = glue(starts, room / "scratch", scratch=True, **options)
    assert [row.title for row in result.rows] == ["macaron", "macaron from scratch"]
    trained, scratch = (room / "scratch" / run.folder for run in result.runs)
    assert (trained / "model" / "config.json").read_text() == (scratch / "model" / "config.json").read_text()
    told = [json.loads((folder / "environment.json").read_text()) for folder in (trained, scratch)]
    assert told[0]["data"]["tokenizer_sha256"] == told[1]["data"]["tokenizer_sha256"]
    assert "start" not in told[1]
    assert (result.runs[0].body, result.in_mean, result.rows[0].mean) == (1, (), None)


@pytest.mark.slow
def test_a_comparison_s_folder_stands_for_its_finished_runs(room: Path) -> None:
    folder = room / "pretrain"
    for number, name in enumerate(("lie-0", "lie-1", "macaron-1", "macaron-0")):
        shutil.copytree(room / name, folder / "runs" / f"run{number}")
    (folder / "runs" / "run3" / "result.json").unlink()
    found = read_starts(str(folder))
    runs = {name: [Path(path).name for path in paths] for name, paths in found.items()}
    assert runs == {"lie": ["run0", "run1"], "macaron": ["run2"]}


def tuned(
    name: str, body: int, value: float, task: str = "sst2", kind: Kind = "pre-trained", **more: Any
) -> FineTuning:
    one = trial("A F", body, value)
    figures = dict.fromkeys(("matthews", "accuracy", "f1", "pearson", "spearman"), value)
    entries = {**outcome_of(one), "valid": figures, "test": figures, "setting": (), "folder": f"runs/{name}-{body}"}
    return FineTuning(**{**entries, **more}, task=task, name=name, kind=kind, body=body)


def arm(runs: list[FineTuning], name: str = "lie", in_mean: Sequence[str] = ("sst2",)) -> Arm:
    return Arm(name, "pre-trained", runs, [], in_mean)


def test_the_pre_training_seed_is_the_unit_of_the_interval() -> None:
    random = np.random.default_rng(0)
    values = random.uniform(0.6, 0.9, (5, 2))  # bodies, fine-tunings
    runs = [tuned("lie", s, values[s, k]) for s in range(5) for k in range(2)]
    found = arm(runs).on_task("sst2").score
    own = 100 * values.mean(1)
    low, high = stats.t.interval(0.95, 4, own.mean(), stats.sem(own))
    assert found == pytest.approx(Estimate(own.mean(), low, high, 5))
    one = arm(runs[:2]).on_task("sst2").score
    assert one == pytest.approx(Estimate(own[0], None, None, 1))  # two fine-tunings of one body have no interval


def test_the_mean_is_that_of_scores_and_of_bodies_that_have_all() -> None:
    runs = [tuned("lie", s, 0.1 * (i + s), task) for s in range(3) for i, task in enumerate(FIGURES)]
    runs += [tuned("lie", 3, 0.5, "sst2"), tuned("lie", 0, 0.9, "wnli")]
    means = arm(runs, in_mean=DEFAULT).figures[MEAN].values
    assert means == pytest.approx({s: 100 * np.mean([0.1 * (i + s) for i in range(5)]) for s in range(3)})
    assert scored.points({"f1": 0.8, "accuracy": 0.7, "loss": 9.0}, scored.figures_of("mrpc")) == pytest.approx(75.0)
    assert scored.points({"pearson": 0.6, "spearman": 0.5}, scored.figures_of("stsb")) == pytest.approx(55.0)


def test_differences_are_paired_by_pre_training_seed() -> None:
    own, other = {0: 0.7, 1: 0.8, 2: 0.75, 7: 0.2}, {0: 0.6, 1: 0.72, 2: 0.7, 5: 0.9}
    runs = [tuned(name, s, x) for name, found in (("lie", other), ("macaron", own)) for s, x in found.items()]
    bodies = [Body(name, "A F", s, "", held_out={"loss": 2.0 + s}) for name in ("lie", "macaron") for s in range(3)]
    arms = [Arm(name, "pre-trained", runs, bodies, ["sst2"]) for name in ("lie", "macaron")]
    found = {one.what: one for one in differences(arms, "lie")}
    gaps = 100 * np.array([0.1, 0.08, 0.05])
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    assert found[MEAN].found == pytest.approx(Estimate(gaps.mean(), low, high, 3))
    assert (found[MEAN].seeds, found[MEAN].of, found[MEAN].to) == ((0, 1, 2), "macaron", "lie")
    assert found[LOSS].found == Estimate(0.0, None, None, 3)


def test_the_mean_without_a_task_is_that_of_all_others() -> None:
    """Of made-up runs in which one task alone makes the difference."""
    noise = np.random.default_rng(0).uniform(0, 0.05, (2, 5, 5))
    noise[1, :, list(FIGURES).index("stsb")] += 0.3
    runs = [
        tuned(name, s, 0.5 + noise[n, s, i], task)
        for n, name in enumerate(("lie", "macaron")) for s in range(5) for i, task in enumerate(FIGURES)
    ]  # fmt: skip
    lie, macaron = (arm(runs, name, DEFAULT).figures for name in ("lie", "macaron"))
    for i, task in enumerate(FIGURES):
        gaps = 100 * np.delete(noise[1] - noise[0], i, 1).mean(1)
        low, high = stats.t.interval(0.95, 4, gaps.mean(), stats.sem(gaps))
        found = macaron[WITHOUT + task].minus(lie[WITHOUT + task])
        assert found == pytest.approx(Estimate(gaps.mean(), low, high, 5))


def test_settings_are_chosen_on_valid_and_never_on_dev() -> None:
    low, high = {"accuracy": 0.6}, {"accuracy": 0.9}
    good_on_dev = [tuned("lie", s, 0, setting=("a=1",), valid=low, test=high) for s in range(2)]
    good_on_valid = [tuned("lie", s, 0, setting=("a=2",), valid=high, test=low) for s in range(2)]
    failed = [replace(one, status="diverged") for one in good_on_valid]
    assert arm([*good_on_dev, *good_on_valid]).on_task("sst2").setting == ("a=2",)
    assert arm([*good_on_dev, *failed]).on_task("sst2").setting == ("a=1",)


def comparison_of(values: Mapping[str, float], losses: Mapping[str, float], kinds: list[Kind]) -> list[str]:
    """The answers for five seeds whose scores and losses are these in the mean, and spread a little."""
    spread = [-0.002, -0.001, 0.0, 0.001, 0.002]
    runs = [
        tuned(name, s, values[name] + (0.01 * s if name == "macaron" else 0) * spread[s] - 0.3 * (kind == "scratch")
              * (1 + spread[s]), task, kind)
        for name in values for kind in kinds for s in range(5) for task in DEFAULT
    ]  # fmt: skip
    schemes = {"lie": "A F", "macaron": "F0/2 A F1/2"}
    bodies = [
        Body(name, schemes[name], s, "", held_out={"loss": losses[name] + (name == "lie") * spread[s], "accuracy": 0.5})
        for name in values for s in range(5)
    ]  # fmt: skip
    arms = [Arm(name, kind, runs, bodies, DEFAULT) for kind in kinds for name in values]
    rows = [one.row() for one in arms]
    base = scored.base_of([(row.name, row.scheme) for row in rows])
    claims = scored.claims_of(rows, differences(arms, base), DEFAULT)
    return [f"{claim.question}: {claim.answer}" for claim in claims]


def test_the_claims_are_about_macaron_minus_lie_whatever_was_named_first() -> None:
    found = comparison_of({"macaron": 0.65, "lie": 0.63}, {"macaron": 2.1, "lie": 2.0}, ["pre-trained", "scratch"])
    assert found == [
        "macaron has a higher GLUE mean than lie: supported",
        "macaron has a lower held-out masked loss than lie: not supported",
        "pre-training helps macaron on SST-2: helps",
        "pre-training helps macaron on STS-B (Pearson): helps",
        "pre-training helps lie on SST-2: helps",
        "pre-training helps lie on STS-B (Pearson): helps",
    ]
    low = comparison_of({"lie": 0.5, "macaron": 0.501}, {"lie": 2.0, "macaron": 2.0}, ["pre-trained"])
    assert low[-1] == "STS-B is above word overlap (0.62 Pearson): not supported"


def test_the_majority_is_that_of_scikit_learn() -> None:
    labels = np.array([0, 1, 1, 1, 0, 1])
    for guess in (0, 1):
        found, said = scored.constant_figures(guess, labels, 2), np.full(6, guess)
        expected = accuracy_score(labels, said), f1_score(labels, said), matthews_corrcoef(labels, said)
        assert (found["accuracy"], found["f1"], found["matthews"]) == pytest.approx(expected)
    numbers = cast(Any, SimpleNamespace(labels=()))
    assert scored.majority_of("stsb", numbers).figures == {"pearson": 0.0, "spearman": 0.0}


def test_the_paper_s_grid_is_in_epochs_of_each_task() -> None:
    task = cast(Any, SimpleNamespace(examples={"train": SimpleNamespace(labels=np.zeros(1000))}))
    found = settings([], "paper", task)
    assert len(found) == len(set(found)) == 12
    assert found[0] == ("train.batch=16", "train.steps=188", "train.lr=3e-05")
    assert ("train.batch=32", "train.steps=157", "train.lr=5e-05") in found


def test_one_name_alone_is_not_compared() -> None:
    runs = [tuned("lie", s, 0.5 + 0.01 * s, task) for s in range(3) for task in DEFAULT]
    row = Arm("lie", "pre-trained", runs, [Body("lie", "A F", s, "") for s in range(3)], DEFAULT).row()
    verdict = glue_verdict(cast(GlueResult, SimpleNamespace(rows=(row,), differences=(), claims=())))
    assert verdict.sentence.startswith("lie has a GLUE mean of 51.00 points (95% interval 48.52 to 53.48)")


@pytest.mark.parametrize(("starts", "more", "said"), [
    ("lie={0}/nowhere", {}, "nowhere holds no model: name a finished run"),
    ("lie={0}/nowhere-*", {}, "nothing matches"),
    ("{0}/lie-0", {}, "is neither NAME=RUN nor a comparison's directory"),
    ("lie=", {}, "lacks a name or a path"),
    ("lie={0}/lie-0,lie={0}/lie-1", {}, "--start names lie twice: join its paths by +"),
    ("lie={0}/lie-0+{0}/lie-0", {}, "both have seed 0"),
    ("all={0}/lie-0+{0}/macaron-1", {}, "differ in scheme or shape: give each a name of its own"),
    ("lie={0}/odd-scheme", {}, "is damaged ("),
    ("lie={0}/no-tokenizer", {}, "holds no tokenizer.json"),
    ("lie={0}/lie-0,other={0}/other-tokens", {}, "have different tokens: pre-train both on the same text"),
    ("lie={0}/lie-0", {"tasks": ["sst"]}, "'sst' is not a task of GLUE. Did you mean sst2?"),
    ("lie={0}/lie-0", {"tasks": ["rte", "rte"]}, "rte is listed twice"),
    ("lie={0}/lie-0", {"tasks": ["rte"], "changes": ["sst2.train.lr=1"]}, "is for sst2, which is not among"),
    ("lie={0}/lie-0", {"changes": ["train.seed=1"]}, "compare glue sets train.seed itself"),
    ("lie={0}/lie-0", {"sweep": ["data.name=rte,sst2"]}, "compare glue sets data.name itself"),
    ("lie={0}/lie-0", {"changes": ["data.valid=dev"]}, 'data has no option "valid"'),
    ("lie={0}/lie-0", {"seeds": 0}, "--seeds 0: give at least 1"),
    ("lie={0}/lie-0", {"grid": "papers"}, "--grid papers is unknown: write --grid paper"),
    ("lie={0}/lie-0", {"grid": "paper", "sweep": ["train.lr=1,2"]}, "leave one of them out"),
])  # fmt: skip
def test_refusals_are_one_line(room: Path, starts: str, more: dict[str, Any], said: str) -> None:
    make_odd(room)
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        glue(read_starts(starts.format(room)), room / "refused", data=room / "data", quiet=True, **more)
    assert "\n" not in str(caught.value)
    assert not (room / "refused").exists()


def make_odd(folder: Path) -> None:
    """Models that cannot be started from: of an unknown scheme, without a tokenizer, with another one."""
    if (folder / "odd-scheme").exists():
        return
    for name in ("odd-scheme", "no-tokenizer", "other-tokens"):
        shutil.copytree(folder / "lie-0" / "model", folder / name)
    config = folder / "odd-scheme" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"scheme": "F7 Q"}))
    (folder / "no-tokenizer" / "tokenizer.json").unlink()
    tokens = folder / "other-tokens" / "tokenizer.json"
    document = json.loads(tokens.read_text())
    vocabulary = document["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    vocabulary["zzzzzz"] = vocabulary.pop(last)
    tokens.write_text(json.dumps(document))


@pytest.mark.slow
def test_the_verb_writes_what_report_reads(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(room / "verb")
    words = ["compare", "glue", *QUICK[:2], "--start", f"lie={room}/lie-0", "--tasks", "sst2", "--seeds", "1"]
    words += ["--sweep", "sst2.train.lr=1e-3,1e-2", "--data", str(room / "data"), "--out", out]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert "One pre-training seed for each name gives no interval" in " ".join(first.split())
    assert cli.main(words) == 0
    again = capsys.readouterr()
    assert (again.out, again.err.count("from an earlier call")) == (first, 2)
    assert cli.main(["report", out, "--markdown"]) == 0
    assert re.search(r"^\| lie \| \d+\.\d\d \(one seed\) \|", capsys.readouterr().out, re.M)

"""Recipes: every file parses; every wrong key, type or value is one error that says what to type."""

import dataclasses
import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from splitstep.options import evaluates, snapshot_steps
from splitstep.recipes import FOLDER, find_recipe, list_recipes
from splitstep.tasks import TASKS, task
from splitstep.training import Recipe, TrainOptions, load_recipe, override, read_recipe
from splitstep.training.networks import build_model

FILES = sorted(FOLDER.glob("*.yaml"))
OWN_FILES = {"translate": ["data.train=[my.en, my.de]"]}  # what a recipe leaves to its user
MINIMAL: dict[str, Any] = {"task": "digits"}
MEAN = {"steps": 8, "keep": "average"}


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_recipe_parses(file: Path) -> None:
    """Keys, types, options of task, model and training: all that needs no data."""
    recipe = load_recipe(str(file), OWN_FILES.get(file.stem, []))
    assert recipe.task in TASKS
    assert read_recipe({**recipe.document(), "about": {"what": "it"}}, "again") == recipe  # words change no run
    assert yaml.safe_load(yaml.safe_dump(recipe.document())) == recipe.document()


@pytest.mark.parametrize(("document", "needle"), [
    ({"taks": "digits"}, 'has no entry "taks"; did you mean "task"?'),
    ({}, "names no task: add `task: NAME`"),
    ({"task": 3}, "task is 3, and needs text"),
    ({"task": "digits", "data": {"pach": 2}}, 'data has no option "pach"; did you mean "patch"?'),
    ({"task": "digits", "data": {"patch": "two"}}, "option patch is 'two', and needs a whole number"),
    ({"task": "digits", "model": {"layer": 2}}, 'the model has no entry "layer"; did you mean "layers"?'),
    ({"task": "digits", "model": {"layers": "two"}}, "model: layers is 'two', and needs a whole number"),
    ({"task": "digits", "model": {"vocab_size": 3}}, 'the model has no entry "vocab_size"'),
    ({"task": "digits", "model": {"leters": {}}}, 'r.yaml: the model has no entry "leters"; did you mean "letters"?'),
    ({"task": "digits", "model": {"letters": {"D": {"alhpa": 1}}}}, 'model: letters.D has no option "alhpa"; did you'),
    ({"task": "digits", "model": {"letters": {"D": 1}}}, "r.yaml: model: letters.D is 1, and needs entries of its own"),
    ({"task": "digits", "model": {"letters": 1}}, "r.yaml: model: letters is 1, and needs entries of its own"),
    ({"task": "digits", "model": {"letters": 1, "diffusion": 1}}, "letters is 1, and needs entries of its own"),
    ({"task": "digits", "model": {"letters": {"Z": {}}}}, 'model: there is no letter "Z"; the letters are A, F, C'),
    ({"task": "digits", "train": {"stpes": 5}}, 'train has no option "stpes"; did you mean "steps"?'),
    ({"task": "digits", "train": {"steps": True}}, "option steps is True, and needs a whole number"),
    ({"task": "digits", "train": {"steps": "x" * 100}}, f"steps is '{'x' * 76}..., and needs a whole number"),
    ({"task": "digits", "train": {"schedule": "cosin"}}, "option schedule is 'cosin', and needs \"cosine\" or"),
    ({"task": "digits", "train": {"betas": [0.9]}}, "option betas is [0.9], and needs two numbers"),
    ({"task": "digits", "train": {"betas": [0.9, 1.0]}}, "option betas is 1.0, and needs a number at least 0"),
    ({"task": "digits", "train": {"lr": 0}}, "option lr is 0.0, and needs a number above 0 and finite"),
    ({"task": "digits", "train": {"batch": 10, "accumulate": 3}}, "must be divisible by accumulate, 3"),
    ({"task": "digits", "train": {"seed": 2**63}}, f"train.seed is {2**63}, and needs a number below 2^63"),
    ({"task": "listops", "data": {"seed": 2**63}}, f"data.seed is {2**63}, and needs a number below 2^63"),
    ({"task": "digits", "train": {"clip": float("nan")}}, "option clip is nan"),
    ({"task": "digits", "model": {"ffn": [9, 10**20]}}, f"model.ffn is {10**20}, and needs a number below 2^63"),
    ({"task": "digits", "train": {"batch": 10**12}}, "option batch is 1000000000000, and needs at most 10,000,000"),
    ({"task": "digits", "train": 0}, "train is 0, and needs entries of its own"),
    ({"task": "text", "data": {"path": ["a", 3]}}, "option train[1] is 3, and needs text"),
    ({"task": "digits", "scheme": "F0/2 A ("}, "("),
    ({"task": "digits", "match": "flop"}, '"parameters" or "flops" or "none"; did you mean "flops"?'),
    ("digits", "is not a recipe"),
    ({"task": "digits", "objective": "tsk"}, 'there is no objective "tsk"; did you mean "task"?'),
    ({"task": "digits", "objective": {"weight": 1}}, "needs a name: one of "),
    ({"task": "digits", "objective": 3}, "objective is 3, and needs text or entries of its own"),
    ({"task": "digits", "about": 3}, "about is 3, and needs entries of its own"),
    ({"task": "digits", "about": {}}, "about has no what"),
    ({"task": "digits", "about": {"what": "", "second": 3}}, 'no entry "second"; did you mean "seconds"?'),
    ({"task": "digits", "about": {"what": 3}}, "about.what is 3, and needs text"),
    ({"task": "digits", "train": {**MEAN, "average": 5, "average_every": 2}}, "add train.average_every=1 (all 5"),
    ({"task": "digits", "train": {**MEAN, "average": 4, "evaluate_every": 3}}, "hold only 3 snapshots at each ev"),
    ({"task": "digits", "train": {**MEAN, "average": 9}}, "at each evaluation: add train.average=8"),
    ({"task": "digits", "train": {"average": 0}}, "option average is 0, and needs at least 1"),
    ({"task": "digits", "train": {"lr": 0.1, "warmup_from": 0.5}}, "warmup_from is 0.5, and must be at most lr, "),
], ids=str)  # fmt: skip
def test_wrong_entries(document: Any, needle: str) -> None:
    with pytest.raises(ValueError, match=re.escape(needle)) as caught:
        read_recipe(document, "r.yaml")
    assert "\n" not in str(caught.value)


def test_large_recipes_are_read() -> None:
    """A deep network, a large batch, any seed, and steps without end, whose snapshots are known at once."""
    model = {"layers": 1000, "width": 16384, "heads": 128, "ffn": 65536}
    train = {"batch": 10**6, "seed": 2**63 - 1, "steps": 10**15, "keep": "average"}
    recipe = read_recipe({**MINIMAL, "model": model, "train": train}, "r")
    assert snapshot_steps(recipe.train) == tuple(range(10**14, 10**15 + 1, 10**14))


@pytest.mark.parametrize(("steps", "every"), [(7, 0), (10, 3), (103, 0), (9, 3), (1, 5)])
def test_snapshots_are_at_the_last_evaluations(steps: int, every: int) -> None:
    options = TrainOptions(steps=steps, evaluate_every=every, keep="average", average=1)
    evaluated = tuple(step for step in range(1, steps + 1) if evaluates(options, step))
    assert snapshot_steps(dataclasses.replace(options, average=len(evaluated))) == evaluated


@pytest.mark.parametrize(("assignment", "where", "value"), [
    ("train.lr=3e-4", ("train", "lr"), 3e-4),
    ("train.lr=.5e+2", ("train", "lr"), 50.0),
    ("train.steps=20000", ("train", "steps"), 20000),
    ("train.betas=[0.9, 9.5e-1]", ("train", "betas"), [0.9, 0.95]),
    ("model.bias=false", ("model", "bias"), False),
    ("data.train=null", ("data", "train"), None),
    ("data.path=a=b.txt", ("data", "path"), "a=b.txt"),
    ("scheme=1/2(A F) + 1/2(F A) @heun", ("scheme",), "1/2(A F) + 1/2(F A) @heun"),
    ("reference=b:(A+F)/2 a:A+F b:(A+F)/2", ("reference",), "b:(A+F)/2 a:A+F b:(A+F)/2"),
    ("data.template=Q: {prompt} A: ", ("data", "template"), "Q: {prompt} A: "),
    ('data.template="Q: {prompt}\\nA: "', ("data", "template"), "Q: {prompt}\nA: "),
])  # fmt: skip
def test_overrides(assignment: str, where: tuple[str, ...], value: object) -> None:
    before = {"task": "digits", "train": {"steps": 3, "warmup": 1}, "model": None}
    found: Any = override(before, [assignment])
    for key in where:
        found = found[key]
    assert found == value
    assert type(found) is type(value)
    assert before == {"task": "digits", "train": {"steps": 3, "warmup": 1}, "model": None}


@pytest.mark.parametrize(("assignment", "needle"), [
    ("train.lr", "is not of the form key=value"),
    ("=3", "is not of the form"),
    ("a.b.c=3", "is not of the form"),
    ("train.=3", "is not of the form"),
    ("train.lr=[1", "is not a YAML value"),
    ("task.name=3", "task has no entries of its own"),
])  # fmt: skip
def test_wrong_overrides(assignment: str, needle: str) -> None:
    with pytest.raises(ValueError, match=re.escape(needle)):
        override(MINIMAL, [assignment])


def test_a_row_and_its_notation_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("task: digits\nscheme: macaron\ntrain: {lr: 3e-4, betas: [9e-1, 0.99]}\nmodel:\n")
    rows = load_recipe(str(tmp_path / "r.yaml"), ["train.steps=5"])
    train = {"steps": 5, "lr": 3e-4, "betas": [0.9, 0.99]}
    notations = read_recipe({**MINIMAL, "scheme": " F0/2   A F1*1/2", "reference": "A F", "train": train}, "r")
    assert rows == notations == Recipe("digits", "macaron", train=TrainOptions(steps=5, lr=3e-4, betas=(0.9, 0.99)))
    assert rows.document() == notations.document()
    assert rows.document()["scheme"] == "F0/2 A F1/2"


@pytest.mark.parametrize(
    ("content", "needle"),
    [(b"- digits\n", "is not a recipe"), (b"", "is not a recipe"), (b"task: [", "is not YAML"), (b"\xff\xfe", "UTF-8")],
)
def test_files_that_are_no_recipe(content: bytes, needle: str, tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=needle) as caught:
        load_recipe(str(file))
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_is_found_by_name_from_any_folder_and_a_file_of_that_path_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_recipe("digits") == load_recipe(str(FOLDER / "digits.yaml"))
    (tmp_path / "digits").mkdir()  # such as a run of that name
    assert find_recipe("digits") == FOLDER / "digits.yaml"
    (tmp_path / "listops").write_text("task: digits\n")
    assert load_recipe("listops") == Recipe("digits")


BUILT_IN = ("digits", "listops", "numbers", "stdlib")


@pytest.mark.parametrize("one", list_recipes(), ids=lambda one: one.name)
def test_what_a_recipe_says_of_itself_is_what_was_measured(one: Any) -> None:
    about = one.about
    assert (about.seconds is None) == (about.machine is None) == (about.measured is None)
    if about.measured:
        result = json.loads((Path(__file__).parents[2] / about.measured).read_text())
        runs = [run for run in result.get("trials", [result]) if is_of_recipe(run)]
        assert about.seconds == round(fmean(run["seconds"] for run in runs))
        assert {run["cost"]["parameters"] for run in runs} == {about.parameters}
        assert {run["device"].replace("threads", "thread") for run in runs} == {about.machine}
        assert {run["steps"] for run in runs} == {load_recipe(one.name).train.steps}
    if one.name in BUILT_IN:
        recipe = load_recipe(one.name)
        model = build_model(recipe, recipe.load_task())
        assert about.parameters == sum(p.numel() for p in model.parameters())


def is_of_recipe(run: dict[str, Any]) -> bool:
    """Whether it is a run of the scheme lie as the recipe has it; one of a sweep's settings may be the recipe's own."""
    scheme = run["scheme"] if isinstance(run["scheme"], str) else run["scheme"]["notation"]
    return scheme == "A F" and run.get("setting", []) in ([], ["model.rotary_bias=0"])


def test_the_model_cannot_contradict_its_data() -> None:
    data = {"train": 20, "valid": 5, "test": 5}
    listops = task("listops", data, None)
    for entries in ({"vocab_size": 3}, {"max_positions": 3}):
        recipe = read_recipe({"task": "listops", "data": data, "model": entries}, "r")
        with pytest.raises(ValueError, match="leave it out of the recipe"):
            recipe.config(listops)
    more = read_recipe({"task": "listops", "data": data, "model": {"max_positions": 128}}, "r")
    assert more.config(listops).max_positions == 128


def test_the_twin_is_matched_and_without_a_match_the_shape_is_the_schemes_own() -> None:
    digits = task("digits", {}, None)
    shape = {"layers": 2, "width": 32, "heads": 2, "ffn": 64}
    reference = read_recipe({**MINIMAL, "model": shape}, "r").config(digits)
    same = read_recipe({**MINIMAL, "model": shape, "scheme": "macaron", "match": "none"}, "r").config(digits)
    matched = read_recipe({**MINIMAL, "model": shape, "scheme": "macaron"}, "r").config(digits)
    assert (reference.ffn, same.ffn, sum(matched.ffn)) == (64, 64, 125)  # three biases a layer, not two
    assert same.matched is None
    assert matched.matched is not None
    document = {**MINIMAL, "model": {**shape, "ffn": [16, 48, 24, 40]}, "scheme": "macaron"}  # two a layer
    assert read_recipe({**document, "match": "none"}, "r").config(digits).ffn == [16, 48, 24, 40]
    with pytest.raises(ValueError, match="r: model: ffn lists 4 widths; this network has 2 feed-forward fields"):
        read_recipe(document, "r")


def test_the_documented_defaults_are_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "training.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.M))
    assert rows == {
        f.name: str(list(f.default) if isinstance(f.default, tuple) else f.default)
        for f in dataclasses.fields(TrainOptions)
    }

    [text] = re.findall(r"```yaml\n(.*?)```", page, re.S)
    assert str(read_recipe(yaml.safe_load(text), "docs").scheme) == "F0/2 A F1/2"

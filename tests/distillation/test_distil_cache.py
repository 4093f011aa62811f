"""A cache says what the teacher says: exactly if all logits are kept, and after a kill; others' caches are refused."""

import json
import shutil
import signal
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from children import Child
from distil_pairs import bpe, gpt2, instructions, llama, recipe, saved, three_models

from splitstep.distillation import teacher
from splitstep.distillation.cache import text_sha256
from splitstep.distillation.objective import Distillation, distil, write_cache_for
from splitstep.distillation.teacher import CachedTeacher
from splitstep.opening import open_model
from splitstep.training import read_recipe

Document = dict[str, Any]
Cached = Callable[..., Document]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = three_models(tmp_path_factory.mktemp("pairs"))
    saved(llama(bpe(), 4, 16, seed=7), bpe(), folder / "another")
    instructions(folder / "text.jsonl", 40)
    instructions(folder / "more.jsonl", 41)
    return folder


@pytest.fixture
def cached(place: Path, tmp_path: Path) -> Cached:
    """The document of a run with a cache in a folder of the test."""
    return lambda method, student="student", name="c", **more: recipe(
        place, method, student, cache=str(tmp_path / name), **more
    )


def objective(given: Document) -> Distillation:
    found = read_recipe(given, "r")
    torch.manual_seed(0)
    made = distil(open_model(found.start).model, found.load_task(), options_of(given))
    assert isinstance(made, Distillation)
    return made


def options_of(given: Document) -> Document:
    return {name: value for name, value in given["objective"].items() if name != "name"}


def values(*found: Distillation) -> list[dict[str, Any]]:
    """The terms of each on the same batch."""
    return [one.loss.values(*one.shown(one.batch(0, 0, 4))) for one in found]


def refused(given: Document, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        objective(given)


METHODS = [("student", "skl + kl(temperature=2) + mta"), ("student", "hidden + js"), ("other", "sra + uld")]


@pytest.mark.parametrize(("student", "method"), METHODS)
def test_cached_is_online_if_all_logits_but_one_are_kept(
    place: Path, cached: Cached, student: str, method: str
) -> None:
    kept = objective(cached(method, student, largest=len(bpe()) - 1, precision="float32"))
    exact, found = values(objective(recipe(place, method, student)), kept)
    for name, value in exact.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("student", "method", "precision"),
    [("student", "skl + mta", "bfloat16"), ("student", "skl + mta", "float32"), ("other", "sra + uld", "float16")],
)
def test_a_batch_has_the_rows_of_the_files_and_zeros(cached: Cached, student: str, method: str, precision: str) -> None:
    found = objective(cached(method, student, precision=precision))
    assert isinstance(found.teacher, CachedTeacher)
    cache, rows = found.teacher.cache, np.array([5, 0, 35, 5])
    begins, ends = (cache.offsets[rows + k].tolist() for k in (0, 1))
    width = max(end - begin for begin, end in zip(begins, ends, strict=True)) + 3
    batch = cache.batch(rows, width)
    assert batch.keys() == {f"cache.{name}" for name in cache.manifest.fields}
    for name, x in cache.maps.items():
        expected = x.new_zeros(len(rows), width, *x.shape[1:])
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            expected[number, : end - begin] = x[begin:end]
        assert expected.any(), name
        assert batch[f"cache.{name}"].dtype == x.dtype
        assert batch[f"cache.{name}"].equal(expected), name


def test_with_few_logits_divergences_are_lower_bounds_and_the_difference_is_printed(
    place: Path, cached: Cached, capsys: pytest.CaptureFixture[str]
) -> None:
    exact, kept = values(objective(recipe(place, "skl + kl")), objective(cached("skl + kl", largest=8)))
    assert all(0 < kept[name] < exact[name] for name in exact)
    printed = capsys.readouterr().err
    assert "from the teacher itself less from its cache, on 4 rows: skl " in printed
    assert "8 largest logits a token" in printed


def written(document: Any, out: Path) -> str:
    objective(document)
    return "written"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_cache_that_was_killed_continues_bit_for_bit(cached: Cached, tmp_path: Path) -> None:
    whole, given = (cached("skl + mta", name=name) for name in ("whole", "killed"))
    _, operations = Child(whole, tmp_path / "whole", act=written).result()
    killed = Child(given, tmp_path / "killed", operations * 2 // 3, act=written)
    assert killed.wait() == -signal.SIGKILL
    manifest = json.loads((tmp_path / "killed" / "manifest.json").read_text())
    assert 0 < manifest["done"] < manifest["rows"]
    Child(given, tmp_path / "killed", act=written).result()
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_one_cache_has_what_all_methods_need_and_is_not_written_again(cached: Cached, tmp_path: Path) -> None:
    methods, given = ["ce", "kl(temperature=2)", "skl", "skl + mta", "hidden(layers=1)"], cached("ce")
    write_cache_for(methods, gpt2(bpe(), 2, 8), read_recipe(given, "r").load_task(), options_of(given))
    fields = json.loads((tmp_path / "c" / "manifest.json").read_text())["fields"]
    assert {"states.2", "states.4", "weights.4", "tail.1", "tail.2", "logits", "ids"} <= fields.keys()
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "c").glob("*.bin")}
    for number, method in enumerate(methods[1:4]):
        shared, own = objective(cached(method)), objective(cached(method, name=str(number)))
        assert len({str(one) for one in values(shared, own)}) == 1
        if method == "skl":
            kept = {name for name in shared.batch(0, 0, 4) if name.startswith("cache.")}
            assert kept == {"cache.logits", "cache.ids", "cache.tail.1"}
    assert {file: file.stat().st_mtime_ns for file in before} == before


@pytest.fixture
def unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is loaded")

    monkeypatch.setattr(teacher, "open_model", refuse)


def test_a_complete_cache_is_used_without_loading_the_teacher(
    cached: Cached, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    first = objective(cached("skl + mta"))
    request.getfixturevalue("unopened")
    capsys.readouterr()
    kept = values(first, objective(cached("skl + mta")))
    assert kept[0] == kept[1]
    assert capsys.readouterr().err == ""
    refused(cached("kl(temperature=2)"), r"is a cache without tail.2, which the method needs: name another")


def test_a_teacher_whose_files_have_changed_is_another_teacher(place: Path, cached: Cached, tmp_path: Path) -> None:
    given = cached("skl")
    given["objective"]["teacher"] = str(shutil.copytree(place / "teacher", tmp_path / "teacher"))
    objective(given)
    shutil.copy(place / "another" / "model.safetensors", tmp_path / "teacher" / "model.safetensors")
    refused(given, "is a cache of another teacher")


@pytest.mark.usefixtures("unopened")
def test_a_method_that_asks_no_teacher_needs_no_cache(cached: Cached, tmp_path: Path) -> None:
    found = objective(cached("ce"))
    batch = found.batch(0, 0, 4)
    logits = found.student.model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    torch.testing.assert_close(found.loss(*found.shown(batch)), expected)
    assert not (tmp_path / "c").exists()


WRONG: dict[str, tuple[str, str, Any]] = {
    "another teacher": ("objective", "teacher", "another"),
    "another text": ("data", "path", ["more.jsonl"]),
    "another precision": ("objective", "precision", "bfloat16"),
    "another number of largest logits": ("objective", "largest", 32),
    "without output": ("objective", "method", "skl + sra.vocabulary"),
    "without states.2": ("objective", "method", "skl + mta"),
}


def test_a_cache_of_something_else_is_refused(place: Path, cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    objective(cached("skl + sra.centre"))
    monkeypatch.chdir(place)
    for message, (section, name, value) in WRONG.items():
        given = cached("skl")
        given[section][name] = value
        refused(given, f"is a cache (of )?{message}.* objective.cache=DIR$")


def test_of_two_processes_one_writes_a_cache_and_both_use_it(cached: Cached, tmp_path: Path) -> None:
    given = cached("skl + mta")
    objective(cached("skl + mta", name="alone"))
    both = [Child(given, tmp_path / "c", act=written) for _ in range(2)]
    counts = [one.result()[1] for one in both]
    assert contents(tmp_path / "c") == contents(tmp_path / "alone")
    again = Child(given, tmp_path / "c", act=written).result()[1]
    assert min(counts) <= again < max(counts)  # file operations: the one that waited only read


def test_the_same_tokens_in_other_rows_are_another_text() -> None:
    tokens = np.arange(6, dtype=np.int32)
    assert text_sha256(tokens, np.array([0, 2, 6])) == text_sha256(tokens, np.array([0, 2, 6], np.int32))
    others = [(tokens, [0, 3, 6]), (tokens, [0, 6]), (tokens[::-1].copy(), [0, 2, 6])]
    assert len({text_sha256(one, np.array(offsets)) for one, offsets in [(tokens, [0, 2, 6]), *others]}) == 4


def test_rows_that_are_done_are_not_read_again(cached: Cached, tmp_path: Path) -> None:
    objective(cached("skl"))
    whole = (tmp_path / "c" / "tail.1.bin").read_bytes()
    mark = bytes(range(8))  # of the first two tokens
    (tmp_path / "c" / "tail.1.bin").write_bytes(mark + whole[8:-8] + mark)
    change(tmp_path / "c", done=32)
    objective(cached("skl"))
    assert (tmp_path / "c" / "tail.1.bin").read_bytes() == mark + whole[8:]


def test_what_is_kept_of_a_token(cached: Cached, tmp_path: Path) -> None:
    """The table in docs/guide/distil.md: log masses and weights have all of their digits in any precision."""
    objective(cached("skl + mta.dsa(words=1) + sra", largest=8))
    fields = json.loads((tmp_path / "c" / "manifest.json").read_text())["fields"]
    assert {name: list(one.values()) for name, one in fields.items()} == {
        "states.2": [[16], "float16"], "weights.2": [[], "float32"], "logits": [[8], "float16"],
        "ids": [[8], "int32"], "tail.1": [[1], "float32"], "masses": [[], "float32"], "final": [[16], "float16"],
    }  # fmt: skip


def test_half_a_cache_is_not_taken_for_the_teacher(place: Path, cached: Cached, tmp_path: Path) -> None:
    objective(cached("skl"))
    name = str(place / "teacher")
    assert teacher.TeacherSource(name, tmp_path / "c").kept is not None
    change(tmp_path / "c", done=35)
    assert teacher.TeacherSource(name, tmp_path / "c").kept is None


def shorten(file: Path, by: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - by)


def change(folder: Path, **entries: Any) -> None:
    file = folder / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


DAMAGED = {
    "half a file": (lambda c: shorten(c / "logits.bin", 100), r"logits.bin has [\d,]+ of [\d,]+ bytes"),
    "a longer file": (lambda c: shorten(c / "ids.bin", -4), r"ids.bin has [\d,]+ of [\d,]+ bytes"),
    "no file": (lambda c: (c / "states.4.bin").unlink(), r"states.4.bin has 0 of [\d,]+ bytes"),
    "no output matrix": (lambda c: (c / "output.bin").unlink(), r"output.bin has 0 of [\d,]+ bytes"),
    "no JSON": (lambda c: (c / "manifest.json").write_text("{{"), r"manifest.json is damaged or of another version"),
    "a list": (lambda c: (c / "manifest.json").write_text("[]"), r"manifest.json is damaged or of another version"),
    "another version": (lambda c: change(c, format=1), r"its format is 1, here 2"),
    "too many rows": (lambda c: change(c, done=99), r"99 of 36 rows are done"),
    "rows below 0": (lambda c: change(c, done=-1), r"-1 of 36 rows are done"),
}


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    """A finished cache."""
    objective(recipe(place, "skl + mta + sra.vocabulary", cache=str(place / "whole")))
    return place / "whole"


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_cache_is_refused(cached: Cached, whole: Path, tmp_path: Path, what: str) -> None:
    """A file that was made longer again would be zeros, from which a student would learn."""
    damage, message = DAMAGED[what]
    damage(Path(shutil.copytree(whole, tmp_path / "c")))
    advice = "delete the folder, or name another --out and, .* objective.cache=DIR$"
    refused(cached("skl + mta + sra.vocabulary"), f"{message}.*: {advice}")


def test_a_cache_that_was_killed_before_its_files_were_made_begins_again(cached: Cached, tmp_path: Path) -> None:
    objective(cached("skl"))
    whole = contents(tmp_path / "c")
    for file in (tmp_path / "c").glob("*.bin"):
        file.unlink()
    change(tmp_path / "c", done=0)
    objective(cached("skl"))
    assert contents(tmp_path / "c") == whole


def test_on_a_full_disk_the_size_and_ways_out_are_told(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(teacher, "open_cache", full)
    ways = r".* another --out, .* objective.cache=DIR, lower objective.largest, .* objective.cache=null$"
    given = cached("skl + mta", name="full", precision="float32")
    refused(given, rf"full: the disk is full, .* takes [1-9]\d* MiB: {ways}")


def test_a_file_or_a_folder_of_other_files_is_no_cache(place: Path, cached: Cached, tmp_path: Path) -> None:
    line = r"text.jsonl is a file, and a cache is a folder: .* objective.cache=DIR"
    refused(recipe(place, "skl", cache=str(place / "text.jsonl")), line)
    shutil.copy(place / "text.jsonl", tmp_path / "mine.jsonl")
    refused(cached("skl", name=""), "holds other files")


def test_a_teacher_that_says_nothing_is_not_in_the_way_of_another(place: Path, cached: Cached, tmp_path: Path) -> None:
    """Another teacher, text, precision and method take the folder of one that was refused, for it has no row."""
    broken = llama(bpe(), 4, 16)
    with torch.no_grad():
        broken.lm_head.weight[3] = 3e38  # its logits are infinite
    given = cached("skl + mta", precision="float32")
    given["objective"]["teacher"] = saved(broken, bpe(), tmp_path / "silent")
    given["data"]["path"] = [str(place / "more.jsonl")]
    refused(given, r"logits of the teacher are not finite: name a teacher that works")
    for name in ("c", "alone"):
        objective(cached("skl", name=name))
    assert contents(tmp_path / "c") == contents(tmp_path / "alone")

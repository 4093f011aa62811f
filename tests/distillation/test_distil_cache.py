"""A cache says what the teacher says: exactly if all logits are kept, and after a kill; others' caches are refused."""

import json
import shutil
import signal
from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from children import Child
from distil_pairs import bpe, gpt2, instructions, llama, pieces, recipe, saved

from splitstep.distillation import teacher
from splitstep.distillation.cache import text_sha256
from splitstep.distillation.objective import Distillation, distil, write_cache_for
from splitstep.distillation.teacher import CachedTeacher
from splitstep.opening import open_model
from splitstep.training import read_recipe


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    saved(llama(bpe(), 4, 16), bpe(), folder / "teacher")
    saved(llama(bpe(), 4, 16, seed=7), bpe(), folder / "another")
    saved(gpt2(bpe(), 2, 8), bpe(), folder / "student")
    saved(llama(pieces(), 2, 8), pieces(), folder / "other")
    instructions(folder / "text.jsonl", 40)
    instructions(folder / "more.jsonl", 41)
    return folder


def document(place: Path, method: str, student: str = "student", **more: Any) -> dict[str, Any]:
    return recipe(*(str(place / name) for name in ("teacher", student, "text.jsonl")), method, **more)


def objective(given: dict[str, Any]) -> Distillation:
    found = read_recipe(given, "r")
    torch.manual_seed(0)
    made = distil(open_model(found.start).model, found.load_task(), options_of(given))
    assert isinstance(made, Distillation)
    return made


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given["objective"].items() if name != "name"}


def values(*found: Distillation) -> list[dict[str, Any]]:
    """The terms of each on the same batch."""
    return [one.loss.values(*one.shown(one.batch(0, 0, 4))) for one in found]


METHODS = [("student", "skl + kl(temperature=2) + mta"), ("student", "hidden + js"), ("other", "sra + uld")]


@pytest.mark.parametrize(("student", "method"), METHODS)
def test_cached_is_online_if_all_logits_but_one_are_kept(
    place: Path, tmp_path: Path, student: str, method: str
) -> None:
    largest = len(bpe()) - 1
    cached = objective(
        document(place, method, student, cache=str(tmp_path / "c"), largest=largest, precision="float32")
    )
    exact, kept = values(objective(document(place, method, student)), cached)
    for name, value in exact.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("student", "method", "precision"),
    [("student", "skl + mta", "bfloat16"), ("student", "skl + mta", "float32"), ("other", "sra + uld", "float16")],
)
def test_a_batch_has_the_rows_of_the_files_and_zeros(
    place: Path, tmp_path: Path, student: str, method: str, precision: str
) -> None:
    found = objective(document(place, method, student, cache=str(tmp_path / "c"), precision=precision))
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
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = objective(document(place, "skl + kl", cache=str(tmp_path / "c"), largest=8))
    exact, kept = values(objective(document(place, "skl + kl")), cached)
    assert all(0 < kept[name] < exact[name] for name in exact)
    printed = capsys.readouterr().err
    assert "from the teacher itself less from its cache, on 4 rows: skl " in printed
    assert "8 largest logits a token" in printed


def written(document: Any, out: Path) -> str:
    objective(document)
    return "written"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_cache_that_was_killed_continues_bit_for_bit(place: Path, tmp_path: Path) -> None:
    def given(name: str) -> dict[str, Any]:
        return document(place, "skl + mta", cache=str(tmp_path / name))

    _, operations = Child(given("whole"), tmp_path / "whole", act=written).result()
    killed = Child(given("killed"), tmp_path / "killed", operations * 2 // 3, act=written)
    assert killed.wait() == -signal.SIGKILL
    manifest = json.loads((tmp_path / "killed" / "manifest.json").read_text())
    assert 0 < manifest["done"] < manifest["rows"]
    Child(given("killed"), tmp_path / "killed", act=written).result()
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_one_cache_has_what_all_methods_need_and_is_not_written_again(place: Path, tmp_path: Path) -> None:
    methods = ["ce", "kl(temperature=2)", "skl", "skl + mta", "hidden(layers=1)"]
    given = document(place, "ce", cache=str(tmp_path / "c"))
    write_cache_for(methods, gpt2(bpe(), 2, 8), read_recipe(given, "r").load_task(), options_of(given))
    fields = json.loads((tmp_path / "c" / "manifest.json").read_text())["fields"]
    assert {"states.2", "states.4", "weights.4", "tail.1", "tail.2", "logits", "ids"} <= fields.keys()
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "c").glob("*.bin")}
    for number, method in enumerate(methods[1:4]):
        shared = objective(document(place, method, cache=str(tmp_path / "c")))
        own = objective(document(place, method, cache=str(tmp_path / str(number))))
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
    place: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    given = document(place, "skl + mta", cache=str(tmp_path / "c"))
    first = objective(given)
    request.getfixturevalue("unopened")
    capsys.readouterr()
    again = objective(given)
    kept = values(first, again)
    assert kept[0] == kept[1]
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match=r"is a cache without tail.2, which the method needs: name another"):
        objective(document(place, "kl(temperature=2)", cache=str(tmp_path / "c")))


def test_a_teacher_whose_files_have_changed_is_another_teacher(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "teacher", tmp_path / "teacher")
    given = document(place, "skl", cache=str(tmp_path / "c"))
    given["objective"]["teacher"] = str(tmp_path / "teacher")
    objective(given)
    shutil.copy(place / "another" / "model.safetensors", tmp_path / "teacher" / "model.safetensors")
    with pytest.raises(ValueError, match="is a cache of another teacher"):
        objective(given)


@pytest.mark.usefixtures("unopened")
def test_a_method_that_asks_no_teacher_needs_no_cache(place: Path, tmp_path: Path) -> None:
    found = objective(document(place, "ce", cache=str(tmp_path / "c")))
    batch = found.batch(0, 0, 4)
    logits = found.student.model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    torch.testing.assert_close(found.loss(*found.shown(batch)), expected)
    assert not (tmp_path / "c").exists()


WRONG = {
    "another teacher": lambda place, given: given["objective"].update(teacher=str(place / "another")),
    "another text": lambda place, given: given["data"].update(path=[str(place / "more.jsonl")]),
    "another precision": lambda place, given: given["objective"].update(precision="bfloat16"),
    "another number of largest logits": lambda place, given: given["objective"].update(largest=32),
    "without output": lambda place, given: given["objective"].update(method="skl + sra.vocabulary"),
    "without states.2": lambda place, given: given["objective"].update(method="skl + mta"),
}


def test_a_cache_of_something_else_is_refused(place: Path, tmp_path: Path) -> None:
    objective(document(place, "skl + sra.centre", cache=str(tmp_path / "c")))
    for message, change in WRONG.items():
        given = document(place, "skl", cache=str(tmp_path / "c"))
        change(place, given)
        with pytest.raises(ValueError, match=f"is a cache (of )?{message}.* objective.cache=DIR$"):
            objective(given)


def test_of_two_processes_one_writes_a_cache_and_both_use_it(place: Path, tmp_path: Path) -> None:
    given = document(place, "skl + mta", cache=str(tmp_path / "c"))
    alone = document(place, "skl + mta", cache=str(tmp_path / "alone"))
    objective(alone)
    both = [Child(given, tmp_path / "c", act=written) for _ in range(2)]
    counts = [one.result()[1] for one in both]
    assert contents(tmp_path / "c") == contents(tmp_path / "alone")
    again = Child(given, tmp_path / "c", act=written).result()[1]
    assert min(counts) <= again < max(counts)  # file operations: the one that waited only read


def test_the_same_tokens_in_other_rows_are_another_text() -> None:
    tokens = np.arange(6, dtype=np.int32)
    assert text_sha256(tokens, np.array([0, 2, 6])) == text_sha256(tokens, np.array([0, 2, 6], np.int32))
    others = [(tokens, [0, 3, 6]), (tokens, [0, 6]), (tokens[::-1].copy(), [0, 2, 6])]
    hashes = {text_sha256(one, np.array(offsets)) for one, offsets in [(tokens, [0, 2, 6]), *others]}
    assert len(hashes) == 4


def test_rows_that_are_done_are_not_read_again(place: Path, tmp_path: Path) -> None:
    given = document(place, "skl", cache=str(tmp_path / "c"))
    objective(given)
    whole = (tmp_path / "c" / "tail.1.bin").read_bytes()
    mark = bytes(range(8))  # of the first two tokens
    (tmp_path / "c" / "tail.1.bin").write_bytes(mark + whole[8:-8] + mark)
    change(tmp_path / "c", done=32)
    objective(given)
    assert (tmp_path / "c" / "tail.1.bin").read_bytes() == mark + whole[8:]


def test_what_is_kept_of_a_token(place: Path, tmp_path: Path) -> None:
    """The table in docs/guide/distil.md: log masses and weights have all of their digits in any precision."""
    objective(document(place, "skl + mta.dsa(words=1) + sra", cache=str(tmp_path / "c"), largest=8))
    fields = json.loads((tmp_path / "c" / "manifest.json").read_text())["fields"]
    assert {name: list(one.values()) for name, one in fields.items()} == {
        "states.2": [[16], "float16"], "weights.2": [[], "float32"], "logits": [[8], "float16"],
        "ids": [[8], "int32"], "tail.1": [[1], "float32"], "masses": [[], "float32"], "final": [[16], "float16"],
    }  # fmt: skip


def test_half_a_cache_is_not_taken_for_the_teacher(place: Path, tmp_path: Path) -> None:
    objective(document(place, "skl", cache=str(tmp_path / "c")))
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
    objective(document(place, "skl + mta + sra.vocabulary", cache=str(place / "whole")))
    return place / "whole"


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_cache_is_refused(place: Path, whole: Path, tmp_path: Path, what: str) -> None:
    """A file that was made longer again would be zeros, from which a student would learn."""
    damage, message = DAMAGED[what]
    damage(Path(shutil.copytree(whole, tmp_path / "c")))
    advice = "delete the folder, or name another --out and, .* objective.cache=DIR$"
    with pytest.raises(ValueError, match=f"{message}.*: {advice}"):
        objective(document(place, "skl + mta + sra.vocabulary", cache=str(tmp_path / "c")))


def test_a_cache_that_was_killed_before_its_files_were_made_begins_again(place: Path, tmp_path: Path) -> None:
    given = document(place, "skl", cache=str(tmp_path / "c"))
    objective(given)
    whole = contents(tmp_path / "c")
    for file in (tmp_path / "c").glob("*.bin"):
        file.unlink()
    change(tmp_path / "c", done=0)
    objective(given)
    assert contents(tmp_path / "c") == whole


def test_on_a_full_disk_the_size_and_ways_out_are_told(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(teacher, "open_cache", full)
    ways = r".* another --out, .* objective.cache=DIR, lower objective.largest, .* objective.cache=null$"
    with pytest.raises(ValueError, match=rf"full: the disk is full, .* takes [1-9]\d* MiB: {ways}"):
        objective(document(place, "skl + mta", cache=str(tmp_path / "full"), precision="float32"))


def test_a_file_or_a_folder_of_other_files_is_no_cache(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"text.jsonl is a file, and a cache is a folder: .* objective.cache=DIR"):
        objective(document(place, "skl", cache=str(place / "text.jsonl")))
    shutil.copy(place / "text.jsonl", tmp_path / "mine.jsonl")
    with pytest.raises(ValueError, match="holds other files"):
        objective(document(place, "skl", cache=str(tmp_path)))


def test_a_teacher_that_says_nothing_is_not_in_the_way_of_another(place: Path, tmp_path: Path) -> None:
    """Another teacher, text, precision and method take the folder of one that was refused, for it has no row."""
    broken = llama(bpe(), 4, 16)
    with torch.no_grad():
        broken.lm_head.weight[3] = 3e38  # its logits are infinite
    refused = document(place, "skl + mta", cache=str(tmp_path / "c"), precision="float32")
    refused["objective"]["teacher"] = saved(broken, bpe(), tmp_path / "silent")
    refused["data"]["path"] = [str(place / "more.jsonl")]
    with pytest.raises(ValueError, match=r"logits of the teacher are not finite: name a teacher that works"):
        objective(refused)
    for name in ("c", "alone"):
        objective(document(place, "skl", cache=str(tmp_path / name)))
    assert contents(tmp_path / "c") == contents(tmp_path / "alone")

"""Methods of distillation compared: the whole study with real models, its statistics, its rule, its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inline import forked, here
from pages import chromium, visit
from scipy import stats
from tiny_causal import ROWS, gpt2, llama

from splitstep.distillation.judging import batch_size
from splitstep.distillation.judging.answers import ROUND, Answer, Writing, write_answers
from splitstep.distillation.judging.bits import answer_bits, total
from splitstep.distillation.judging.exam import WINDOW, Exam, Figures
from splitstep.distillation.judging.rouge import mean_rouge
from splitstep.distillation.judging.tokens import Causal
from splitstep.experiments import running
from splitstep.experiments.experiment import Difference
from splitstep.experiments.statistics import Estimate
from splitstep.experiments.study import STUDIES, study_of
from splitstep.experiments.trials import Curve
from splitstep.jobs import open_engine
from splitstep.report.document import Verdict
from splitstep.report.tables import to_markdown
from splitstep.studies.distil import STUDY, compare_methods
from splitstep.studies.distil.claims import RULES, claims_of, distil_verdict
from splitstep.studies.distil.directory import check_directory, claim
from splitstep.studies.distil.exams import PLAIN
from splitstep.studies.distil.plan import base_of, check_methods, plan, slug
from splitstep.studies.distil.result import BITS, ROUGE, DistilResult, DistilRun
from splitstep.studies.distil.rows import differences_of, row_of
from splitstep.studies.distil.running import OTHERS, Distilled, Found
from splitstep.studies.distil.study import answers_of
from splitstep.studies.distil.tables import ENDED, main_table
from splitstep.support.provenance import Provenance
from splitstep.support.words import split_list
from splitstep.text.instructions import Row

read_distil = STUDIES["distil"].read


ATTACK = '<script>alert("x")</script>'
HELD_OUT = [Row(f"Q: {ATTACK}\nA: ", f"{ATTACK} dog", ATTACK), *ROWS[2:]]
EXAM = Exam({"dolly": HELD_OUT, "self-instruct": ROWS[:1]}, Writing(seeds=(1, 2), max_tokens=6), " ".join(
    row.answer for row in ROWS), window=32)  # fmt: skip

SMALL = partial(llama, layers=2, width=16, seed=1)


class Training:
    """A trivial training of a tiny student: a few steps of cross entropy on two rows; the method scales its rate."""

    steps = 3

    def __init__(self, start: Callable[[], Causal]) -> None:
        self.begin, self.calls = start, list[tuple[str, int, Path]]()

    def teacher(self) -> Causal:
        return llama()

    def start(self) -> Causal:
        return self.begin()

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        self.calls.append((method, seed, folder))
        student = self.start()
        torch.manual_seed(seed)
        rate = {"ce": 1e-3, "kl": 3e-3, "skl": 5e-3}.get(method, 1e-2)
        optimiser, losses = torch.optim.Adam(student.model.parameters(), rate), list[float]()
        for _ in range(3):
            row = ROWS[int(torch.randint(2, ()))]
            ids = student.tokenizer(row.prompt + row.answer, return_tensors="pt")["input_ids"]
            loss = student.model(ids, labels=ids).loss
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        curve = Curve((1, 2, 3), tuple(losses))
        return Distilled(None if method == "rkl" else student, 3, 0.1, "cpu", curve, curve)


@pytest.fixture(scope="module", autouse=True)
def inline() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "open_engine", here)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DistilResult, Training, Path]:
    out = tmp_path_factory.mktemp("terms")
    training = Training(SMALL)
    methods = ["ce", "kl", "skl", "skl+mta", "rkl"]
    found = compare_methods(training, EXAM, methods, range(3), out, quiet=True)
    return found, training, out


def test_every_method_is_run_with_every_seed_and_judged(made: tuple[DistilResult, Training, Path]) -> None:
    result, training, out = made
    assert [call[:2] for call in training.calls] == [
        (method, seed) for seed in range(3) for method in ("ce", "kl", "skl", "skl+mta", "rkl")
    ]
    assert len({call[2] for call in training.calls}) == 15
    assert [(row.method, row.base, row.finished, row.diverged) for row in result.rows] == [
        ("ce", "", 3, 0), ("kl", "ce", 3, 0), ("skl", "ce", 3, 0), ("skl+mta", "skl", 3, 0), ("rkl", "ce", 0, 3),
    ]  # fmt: skip
    run = result.of("kl")[1]
    answers = json.loads((out / run.folder / "answers.json").read_text())
    assert run.figures is not None
    for name, rows in EXAM.sets.items():
        texts = [[one["text"] for one in answers[name][str(seed)]] for seed in (1, 2)]
        scores = [mean_rouge(own, [row.answer for row in rows]) for own in texts]
        assert run.figures.rouge_on[name] == pytest.approx(np.mean(scores))
    assert run.figures.rouge == pytest.approx(np.mean(list(run.figures.rouge_on.values())))
    student = training.train("kl", 1, out).student
    training.calls.pop()
    assert student is not None
    assert run.figures.bits_per_byte == pytest.approx(total(answer_bits(*student, EXAM.rows)).per_byte, rel=1e-4)
    assert [one.teacher_layer for one in run.figures.distances] == [2, 4]
    assert set(result.others) == {"teacher", "student before"}
    assert result.others["teacher"].top1 is None
    assert result.others["student before"].top1 is not None


def test_the_answers_that_are_shown_are_those_of_each_methods_first_seed() -> None:
    planned = plan(["ce", "kl"], [4, 7])
    found = {one.folder: Found(None, None, {"dolly": {1: [Answer(f"{one.method} {one.seed}")]}}) for one in planned}
    others = {folder: Found(None, None, {"dolly": {1: [Answer(name)]}}) for name, folder in OTHERS.items()}
    said = {name: own["dolly"][1][0].text for name, own in answers_of(planned, found | others).items()}
    assert said == {"teacher": "teacher", "student before": "student before", "ce": "ce 4", "kl": "kl 4"}


def test_a_study_that_is_started_again_runs_nothing_twice(made: tuple[DistilResult, Training, Path]) -> None:
    result, training, out = made
    before = len(training.calls)
    methods = [row.method for row in result.rows]
    again = compare_methods(training, EXAM, methods, range(3), out, quiet=True)
    assert len(training.calls) == before
    assert replace(again, made=result.made) == result
    other = replace(EXAM, writing=replace(EXAM.writing, max_tokens=7))
    with pytest.raises(ValueError, match="was judged on other rows or with other settings: name a new directory"):
        compare_methods(training, other, methods, range(3), out, quiet=True)


DAMAGED = [*(("judged.json", text) for text in ("", "{", "{}", "[]")), ("answers.json", "{"), ("answers.json", "[]"),
           ("answers.json", '{"dolly": {"1": [5]}}')]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), DAMAGED)
def test_what_was_kept_and_is_damaged_is_refused_by_its_file(
    made: tuple[DistilResult, Training, Path], tmp_path: Path, name: str, text: str
) -> None:
    _, training, out = made
    shutil.copytree(out / "others", tmp_path / "others")
    (tmp_path / "others" / "teacher" / name).write_text(text)
    with pytest.raises(
        ValueError, match=r"others/teacher: .*is damaged .*: delete judged.json, and it is judged again$"
    ):
        compare_methods(training, EXAM, ["ce"], range(1), tmp_path, quiet=True)


DOCUMENT: dict[str, Any] = {
    "task": "instruct", "network": "pretrained", "start": "S", "data": {"path": ["text.jsonl"], "test": 4},
    "objective": {"name": "distil", "teacher": "T", "method": "ce", "cache": "out/teacher"}, "train": {"steps": 5},
}  # fmt: skip


def test_a_directory_belongs_to_one_recipe(made: tuple[DistilResult, Training, Path], tmp_path: Path) -> None:
    """Else what was judged with one learning rate would be shown as the result of another."""
    _, training, out = made
    shutil.copytree(out, tmp_path / "study")
    claim(tmp_path / "study", DOCUMENT)
    methods = DOCUMENT | {"objective": DOCUMENT["objective"] | {"method": "skl"}}
    again = compare_methods(training, EXAM, ["skl"], [1], tmp_path / "study", recipe=methods, quiet=True)
    assert [run.method for run in again.runs] == ["skl"]
    others = {
        "train.lr": DOCUMENT | {"train": {"steps": 5, "lr": 0.5}},
        "start": DOCUMENT | {"start": "U"},
        "objective.teacher": DOCUMENT | {"objective": DOCUMENT["objective"] | {"teacher": "U"}},
        "model.layers": DOCUMENT | {"model": {"layers": 3}},
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=rf"study holds a comparison with {name}=.*: name a new directory"):
            compare_methods(training, EXAM, ["ce"], range(1), tmp_path / "study", recipe=other, quiet=True)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("recipe.yaml", "task: text", "belongs to a single run: name a new directory"),
        ("result.json", '{"study": "compare"}', "holds the result of something else: name a new directory"),
        ("result.json", "{", r"result.json is damaged: name a new directory"),
        ("study.json", "[]", r"study.json is damaged: name a new directory"),
    ],
)
def test_the_directory_of_something_else_is_refused(file: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        check_directory(tmp_path, DOCUMENT)


class KilledOnce(Training):
    """A training whose first worker is killed after a student has learnt, and before it is judged."""

    def __init__(self, start: Callable[[], Causal], marker: Path) -> None:
        super().__init__(start)
        self.marker = marker

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        made = super().train(method, seed, folder)
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return made


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_engine_nor_on_a_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ["ce", "kl"]
    expected = compare_methods(Training(SMALL), EXAM, methods, range(2), tmp_path / "here", quiet=True)
    monkeypatch.setattr(running, "open_engine", open_engine)
    killed = KilledOnce(SMALL, tmp_path / "killed")
    with forked():
        found = compare_methods(killed, EXAM, methods, range(2), tmp_path / "there", engine="local=2", quiet=True)
    assert killed.marker.exists()
    assert found == replace(expected, made=replace(expected.made, engine="local=2", date=found.made.date))
    folders = [path.parent.relative_to(tmp_path / "there") for path in (tmp_path / "there").glob("*/*/answers.json")]
    assert len(folders) == 6
    for folder in folders:
        texts = [(tmp_path / out / folder / "answers.json").read_text() for out in ("here", "there")]
        assert texts[0] == texts[1]


def test_the_result_is_read_back_as_it_was_written(made: tuple[DistilResult, Training, Path]) -> None:
    document = json.loads(json.dumps(made[0].json(), allow_nan=False))
    assert read_distil(document, "it") == made[0]
    assert study_of(document, "it") is STUDY


def test_the_table_shows_how_many_answers_end_unless_the_result_is_older(
    made: tuple[DistilResult, Training, Path],
) -> None:
    result, training, out = made
    student = training.train("kl", 1, out).student
    training.calls.pop()
    assert student is not None
    shares = [write_answers(*student, [row.prompt for row in own], EXAM.writing).ended for own in EXAM.sets.values()]
    figures = result.of("kl")[1].figures
    assert figures is not None
    assert figures.ended == pytest.approx(np.mean(shares))
    assert ENDED in main_table(result).columns
    document = json.loads(json.dumps(result.json()))
    for one in (*document["rows"], *document["others"].values(), *(run["figures"] or {} for run in document["runs"])):
        one.pop("ended", None)
    older = read_distil(document, "it")
    assert older.rows[0].ended is None
    assert ENDED not in main_table(older).columns
    some = [*older.of("kl")[:1], *result.of("kl")[1:]]  # a study that an older version began
    row = row_of(some, "kl", ["ce", "kl"], list(EXAM.sets))
    assert (row.ended, row.rouge) == (None, result.rows[1].rouge)


def test_heads_read_as_words_in_one_line(made: tuple[DistilResult, Training, Path]) -> None:
    head = to_markdown(main_table(made[0])).splitlines()[0]
    for words in ("answers that end", "bits per byte of answers", "bits per byte of text", "same token as the teacher"):
        assert f"| {words} [95%] |" in head


def test_the_page_escapes_what_is_in_the_data(made: tuple[DistilResult, Training, Path]) -> None:
    page = made[0].save_page(made[2]).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; dog" in page
    assert page.count(">teacher, ") == len(made[0].shown)
    assert "the band is from the least to the greatest" in page
    assert "Nothing was compared" not in page


CUT = ", cut off after 6 tokens</p>"


def ending_small() -> Causal:
    """A student whose answers end often: at one token of eight."""
    one = SMALL()
    one.model.generation_config.eos_token_id = list(range(5, one.model.config.vocab_size, 8))
    return one


def test_answers_that_are_cut_off_are_marked_on_the_page(tmp_path: Path) -> None:
    result = compare_methods(Training(ending_small), EXAM, ["ce"], [0], tmp_path, quiet=True)
    kept = json.loads((tmp_path / result.runs[0].folder / "answers.json").read_text())
    said = [one for shown in result.shown for one in shown.answers if one.who == "ce"]
    numbers = {"dolly": range(3), "self-instruct": range(1)}
    assert [{"text": one.text, "ended": one.ended} for one in said] == [
        kept[name]["1"][number] for name, own in numbers.items() for number in own
    ]
    student = Training(ending_small).train("ce", 0, tmp_path).student
    assert student is not None
    for name, rows in EXAM.sets.items():
        written = write_answers(*student, [row.prompt for row in rows], EXAM.writing).answers
        assert [one["ended"] for one in kept[name]["1"]] == [one.ended for one in written[1]]
    every = [one for shown in result.shown for one in shown.answers]
    assert all((one.ended is None) == (one.who == "reference") for one in every)
    page = result.save_page(tmp_path).read_text()
    assert page.count(CUT) == page.count(" …</pre>") == sum(one.ended is False for one in every)
    assert {one.ended for one in every} == {None, True, False}


def test_answers_of_an_older_version_are_read_and_have_no_mark(
    made: tuple[DistilResult, Training, Path], tmp_path: Path
) -> None:
    result, training, out = made
    shutil.copytree(out, tmp_path / "study")
    old = [tmp_path / "study" / folder / "answers.json" for folder in ("others/teacher", "runs/ce-seed0")]
    for file in old:
        found = json.loads(file.read_text())
        texts = {
            name: {seed: [one["text"] for one in answers] for seed, answers in own.items()}
            for name, own in found.items()
        }
        file.write_text(json.dumps(texts, ensure_ascii=False, indent=1))
    before, methods = len(training.calls), [row.method for row in result.rows]
    again = compare_methods(training, EXAM, methods, range(3), tmp_path / "study", quiet=True)
    assert len(training.calls) == before
    for ours, theirs in zip(again.shown, result.shown, strict=True):
        assert ours.answers == tuple(
            one._replace(ended=None) if one.who in ("teacher", "ce") else one for one in theirs.answers
        )
    document = json.loads(json.dumps(result.json()))
    for shown in document["shown"]:
        for one in shown["answers"]:
            one.pop("ended", None)
    assert CUT in result.save_page(tmp_path).read_text()
    assert CUT not in read_distil(document, "it").save_page(tmp_path).read_text()


def test_a_student_of_another_tokenizer_is_judged_too(tmp_path: Path) -> None:
    training = Training(gpt2)
    result = compare_methods(training, EXAM, ["ce", "sra"], [0], tmp_path, quiet=True)
    [ce, sra] = [run.figures for run in result.runs]
    assert ce is not None
    assert sra is not None
    assert ce.shared is not None
    assert 0 < ce.shared < 1
    assert f"{ce.shared:.1%} of the teacher's" in unescape(result.save_page(tmp_path).read_text())
    assert result.claims[0].answer == "undecided"
    assert distil_verdict(result).kind == "too few"


def figures(rouge: float, bits: float = 1.0) -> Figures:
    return Figures(rouge, {"dolly": rouge}, bits, top1=0.5, kl=1.0, shared=1.0)


def run_of(method: str, seed: int, rouge: float, bits: float = 1.0) -> DistilRun:
    curve = Curve((1, 2), (3.0, 2.0))
    return DistilRun(
        method, seed, f"runs/{method}-{seed}", "finished", 2, 1.0, "cpu", curve, curve, figures(rouge, bits)
    )


def runs_of(values: Mapping[str, Sequence[float]]) -> list[DistilRun]:
    return [run_of(method, seed, x, 2 - x / 100) for method, own in values.items() for seed, x in enumerate(own)]


VALUES = {"ce": [20.0, 21.0, 19.5, 20.2], "kl": [21.1, 21.9, 20.9, 21.2], "skl": [20.1, 20.8, 19.7]}


def test_an_interval_of_a_share_ends_at_all() -> None:
    shares = [0.92, 1.0, 1.0, 1.0]
    runs = [run_of("ce", seed, 20.0) for seed in range(4)]
    runs = [
        run._replace(figures=run.figures._replace(ended=x)) for run, x in zip(runs, shares, strict=True) if run.figures
    ]
    ended = row_of(runs, "ce", ["ce"], ["dolly"]).ended
    low, high = stats.t.interval(0.95, 3, np.mean(shares), stats.sem(shares))
    assert high > 1
    assert ended is not None
    assert ended.low == pytest.approx(low, rel=1e-12)
    assert ended.high == 1


def test_differences_are_paired_by_seed_with_students_interval() -> None:
    runs = runs_of(VALUES)
    rows = [row_of(runs, method, list(VALUES), ["dolly"]) for method in VALUES]
    found = {(one.what, one.of): one for one in differences_of(rows, runs)}
    for method in ("kl", "skl"):
        d = np.array(VALUES[method]) - np.array(VALUES["ce"])[: len(VALUES[method])]
        low, high = stats.t.interval(0.95, len(d) - 1, d.mean(), stats.sem(d))
        one = found[ROUGE, method]
        assert one.seeds == tuple(range(len(d)))
        assert one.found is not None
        assert (one.found.mean, one.found.low, one.found.high) == pytest.approx((d.mean(), low, high))
        bits = found[BITS, method].found
        assert bits is not None
        assert (bits.low, bits.high) == pytest.approx((-high / 100, -low / 100))
    [kl, skl, kl_bits, skl_bits] = claims_of(list(found.values()))
    assert kl.answer == stated(VALUES["kl"], VALUES["ce"], 0.2)
    assert (kl.answer, kl.question) == ("supported", "kl has a higher mean ROUGE-L than ce")
    assert skl.answer == stated(VALUES["skl"], VALUES["ce"], 0.2) == "undecided"
    assert (kl_bits.answer, kl_bits.question) == ("supported", "kl has fewer bits per byte than ce")
    for name, one in (("kl", kl_bits), ("skl", skl_bits)):
        bits = found[BITS, name].found
        assert bits is not None
        assert one.evidence == (
            f"{name} minus ce is {bits.mean:+.4f} bits per byte (95% interval {bits.low:+.4f} to {bits.high:+.4f}, "
            f"{bits.n} seeds)"
        )
    assert skl_bits.answer == "undecided"


def test_only_seeds_that_both_methods_finished_are_paired() -> None:
    values = {"ce": {0: 20.0, 1: 21.0, 3: 19.0}, "kl": {1: 22.0, 2: 30.0, 3: 20.5}}
    runs = [run_of(method, seed, x, 2 - x / 100) for method, own in values.items() for seed, x in own.items()]
    lost = runs[0]._replace(method="kl", seed=0, status="diverged", figures=None)
    [rouge, _] = differences_of([row_of(runs, method, list(values), ["dolly"]) for method in values], [*runs, lost])
    assert rouge.seeds == (1, 3)
    assert rouge.found is not None
    assert (rouge.found.mean, rouge.found.n) == (pytest.approx(1.25), 2)


def stated(ours: Sequence[float], theirs: Sequence[float], margin: float) -> str:
    """The rule of docs/results/distil.md once more, from scipy's test."""
    d = np.array(ours) - np.array(theirs)[: len(ours)]
    interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    if interval.low > 0:
        return "supported"
    if interval.high < 0 or (-margin < interval.low and interval.high < margin):
        return "not supported"
    return "undecided"


def test_margins_and_seeds_are_those_of_the_page() -> None:
    text = " ".join((Path(__file__).parents[2] / "docs" / "results" / "distil.md").read_text().split())
    assert f"within ±{RULES[ROUGE].margin:g} points" in text
    assert f"margin of ±{RULES[BITS].margin:g}" in text
    assert {rule.fewest for rule in RULES.values()} == {3}
    assert "at least three pairs" in text


def test_the_docs_have_the_limits_of_judging() -> None:
    docs = Path(__file__).parents[2] / "docs"
    guide, page = (" ".join((docs / name).read_text().split()) for name in ("guide/distil.md", "results/distil.md"))
    assert f"at most {PLAIN:,} characters" in page
    assert f"its first {PLAIN:,} characters are measured as well, in windows of {WINDOW} tokens" in guide
    assert batch_size.SHARE == 12
    assert f"at most {batch_size.WRITE_MOST:,}, that take no more than a twelfth of the GPU's memory" in guide
    assert f"When they have {ROUND} tokens, and then each time that they have twice as many" in guide
    assert f"on a CPU in batches of {batch_size.WRITE_ON_CPU}." in guide
    assert f"of at most {batch_size.READ_MOST}; on a CPU of {batch_size.READ_ON_CPU}." in guide


def test_bases_and_plans() -> None:
    methods = ["ce", "kl", "skl", "skl+mta", "mta-strong", "uld", "sra"]
    assert [base_of(one, methods) for one in methods] == ["", "ce", "ce", "skl", "skl", "ce", "ce"]
    assert base_of("skl+mta", ["ce", "skl+mta"]) == ""
    assert [one.folder for one in plan(["ce", "skl + mta"], [0, 1])] == [
        "runs/ce-seed0", "runs/skl+mta-seed0", "runs/ce-seed1", "runs/skl+mta-seed1",
    ]  # fmt: skip
    assert split_list("ce, kl(temperature=2), mta(words=6, phrases=9,12)") == [
        "ce", "kl(temperature=2)", "mta(words=6, phrases=9,12)",
    ]  # fmt: skip
    assert re.fullmatch(r"kl_temperature_2_-\w{6}", slug("kl(temperature=2)"))


@pytest.mark.parametrize(
    ("methods", "seeds", "message"),
    [
        (["skl+mta", "mta"], [0], "--methods: mta is the same as skl\\+mta: drop it"),
        (["ce"], [0, 0], "different seeds"),
        ([], [0], "needs methods"),
        (["cee"], [0], 'there is no term "cee"'),
    ],
)
def test_wrong_plans_are_refused(methods: list[str], seeds: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(methods, seeds)


def test_an_empty_method_or_set_is_refused() -> None:
    with pytest.raises(ValueError, match="has an empty entry: write --methods ce,kl,skl,skl\\+mta"):
        check_methods(["ce", "", "kl"], [0])
    with pytest.raises(ValueError, match="each needs rows"):
        Exam({"dolly": []})


@pytest.mark.slow
def test_the_page_is_whole_in_a_browser(made: tuple[DistilResult, Training, Path]) -> None:
    file = made[0].save_page(made[2])
    with chromium() as browser:
        for width, colours in ((1280, "light"), (390, "dark")):
            page, wrong = visit(browser, file, width, colours)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.locator("pre", has_text=ATTACK).count() >= 2  # as text: the instruction and the reference
            assert page.locator("#chart-distance").count() == 1
            assert wrong == []


def test_the_verdict_says_what_was_settled_and_what_was_not() -> None:
    runs = runs_of(VALUES)
    rows = [row_of(runs, method, list(VALUES), ["dolly"]) for method in VALUES]
    differences = differences_of(rows, runs)
    blank: Any = {
        "seeds": (0, 1, 2),
        "sets": ("dolly",),
        "others": {},
        "runs": tuple(runs),
        "shown": (),
        "made": Provenance(versions={}, commit=None),
    }
    result = DistilResult(
        rows=tuple(rows), differences=tuple(differences), claims=tuple(claims_of(differences)), **blank
    )
    verdict = distil_verdict(result)
    assert verdict.kind == "settled"
    assert verdict.sentence == (
        "A higher ROUGE-L is supported for kl over ce; undecided for skl over ce. "
        "Fewer bits per byte are supported for kl over ce; undecided for skl over ce."
    )
    sure, few = Estimate(-1.0, -1.5, -0.5, 3), Estimate(-1.0, None, None, 1)
    wide = Estimate(1.0, -1.0, 3.0, 3)

    def told(*found: tuple[str, str, Estimate | None]) -> Verdict:
        own = tuple(Difference(what, of, "ce", (), one) for what, of, one in found)
        return distil_verdict(replace(result, differences=own, claims=tuple(claims_of(own))))

    both = told((ROUGE, "kl", sure), (ROUGE, "x", sure)).sentence
    assert both == "A higher ROUGE-L is not supported for kl over ce and x over ce."
    kinds = [
        told((ROUGE, "kl", sure), (BITS, "kl", few)), told((BITS, "kl", wide), (BITS, "kl", few)),
        told((BITS, "kl", few), (ROUGE, "kl", None)), told((BITS, "kl", wide)),
    ]  # fmt: skip
    assert [one.kind for one in kinds] == ["settled", "open", "too few", "open"]
    alone = distil_verdict(replace(result, claims=()))
    assert (alone.kind, alone.sentence[:21]) == ("open", "Nothing was compared:")

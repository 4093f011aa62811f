"""Methods of distillation compared: one study with real models, its statistics, its rule, its page."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from commands import read_back
from inline import forked
from scipy import stats
from tiny_causal import ROWS, gpt2, llama

from splitstep.distillation.judging import reading
from splitstep.distillation.judging.answers import ROUND, Writing, write_answers
from splitstep.distillation.judging.exam import WINDOW, Exam, Figures, share_ended
from splitstep.distillation.judging.reading import Causal, answer_bits, total
from splitstep.distillation.judging.rouge import mean_rouge
from splitstep.experiments import running
from splitstep.experiments.experiment import Difference
from splitstep.experiments.statistics import Estimate
from splitstep.experiments.trials import Curve
from splitstep.jobs import open_engine
from splitstep.report.document import Verdict
from splitstep.report.tables import to_markdown
from splitstep.studies.distil import STUDY, compare_methods
from splitstep.studies.distil.directory import plan, slug
from splitstep.studies.distil.document import ENDED, headline, main_table
from splitstep.studies.distil.inputs import PLAIN
from splitstep.studies.distil.result import BITS, COMPARED, ROUGE, DistilResult, DistilRun, distil_verdict, with_claims
from splitstep.studies.distil.study import Distilled, base_of, differences_of, row_of
from splitstep.support.provenance import Provenance
from splitstep.support.words import split_list
from splitstep.text.instructions import Row

DOCS = Path(__file__).parents[2] / "docs"
ATTACK = '<script>alert("x")</script>'
HELD_OUT = [Row(f"Q: {ATTACK}\nA: ", f"{ATTACK} dog", ATTACK), *ROWS[2:]]
EXAM = Exam({"dolly": HELD_OUT, "self-instruct": ROWS[:1]}, Writing(seeds=(1, 2), max_tokens=6), " ".join(
    row.answer for row in ROWS), window=32)  # fmt: skip
METHODS = ["ce", "skl", "skl+mta", "rkl"]
CUT = ", cut off after 6 tokens</p>"
pytestmark = pytest.mark.usefixtures("inline")


def student() -> Causal:
    """A student whose answers end often: at one token of eight."""
    one = llama(layers=2, width=16, seed=1)
    one.model.generation_config.eos_token_id = list(range(5, one.model.config.vocab_size, 8))
    return one


class Training:
    """A trivial training of a tiny student: a few steps of cross entropy on two rows; the method scales its rate, and
    rkl diverges."""

    steps = 3

    def __init__(self, start: Callable[[], Causal] = student) -> None:
        self.begin, self.calls = start, list[tuple[str, int, Path]]()

    def teacher(self) -> Causal:
        return llama()

    def start(self) -> Causal:
        return self.begin()

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        self.calls.append((method, seed, folder))
        student = self.start()
        torch.manual_seed(seed)
        optimiser, losses = torch.optim.Adam(student.model.parameters(), 1e-3 * len(method)), list[float]()
        for _ in range(self.steps):
            row = ROWS[int(torch.randint(2, ()))]
            ids = student.tokenizer(row.prompt + row.answer, return_tensors="pt")["input_ids"]
            loss = student.model(ids, labels=ids).loss
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        curve = Curve((1, 2, 3), tuple(losses))
        return Distilled(None if method == "rkl" else student, 3, 0.1, "cpu", curve, curve)


class Made(NamedTuple):
    """A study that was run: its result, what trained its students, and its directory."""

    result: DistilResult
    training: Training
    out: Path

    def again(self, out: Path, methods: Sequence[str] = METHODS, exam: Exam = EXAM, **more: Any) -> DistilResult:
        return compare_methods(self.training, exam, methods, range(2), out, quiet=True, **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    out, training = tmp_path_factory.mktemp("terms"), Training()
    return Made(compare_methods(training, EXAM, METHODS, range(2), out, quiet=True), training, out)


@pytest.fixture
def copied(made: Made, tmp_path: Path) -> Path:
    """A copy of the directory of the study."""
    return Path(shutil.copytree(made.out, tmp_path / "study"))


def answers_in(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    return json.loads((folder / "answers.json").read_text())


def test_every_method_is_run_with_every_seed_and_judged(made: Made) -> None:
    result, training, out = made
    assert [call[:2] for call in training.calls] == [(method, seed) for seed in range(2) for method in METHODS]
    assert len({call[2] for call in training.calls}) == 8
    assert [(row.method, row.base, row.finished, row.diverged) for row in result.rows] == [
        ("ce", "", 2, 0), ("skl", "ce", 2, 0), ("skl+mta", "skl", 2, 0), ("rkl", "ce", 0, 2),
    ]  # fmt: skip
    run, one = result.of("skl")[1], Training().train("skl", 1, out).student
    kept = answers_in(out / run.folder)
    ended = []
    for name, rows in EXAM.sets.items():
        written = write_answers(*one, [row.prompt for row in rows], EXAM.writing)
        texts = [[each["text"] for each in kept[name][str(seed)]] for seed in written]
        assert [[each["ended"] for each in kept[name][str(seed)]] for seed in written] == [
            [each.ended for each in own] for own in written.values()
        ]
        scores = [mean_rouge(own, [row.answer for row in rows]) for own in texts]
        assert run.figures.rouge_on[name] == pytest.approx(np.mean(scores))
        ended.append(share_ended(written))
    assert run.figures.ended == pytest.approx(np.mean(ended))
    assert run.figures.rouge == pytest.approx(np.mean(list(run.figures.rouge_on.values())))
    assert run.figures.bits_per_byte == pytest.approx(total(answer_bits(*one, EXAM.rows)).per_byte, rel=1e-4)
    assert [each.teacher_layer for each in run.figures.distances] == [2, 4]
    assert [(name, one.top1 is None) for name, one in result.others.items()] == [
        ("teacher", True), ("student before", False),
    ]  # fmt: skip


def test_a_study_that_is_started_again_runs_nothing_twice(made: Made) -> None:
    before = len(made.training.calls)
    again = made.again(made.out)
    assert len(made.training.calls) == before
    assert replace(again, made=made.result.made) == made.result
    other = replace(EXAM, writing=replace(EXAM.writing, max_tokens=7))
    with pytest.raises(ValueError, match="was judged on other rows or with other settings: name a new directory"):
        made.again(made.out, exam=other)


DAMAGED = [*(("judged.json", text) for text in ("", "{", "{}", "[]")), ("answers.json", "{"), ("answers.json", "[]"),
           ("answers.json", '{"dolly": {"1": [5]}}')]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), DAMAGED)
def test_what_was_kept_and_is_damaged_is_refused_by_its_file(made: Made, tmp_path: Path, name: str, text: str) -> None:
    shutil.copytree(made.out / "others", tmp_path / "others")
    (tmp_path / "others" / "teacher" / name).write_text(text)
    with pytest.raises(
        ValueError, match=r"others/teacher: .*is damaged .*: delete judged.json, and it is judged again$"
    ):
        made.again(tmp_path, ["ce"])


DOCUMENT: dict[str, Any] = {
    "task": "instruct", "network": "pretrained", "start": "S", "data": {"path": ["text.jsonl"], "test": 4},
    "objective": {"name": "distil", "teacher": "T", "method": "ce", "cache": "out/teacher"}, "train": {"steps": 5},
}  # fmt: skip


def test_a_directory_belongs_to_one_recipe(made: Made, copied: Path) -> None:
    """Else what was judged with one learning rate would be shown as the result of another."""
    made.again(copied, recipe=DOCUMENT)
    methods = DOCUMENT | {"objective": DOCUMENT["objective"] | {"method": "skl"}}
    assert [run.method for run in made.again(copied, ["skl"], recipe=methods).runs] == ["skl"] * 2
    others = {
        "train.lr": DOCUMENT | {"train": {"steps": 5, "lr": 0.5}},
        "start": DOCUMENT | {"start": "U"},
        "objective.teacher": DOCUMENT | {"objective": DOCUMENT["objective"] | {"teacher": "U"}},
        "model.layers": DOCUMENT | {"model": {"layers": 3}},
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=rf"study holds a comparison with {name}=.*: name a new directory"):
            made.again(copied, ["ce"], recipe=other)


class KilledOnce(Training):
    """A training whose first worker is killed after a student has learnt, and before it is judged."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.marker = marker

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        made = super().train(method, seed, folder)
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return made


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_engine_nor_on_a_killed_worker(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "open_engine", open_engine)
    killed, out = KilledOnce(tmp_path / "killed"), tmp_path / "there"
    with forked():
        found = compare_methods(killed, EXAM, ["ce"], range(2), out, engine="local=2", quiet=True)
    assert killed.marker.exists()
    assert found.made.engine == "local=2"
    assert found.runs == tuple(made.result.of("ce"))
    assert (found.rows, found.others) == (made.result.rows[:1], made.result.others)
    folders = [path.parent.relative_to(out) for path in out.glob("*/*/answers.json")]
    assert len(folders) == 4
    assert all(answers_in(out / folder) == answers_in(made.out / folder) for folder in folders)


def test_the_result_is_read_back_as_it_was_written(made: Made, tmp_path: Path) -> None:
    made.result.save(tmp_path)
    assert read_back(tmp_path) == made.result


def older(result: DistilResult) -> DistilResult:
    """The result as it was when nobody asked which answers end."""
    document = json.loads(json.dumps(result.json()))
    answers = [one for shown in document["shown"] for one in shown["answers"]]
    figures = [run["figures"] for run in document["runs"] if run["figures"]]
    for one in (*document["rows"], *document["others"].values(), *figures, *answers):
        one.pop("ended", None)
    return STUDY.read(document, "it")


def test_the_table_shows_how_many_answers_end_unless_the_result_is_older(made: Made) -> None:
    before = older(made.result)
    assert before.rows[0].ended is None
    assert [ENDED in main_table(one).columns for one in (made.result, before)] == [True, False]
    some = [*before.of("skl")[:1], *made.result.of("skl")[1:]]  # a study that an older version began
    row = row_of(some, "skl", METHODS, list(EXAM.sets))
    assert (row.ended, row.rouge) == (None, made.result.rows[1].rouge)
    head = to_markdown(main_table(made.result)).splitlines()[0]
    for words in ("answers that end", "bits per byte of answers", "bits per byte of text", "same token as the teacher"):
        assert f"| {words} [95%] |" in head


def test_the_page_escapes_what_is_in_the_data_and_marks_answers_that_are_cut_off(made: Made, tmp_path: Path) -> None:
    result, page = made.result, made.result.save_page(tmp_path).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; dog" in page
    assert page.count(">teacher, ") == len(result.shown)
    assert "the band is from the least to the greatest" in page
    assert "Nothing was compared" not in page
    every = [one for shown in result.shown for one in shown.answers]
    assert all((one.ended is None) == (one.who == "reference") for one in every)
    assert {one.ended for one in every} == {None, True, False}
    assert page.count(CUT) == page.count(" …</pre>") == sum(one.ended is False for one in every)
    assert CUT not in older(result).save_page(tmp_path).read_text()
    numbers = {"dolly": range(3), "self-instruct": range(1)}
    for method in METHODS[:3]:  # the answers are those of each method's first seed
        kept = answers_in(made.out / result.of(method)[0].folder)
        assert [{"text": one.text, "ended": one.ended} for one in every if one.who == method] == [
            kept[name]["1"][number] for name, own in numbers.items() for number in own
        ]


def test_answers_of_an_older_version_are_read_and_have_no_mark(made: Made, copied: Path) -> None:
    for folder in ("others/teacher", "runs/ce-seed0"):
        texts = {
            name: {seed: [one["text"] for one in answers] for seed, answers in own.items()}
            for name, own in answers_in(copied / folder).items()
        }
        (copied / folder / "answers.json").write_text(json.dumps(texts))
    again = made.again(copied)
    for ours, theirs in zip(again.shown, made.result.shown, strict=True):
        assert ours.answers == tuple(
            one._replace(ended=None) if one.who in ("teacher", "ce") else one for one in theirs.answers
        )


def test_a_student_of_another_tokenizer_is_judged_too(tmp_path: Path) -> None:
    exam = Exam({"dolly": ROWS[:1]}, Writing(seeds=(1,), max_tokens=2))
    training = Training(partial(gpt2, layers=1))
    result = compare_methods(training, exam, ["ce", "sra"], [0], tmp_path, quiet=True)
    figures = result.runs[0].figures
    assert 0 < figures.shared < 1
    assert f"{figures.shared:.1%} of the teacher's" in unescape(result.save_page(tmp_path).read_text())
    assert result.claims[0].answer == "undecided"
    assert distil_verdict(result).kind == "too few"


def run_of(method: str, seed: int, rouge: float, bits: float = 1.0, ended: float | None = None) -> DistilRun:
    curve = Curve((1, 2), (3.0, 2.0))
    figures = Figures(rouge, {"dolly": rouge}, bits, top1=0.5, kl=1.0, shared=1.0, ended=ended)
    return DistilRun(method, seed, f"runs/{method}-{seed}", "finished", 2, 1.0, "cpu", curve, curve, figures)


VALUES = {"ce": [20.0, 21.0, 19.5, 20.2], "kl": [21.1, 21.9, 20.9, 21.2], "skl": [20.1, 20.8, 19.7]}


def result_of(values: Mapping[str, Mapping[int, float]], *more: DistilRun) -> DistilResult:
    """The result of runs with these ROUGE-L, and bits per byte that fall as it rises."""
    runs = [run_of(method, seed, x, 2 - x / 100) for method, own in values.items() for seed, x in own.items()]
    rows = [row_of([*runs, *more], method, list(values), ["dolly"]) for method in values]
    differences, nothing = tuple(differences_of(rows, [*runs, *more])), Provenance(versions={}, commit=None)
    return with_claims(
        DistilResult((0, 1, 2), ("dolly",), tuple(rows), {}, differences, (), tuple(runs), (), nothing)
    )  # fmt: skip


@pytest.fixture(scope="module")
def worked() -> DistilResult:
    return result_of({method: dict(enumerate(own)) for method, own in VALUES.items()})


def test_an_interval_of_a_share_ends_at_all() -> None:
    shares = [0.92, 1.0, 1.0, 1.0]
    ended = row_of([run_of("ce", seed, 20.0, ended=x) for seed, x in enumerate(shares)], "ce", ["ce"], ["dolly"]).ended
    low, high = stats.t.interval(0.95, 3, np.mean(shares), stats.sem(shares))
    assert high > 1
    assert (ended.low, ended.high) == (pytest.approx(low, rel=1e-12), 1)


def stated(ours: Sequence[float], theirs: Sequence[float], margin: float) -> str:
    """The rule of docs/results/distil.md once more, from scipy's test."""
    d = np.array(ours) - np.array(theirs)[: len(ours)]
    interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    if interval.low > 0:
        return "supported"
    if interval.high < 0 or (-margin < interval.low and interval.high < margin):
        return "not supported"
    return "undecided"


def test_differences_are_paired_by_seed_with_students_interval(worked: DistilResult) -> None:
    found = {(one.what, one.of): one for one in worked.differences}
    answers = {(one.what, one.of): claim for one, claim in zip(worked.differences, worked.claims, strict=True)}
    for method, answer in (("kl", "supported"), ("skl", "undecided")):
        d = np.array(VALUES[method]) - np.array(VALUES["ce"])[: len(VALUES[method])]
        low, high = stats.t.interval(0.95, len(d) - 1, d.mean(), stats.sem(d))
        one, bits = found[ROUGE, method], found[BITS, method].found
        assert one.seeds == tuple(range(len(d)))
        assert (one.found.mean, one.found.low, one.found.high) == pytest.approx((d.mean(), low, high))
        assert (bits.low, bits.high) == pytest.approx((-high / 100, -low / 100))
        rouge, said = answers[ROUGE, method], answers[BITS, method]
        assert rouge.answer == stated(VALUES[method], VALUES["ce"], 0.2) == answer
        assert rouge.question == f"{method} has a higher mean ROUGE-L than ce"
        assert (said.answer, said.question) == (answer, f"{method} has fewer bits per byte than ce")
        assert said.evidence == (
            f"{method} minus ce is {bits.mean:+.4f} bits per byte (95% interval {bits.low:+.4f} to {bits.high:+.4f}, "
            f"{bits.n} seeds)"
        )


def test_only_seeds_that_both_methods_finished_are_paired() -> None:
    values = {"ce": {0: 20.0, 1: 21.0, 3: 19.0}, "kl": {1: 22.0, 2: 30.0, 3: 20.5}}
    lost = run_of("kl", 0, 0.0)._replace(status="diverged", figures=None)
    rouge, _ = result_of(values, lost).differences
    assert rouge.seeds == (1, 3)
    assert (rouge.found.mean, rouge.found.n) == (pytest.approx(1.25), 2)


def test_the_docs_have_the_margins_and_the_limits_of_judging() -> None:
    guide, page = (" ".join((DOCS / name).read_text().split()) for name in ("guide/distil.md", "results/distil.md"))
    assert f"within ±{COMPARED[ROUGE].rule.margin:g} points" in page
    assert f"margin of ±{COMPARED[BITS].rule.margin:g}" in page
    assert {by.rule.fewest for by in COMPARED.values()} == {3}
    assert "at least three pairs" in page
    assert f"at most {PLAIN:,} characters" in page
    assert f"its first {PLAIN:,} characters are measured as well, in windows of {WINDOW} tokens" in guide
    assert reading.SHARE == 12
    assert f"at most {reading.WRITE_MOST:,}, that take no more than a twelfth of the GPU's memory" in guide
    assert f"When they have {ROUND} tokens, and then each time that they have twice as many" in guide
    assert f"on a CPU in batches of {reading.WRITE_ON_CPU}." in guide
    assert f"of at most {reading.READ_MOST}; on a CPU of {reading.READ_ON_CPU}." in guide


def test_bases_and_plans() -> None:
    methods = ["ce", "kl", "skl", "skl+mta", "mta-strong", "uld", "sra"]
    assert [base_of(one, methods) for one in methods] == ["", "ce", "ce", "skl", "skl", "ce", "ce"]
    assert base_of("skl+mta", ["ce", "skl+mta"]) == ""
    assert [one.folder for one in plan(["ce", "skl + mta"], [0, 1])] == [
        "runs/ce-seed0", "runs/skl+mta-seed0", "runs/ce-seed1", "runs/skl+mta-seed1",
    ]  # fmt: skip
    listed = "ce, kl(temperature=2), mta(words=6, phrases=9,12)"
    assert split_list(listed) == ["ce", "kl(temperature=2)", "mta(words=6, phrases=9,12)"]
    assert slug("kl(temperature=2)") == "kl_temperature_2_-05103c"


@pytest.mark.parametrize(("methods", "seeds", "message"), [
    (["skl+mta", "mta"], [0], "--methods: mta is the same as skl\\+mta: drop it"),
    (["ce"], [0, 0], "different seeds"),
    (["ce", "", "kl"], [0], "has an empty entry: write --methods ce,kl,skl,skl\\+mta"),
    ([], [0], "has an empty entry"),
    (["cee"], [0], 'there is no term "cee"'),
])  # fmt: skip
def test_wrong_plans_are_refused(methods: list[str], seeds: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(methods, seeds)


def test_the_verdict_says_what_was_settled_and_what_was_not(worked: DistilResult) -> None:
    verdict = distil_verdict(worked)
    assert verdict.kind == "settled"
    assert verdict.sentence == (
        "A higher ROUGE-L is supported for kl over ce; undecided for skl over ce. "
        "Fewer bits per byte are supported for kl over ce; undecided for skl over ce."
    )
    sure, few = Estimate(-1.0, -1.5, -0.5, 3), Estimate(-1.0, None, None, 1)
    wide = Estimate(1.0, -1.0, 3.0, 3)

    def told(*found: tuple[str, str, Estimate | None]) -> Verdict:
        own = tuple(Difference(what, of, "ce", (), one) for what, of, one in found)
        return distil_verdict(with_claims(replace(worked, differences=own)))

    both = told((ROUGE, "kl", sure), (ROUGE, "x", sure)).sentence
    assert both == "A higher ROUGE-L is not supported for kl over ce and x over ce."
    kinds = [
        told((ROUGE, "kl", sure), (BITS, "kl", few)), told((BITS, "kl", wide), (BITS, "kl", few)),
        told((BITS, "kl", few), (ROUGE, "kl", None)), told((BITS, "kl", wide)),
    ]  # fmt: skip
    assert [one.kind for one in kinds] == ["not supported", "open", "too few", "open"]
    assert headline(worked) == "kl beats ce in ROUGE-L and bits per byte."
    alone = distil_verdict(replace(worked, claims=()))
    assert (alone.kind, alone.sentence[:21]) == ("open", "Nothing was compared:")

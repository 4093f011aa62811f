"""Comparisons: what is run, what is reused, what is averaged, on which engine."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import dask_cluster
from inline import forked, here
from jobs import answer, clear_up, die, die_once, linger, refuse, title_of
from made_up import ACCURACY, comparison, translation, trial

from splitstep import jobs as engines
from splitstep import own_letters
from splitstep.experiments import running
from splitstep.experiments.plan import Planned, entrants_of, file_name, plan, read_sweep
from splitstep.experiments.statistics import (
    draw_sentences,
    estimate,
    mean_difference,
    resampled_differences,
    two_sided_p,
)
from splitstep.experiments.study import STUDIES
from splitstep.experiments.trials import Curve, read_curves, thinned
from splitstep.jobs import Engine, Processes, open_engine
from splitstep.letters import LETTERS
from splitstep.report.drawing import document_to_page
from splitstep.studies.compare import compare, tables
from splitstep.studies.compare.result import Comparison, against, rows_of
from splitstep.studies.compare.test_splits import bleu_of, sentence_counts
from splitstep.support.words import split_list
from splitstep.tasks.measures import PERPLEXITY
from splitstep.training import Recipe, RunDirectory, TrainOptions, read_recipe
from splitstep.training.progress import Progress, RunsProgress

read_comparison = STUDIES["compare"].read


def tiny(**train: Any) -> Recipe:
    """A recipe of a fraction of a second."""
    document = {
        "task": "digits",
        "data": {"patch": 4},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 64},
        "train": {"steps": 6, "batch": 8, "evaluate_every": 3, "log_every": 1, **train},
    }
    return read_recipe(document, "test")


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "open_engine", here)


# What is asked for


def planned(schemes: str = "lie", sweep: Sequence[str] = (), seeds: Sequence[int] = (0,)) -> list[Planned]:
    return plan(entrants_of(tiny(), split_list(schemes)), seeds, read_sweep(sweep))


def test_the_plan_has_every_scheme_with_every_setting_and_seed_in_a_folder_of_its_own() -> None:
    runs = planned("lie,F0/2 A F1/2,A F/2 F/2", ["train.lr=1e-3,3e-3"], range(3))
    assert len(runs) == 3 * 3 * 2 == len({run.folder for run in runs})
    assert {(str(r.recipe.scheme), r.recipe.train.lr, r.recipe.train.seed) for r in runs} == {
        (s, lr, seed) for s in ("A F", "F0/2 A F1/2", "A F/2 F/2") for lr in (1e-3, 3e-3) for seed in range(3)
    }
    assert runs[0].folder == "runs/lie-lr1e-3-seed0"
    assert all(str(run.recipe.reference) == "A F" for run in runs)
    both = planned(sweep=["train.lr=1,2", "train.clip=0,1"])
    assert [(r.recipe.train.lr, r.recipe.train.clip) for r in both] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    decimal = planned(sweep=["train.lr=0.01,1.01"])
    assert [run.folder for run in decimal] == ["runs/lie-lr0.01-seed0", "runs/lie-lr1.01-seed0"]
    lists = planned(sweep=["train.betas=[0.9, 0.95],[0.9, 0.99]"])
    assert [run.recipe.train.betas for run in lists] == [(0.9, 0.95), (0.9, 0.99)]
    assert lists[0].folder != lists[1].folder
    assert len({file_name(f"data.path={text}") for text in ("x/y.txt", "xy.txt", " x/y.txt")}) == 3


@pytest.mark.parametrize(("schemes", "sweep", "message"), [
    ("", [], "has an empty entry"),
    ("lie,A F", [], "'A F' is listed twice"),
    ("lie,macaron", ["train.lr=1e-3,0.001"], "repeats an earlier setting"),
    ("lie", ["train.lr"], "not of the form key=value,value"),
    ("lie", ["train.lr=1,,2"], "not of the form key=value,value"),
    ("lie", ["scheme=lie,macaron"], "sets scheme itself"),
    ("lie", ["train.seed=1,2"], "sets train.seed itself"),
    ("lie", ["train.lr=1,2", "train.lr=3"], "train.lr is given twice"),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused(schemes: str, sweep: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planned(schemes, sweep, range(2))


# What is averaged


def test_rows_are_means_over_seeds_with_differences_paired_by_seed() -> None:
    ours, theirs = (0.5, 0.7, 0.6), (0.6, 0.9, 0.65)
    trials = [trial("A F", s, v) for s, v in enumerate(ours)] + [trial("F A", s, v) for s, v in enumerate(theirs)]
    first, second = rows_of(trials, ACCURACY)
    assert (first.name, second.name, first.difference) == ("lie", "reverse-lie", None)
    assert first.test == pytest.approx(estimate(ours))
    assert second.difference == pytest.approx(estimate([0.1, 0.2, 0.05]))
    assert (first.finished, first.diverged) == (3, 0)


def test_diverged_runs_are_counted_and_in_no_mean() -> None:
    trials = [trial("A F", 0, 0.5), trial("A F", 1, None), trial("A F", 2, 0.9)]
    trials += [trial("F A", 0, 0.6), trial("F A", 1, 0.9), trial("F A", 2, None)]
    first, second = rows_of(trials, ACCURACY)
    assert (first.test.mean, first.finished, first.diverged) == (0.7, 2, 1)
    assert second.difference == pytest.approx((0.1, None, None, 1))
    [alone] = rows_of([trial("A F", 0, None)], ACCURACY)
    assert (alone.test, alone.valid, alone.diverged) == (None, None, 1)


def test_figures_that_are_not_finite_are_counted_apart_and_in_no_mean() -> None:
    trials = [trial("A F", seed, value) for seed, value in enumerate((math.inf, 0.5, 0.7))]
    trials += [trial("F A", seed, value) for seed, value in enumerate((0.6, math.nan, 0.8))]
    trials += [trial("A+F", 0, -math.inf)]
    first, second, third = rows_of(trials, ACCURACY)
    assert first.test == pytest.approx(estimate([0.5, 0.7]))
    assert second.difference == pytest.approx((0.1, None, None, 1))  # the only seed that both have
    assert (third.test, third.difference) == (None, None)
    assert [(row.finished, row.diverged, row.not_finite) for row in (first, second, third)] == [
        (3, 0, 1), (3, 0, 1), (1, 0, 1),
    ]  # fmt: skip
    result = comparison(trials)
    text = json.dumps(result.json(), allow_nan=False)
    again = read_comparison(json.loads(text), "there")
    assert again.rows == result.rows
    for cells in (tables.comparison_tables(again)[0], tables.tables_together([("it", again)])[0]):
        assert [row[2][-1] for row in cells.rows] == ["1 of 3 not finite", "1 of 3 not finite", "1 of 1 not finite"]
        assert "Figures not finite, and left out of the means: 3 runs." in cells.notes[0]
    page = re.sub(r"<script>.*?</script>", "", document_to_page(again.document()), count=1, flags=re.DOTALL)
    assert "NaN" not in page
    assert "Infinity" not in page


def test_curves_are_thinned_by_averaging() -> None:
    points = [(step, float(step)) for step in range(1, 1001)]
    curve = thinned(points, 1000)
    assert (len(curve.steps), curve.steps[-1]) == (200, 1000)
    assert curve.values[0] == pytest.approx(3.0)
    assert sum(curve.values) * 5 == pytest.approx(sum(v for _, v in points))
    assert thinned(points[:150], 150).values == tuple(v for _, v in points[:150])
    assert thinned([], 0) == ((), ())


def test_a_log_may_hold_figures_that_are_not_finite(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for step, loss in enumerate((2.0, "nan", "inf", 1.0), 1):
        directory.log({"step": step, "split": "train", "loss": loss})
    found = read_curves(directory, "accuracy", TrainOptions(steps=4, log_every=1, evaluate_every=4))
    assert found == {"train_loss": ((1, 4), (2.0, 1.0)), "valid_loss": ((), ()), "valid_metric": ((), ())}


def test_curves_of_a_run_that_broke_off_are_those_of_a_whole_one(tmp_path: Path) -> None:
    """Equal losses have a difference of nothing, whatever the number of steps that are averaged."""
    options = TrainOptions(steps=2000, log_every=7, evaluate_every=5)

    def curves(last: int) -> Mapping[str, Curve]:
        directory = RunDirectory(tmp_path / str(last))
        directory.path.mkdir()
        logged = [(step, split) for step in range(1, last + 1) for split, every in (("train", 7), ("valid", 5))
                  if step % 5 == 0 or step % every == 0]  # fmt: skip
        for step, split in logged:
            directory.log({"step": step, "split": split, "loss": 9.0 - 0.001 * step})
        return read_curves(directory, "accuracy", options)

    whole, broken = curves(2000), curves(801)
    for column in ("train_loss", "valid_loss"):
        full = len(broken[column].steps) - 1  # the last point may stand for fewer steps
        assert 50 < full < len(whole[column].steps) <= 200
        assert [one[:full] for one in broken[column]] == [one[:full] for one in whole[column]]


# Running


@pytest.mark.usefixtures("inline")
def test_a_comparison_runs_once_and_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its document is that of its runs; these are reused, more seeds only add, and another recipe is refused."""
    out, calls, real = tmp_path / "out", list[int](), running.run_one
    result = compare(tiny(), ["lie", "macaron"], range(2), out, quiet=True)
    assert [(t.scheme, t.seed) for t in result.trials] == [(s, k) for s in ("A F", "F0/2 A F1/2") for k in (0, 1)]
    for t in result.trials:
        own = json.loads((out / t.folder / "result.json").read_text())
        assert (t.test, t.valid, t.cost._asdict()) == (own["test"], own["valid"], own["cost"])
        assert (t.train_loss.steps, t.valid_metric.steps) == (tuple(range(1, 7)), (3, 6))
        assert t.valid["accuracy"] == max(t.valid_metric.values)
    text = json.dumps(result.json(), allow_nan=False)
    assert str(tmp_path) not in text
    assert read_comparison(json.loads(text), "there") == result
    matched = result.rows[1].matched
    assert matched.by == "parameters"
    stamps = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}

    def spy(run: Planned, *rest: Any) -> Any:
        calls.append(run.seed)
        return real(run, *rest)

    monkeypatch.setattr(running, "run_one", spy)
    assert compare(tiny(), ["A F", "macaron"], range(2), out, quiet=True).trials == result.trials
    assert calls == []
    assert compare(tiny(), ["lie"], range(3), out, quiet=True).trials[:2] == result.trials[:2]
    assert calls == [2]
    with pytest.raises(ValueError, match="lie-seed0 belongs to another run") as error:
        compare(tiny(lr=0.5), ["strang", "lie"], [0], out, quiet=True)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="belongs to a single run"):
        compare(tiny(), ["lie"], [0], out / "runs" / "lie-seed0", quiet=True)
    assert calls == [2]
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


@pytest.mark.usefixtures("inline")
def test_a_scheme_without_a_twin_is_refused_before_anything_runs(tmp_path: Path) -> None:
    recipe = dataclasses.replace(tiny(), model={"layers": 1, "width": 8, "heads": 2, "ffn": 1})
    with pytest.raises(ValueError, match="comes no nearer"):
        compare(recipe, ["lie", "F0/3 A F1/3 F2/3"], [0], tmp_path, quiet=True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("inline")
def test_a_run_that_diverges_is_a_result(tmp_path: Path) -> None:
    result = compare(tiny(lr=1e30, warmup=0, clip=0.0), ["lie"], [0], tmp_path, quiet=True)
    [row] = result.rows
    assert (row.test, row.finished, row.diverged) == (None, 0, 1)
    text = json.dumps(result.json(), allow_nan=False)
    again = read_comparison(json.loads(text), "there")
    assert json.dumps(again.json()) == text
    found = again.trials[0].diverged
    assert math.isnan(found.loss)


@pytest.fixture
def translators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A recipe for two files of one's own: words that follow each other in a circle, and the same in capitals."""
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    words = ["dog", "cat", "tree", "house", "sees", "runs", "red", "blue"]
    random = np.random.default_rng(0)
    starts = random.integers(8, size=280)
    lines = [" ".join(words[(start + i) % 8] for i in range(random.integers(4, 9))) for start in starts]
    for split, rows in (("train", lines[:240]), ("valid", lines[240:250]), ("test", lines[250:])):
        (tmp_path / f"{split}.en").write_text("".join(f"{line}\n" for line in rows))
        (tmp_path / f"{split}.de").write_text("".join(f"{line.upper()}\n" for line in rows))
    data = {split: [str(tmp_path / f"{split}.{side}") for side in ("en", "de")] for split in ("train", "valid", "test")}
    document = {
        "task": "parallel",
        "data": {**data, "merges": 60, "beams": 2},
        "model": {"layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "ffn": 32},
        "train": {"steps": 40, "batch": 256, "lr": 0.02, "warmup": 5, "keep": "average", "average": 2},
    }
    return read_recipe(document, "test")


def written(out: Path, trial: Any) -> list[str]:
    return (out / trial.folder / "translations" / "test.txt").read_text().splitlines()


@pytest.mark.usefixtures("inline")
def test_translators_are_compared_on_every_test_set(translators: Recipe, tmp_path: Path) -> None:
    """Scores are the runs' own; differences and p are those of the files that they wrote, line by line."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    out = tmp_path / "out"
    result = compare(translators, ["lie", "macaron"], range(2), out, quiet=True)
    assert result.metric.name == "sacrebleu"
    assert [(one.split, one.scheme, one.lines) for one in result.tests] == [
        ("test", "A F", 30), ("test", "F0/2 A F1/2", 30),
    ]  # fmt: skip
    plain = (tmp_path / "test.de").read_text().splitlines()

    def words(lines: list[str]) -> list[str]:
        return list(map(Tokenizer13a(), lines))

    references, lines = words(plain), {(t.scheme, t.seed): written(out, t) for t in result.trials}
    for one in result.tests:
        scores = [(t.splits or {})["test"].figures["sacrebleu"] for t in result.trials if t.scheme == one.scheme]
        found = one.score("sacrebleu")
        assert found.mean.mean == pytest.approx(sum(scores) / 2)
        assert scores == pytest.approx([BLEU().corpus_score(lines[one.scheme, seed], [plain]).score for seed in (0, 1)])
        assert min(scores) > 1  # something was learnt, else nothing here would be tested
    first, second = result.tests
    assert (first.difference, first.pairs) == (None, ())
    counts = {key: sentence_counts(words(found), references) for key, found in lines.items()}
    ours, theirs = (np.stack([counts[notation, seed] for seed in (0, 1)]) for notation in ("F0/2 A F1/2", "A F"))
    found, drawn = (bleu_of(one.sum(1)) for one in (ours, theirs)), draw_sentences(30)
    gaps, resampled = np.subtract(*found), resampled_differences(ours, theirs, bleu_of, drawn)
    assert second.difference == mean_difference(gaps, resampled)
    assert [pair.difference for pair in second.pairs] == gaps.tolist()
    assert [pair.p for pair in second.pairs] == [two_sided_p(gaps[n], resampled[:, n]) for n in (0, 1)]
    text = json.dumps(result.json(), allow_nan=False)
    assert read_comparison(json.loads(text), "there") == result
    assert lines["A F", 0][0] not in text
    assert compare(translators, ["lie", "macaron"], range(2), out, quiet=True).tests == result.tests  # from files
    alone = compare(translators, ["lie", "macaron"], [0], out, quiet=True)
    assert "sentences alone: there is only one seed" in tables.note_on_test_sets(alone)
    assert "(sentences alone)" in tables.difference_on_test_set(alone, alone.tests[1])
    assert "Differences" not in tables.note_on_test_sets(compare(translators, ["lie"], range(2), out, quiet=True))
    (out / result.trials[0].folder / "translations" / "test.txt").unlink()
    with pytest.raises(ValueError, match=r"translations/test.txt is missing: delete .*lie-seed0"):
        compare(translators, ["lie", "macaron"], range(2), out, quiet=True)


@pytest.mark.usefixtures("inline")
def test_translators_that_diverge_are_in_no_pair(translators: Recipe, tmp_path: Path) -> None:
    lost = dataclasses.replace(translators, train=dataclasses.replace(translators.train, lr=1e30, warmup=0, clip=0.0))
    result = compare(lost, ["lie", "macaron"], [0], tmp_path / "out", quiet=True)
    assert [(one.lines, one.scores, one.difference) for one in result.tests] == [(0, (), None)] * 2


def test_differences_can_be_to_another_scheme() -> None:
    tests = {"lie": (0.80, 0.82, 0.90), "macaron": (0.85, 0.87, 0.95), "strang": (0.84, 0.83, 0.94)}
    result = comparison([trial(name, seed, test) for name, own in tests.items() for seed, test in enumerate(own)])
    turned = against(result, "macaron")
    assert [row.name for row in turned.rows] == ["macaron", "lie", "strang"]
    gaps = [row.difference.mean for row in turned.rows if row.difference]
    assert gaps == pytest.approx([-0.05, -0.02])
    assert [row.test for row in against(turned, "A F").rows] == [row.test for row in result.rows]
    with pytest.raises(ValueError, match="use one of lie, macaron, strang"):
        against(result, "rk4")
    with pytest.raises(ValueError, match="again with macaron first"):
        against(translation(2), "macaron")


def test_large_perplexities_have_commas_in_tables_and_read_back() -> None:
    values = {("lie", 0): 1234.5, ("lie", 1): 1230.5, ("macaron", 0): 12345.25, ("macaron", 1): 12349.25}
    trials = [
        dataclasses.replace(trial(text, seed, 1.0), valid={"perplexity": 1.0}, test={"perplexity": value})
        for (text, seed), value in values.items()
    ]
    result = comparison(trials, metric=PERPLEXITY, rows=tuple(rows_of(trials, PERPLEXITY)))
    assert read_comparison(json.loads(json.dumps(result.json())), "there") == result
    page = document_to_page(result.document())
    assert "1,232.50" in page
    assert "+11,114.75" in page


# Engines


def test_a_killed_process_costs_one_more_try_and_nobody_else_anything(tmp_path: Path) -> None:
    with Processes(2) as executor:
        killed = executor.submit(die_once, str(tmp_path / "marker"))
        others = [executor.submit(answer, i) for i in range(4)]
        hopeless = executor.submit(die)
        assert [f.result(60) for f in others] == [1, 2, 3, 4]
        assert killed.result(60) > 0
        with pytest.raises(BrokenProcessPool):
            hopeless.result(60)
        assert executor.submit(answer, 1).result(60) == 2
        with pytest.raises(ValueError, match="one clear line"):
            executor.submit(refuse).result(60)


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_leaving_an_engine_ends_processes_and_lets_idle_ones_clear_up(tmp_path: Path) -> None:
    file, word = tmp_path / "pid", tmp_path / "word"
    with open_engine("local=2", 2) as engine:
        assert engine.workers == 2
        engine.executor.submit(clear_up, str(word)).result(60)
        engine.executor.submit(linger, str(file))
        until(lambda: file.exists() and file.read_text())
    until(lambda: has_ended(int(file.read_text())))
    until(word.exists)


def has_ended(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_run_that_is_killed_twice_is_named() -> None:
    future: Future[Any] = Future()
    future.set_exception(BrokenProcessPool("gone"))
    [run] = planned()
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"^runs/lie-seed0: its process was killed"):
        running.outcome(future, run, Engine("local=1", executor, 1, (BrokenProcessPool,)))


def test_threads_do_not_depend_on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert engines.threads_per_job() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert engines.threads_per_job() == 3
    assert engines.default_workers() * 3 <= max(3, os.cpu_count() or 1)


def same(a: Comparison, b: Comparison) -> bool:
    """Whether two comparisons have the same figures, curves included; times differ."""
    one, other = ([(t.test, t.valid, t.train_loss, t.valid_metric) for t in each.trials] for each in (a, b))
    return one == other


def reference(recipe: Recipe, schemes: Sequence[str], seeds: Sequence[int], out: Path) -> Comparison:
    """The comparison with its runs one after another in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "open_engine", here)
        return compare(recipe, schemes, seeds, out, quiet=True)


@pytest.mark.slow
def test_figures_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    one = reference(tiny(), ["lie", "macaron"], [0], tmp_path / "1")
    with forked():
        two = compare(tiny(), ["lie", "macaron"], [0], tmp_path / "2", engine="local=2", quiet=True)
    assert same(one, two)
    kept = sorted((tmp_path / "1").glob("runs/*/model/model.safetensors"))
    assert len(kept) == 2
    for file in kept:
        assert file.read_bytes() == (tmp_path / "2" / file.relative_to(tmp_path / "1")).read_bytes()


def at_work(out: Path, pids: Callable[[], Iterable[int]], stop: threading.Event) -> int | None:
    """The worker of the first run that has begun and has not ended: a run holds a lock on its folder."""
    while not stop.is_set():
        for log in out.glob("runs/*/metrics.jsonl"):
            for pid in [] if (log.parent / "result.json").exists() else pids():
                with suppress(OSError):
                    handles = [os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").glob("*")]
                    if str(log.parent.resolve()) in handles:
                        return pid
        time.sleep(0.002)
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_loses_nothing_when_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LETTERS, "given", {})
    monkeypatch.setattr(own_letters, "SOURCES", {})
    recipe, stop, victims = tiny(steps=120, evaluate_every=60, log_every=10), threading.Event(), list[int]()
    local = reference(recipe, ["lie"], range(2), tmp_path / "local")
    with dask_cluster(2) as cluster:

        def kill_one_at_work() -> None:
            if pid := at_work(tmp_path / "dask", lambda: [one.pid for one in cluster.workers.values()], stop):
                os.kill(pid, signal.SIGKILL)
                victims.append(pid)

        killer = threading.Thread(target=kill_one_at_work)
        killer.start()
        try:
            engine = f"dask={cluster.scheduler_address}"
            remote = compare(recipe, ["lie"], range(2), tmp_path / "dask", engine=engine, quiet=True)
        finally:
            stop.set()
            killer.join()
        own_letters.read_letters([Path(__file__).parents[1] / "helpers" / "my_letter.py"])
        jobs = [running.Job("title", 1, title_of, ("G",))]
        with Progress("title", 1, quiet=True) as bar:
            [(_, title)] = running.run_jobs(jobs, tmp_path, engine, RunsProgress(bar, 1))
    assert title == "damping"  # the letter of this process has reached a worker
    assert len(victims) == 1
    assert same(local, remote)


@contextmanager
def dask_workers(address: str, number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers that nobody restarts, ended at last whatever state they are in."""
    command = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(number)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_that_falls_silent_and_wakes_up_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler gives it up and starts its run elsewhere, where its directory is locked until it has woken up."""
    import dask.config
    from distributed import Client

    monkeypatch.setattr(running, "HELD_SECONDS", 1.0)
    recipe = tiny(steps=400, evaluate_every=200, log_every=10)
    local = reference(recipe, ["lie"], range(2), tmp_path / "local")
    out, refused, stop = tmp_path / "dask", threading.Event(), threading.Event()

    def stop_one_at_work(pids: list[int]) -> None:
        if pid := at_work(out, lambda: pids, stop):
            os.kill(pid, signal.SIGSTOP)
            refused.wait(120)
            os.kill(pid, signal.SIGCONT)

    def note(self: RunsProgress, text: str) -> None:
        if "fell silent" in text:
            refused.set()

    monkeypatch.setattr(RunsProgress, "note", note)
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "1s"}),
        dask_cluster(0) as cluster,
        dask_workers(cluster.scheduler_address, 2) as workers,
    ):
        scheduler: Any = cluster.scheduler
        scheduler.worker_ttl = 600  # imports take long, and a worker is silent meanwhile
        with Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
            client.run(import_module, "splitstep.training")
        scheduler.worker_ttl = 6
        stopper = threading.Thread(target=stop_one_at_work, args=([one.pid for one in workers],))
        stopper.start()
        remote = compare(recipe, ["lie"], range(2), out, engine=f"dask={cluster.scheduler_address}")
        stop.set()
        stopper.join()
    assert refused.is_set()
    assert same(local, remote)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_does_not_answer_and_a_missing_package_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ANSWER_SECONDS", 0.3)
    with (
        pytest.raises(ValueError, match="no Dask scheduler answers at tcp://127") as error,
        open_engine("dask=tcp://127.0.0.1:9", 1),
    ):
        pass
    assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'splitstep\[cluster\]'"), open_engine("dask=tcp://x:1", 1):
        pass

"""Plans of comparisons: how long runs take, what a time has room for, and that a plan is kept."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from types import SimpleNamespace

import pytest
from inline import here

from splitstep import cli
from splitstep.experiments import running
from splitstep.experiments.plan import Entrant
from splitstep.experiments.running import Job, Workplace
from splitstep.models.cost import Cost
from splitstep.opening.fit import Fit
from splitstep.options import TrainOptions, evaluates
from splitstep.recipe import Recipe, load_recipe, read_recipe
from splitstep.studies.compare import planning
from splitstep.studies.compare.arms import Fitted
from splitstep.studies.compare.asked import FILE, outlined, question_of
from splitstep.studies.compare.campaign import Campaign, planned_stages
from splitstep.studies.compare.design import MOST_SEEDS, Design
from splitstep.studies.compare.outline import Outline, announced, totals
from splitstep.studies.compare.pace import Pace, makespan, pace_of
from splitstep.studies.compare.planning import (
    PILOTS,
    SIZES,
    Question,
    filled,
    fits,
    measured,
    pays,
    plan_of,
    seconds_of,
    sized,
    smaller_batches,
    with_size,
    within_text,
)
from splitstep.training import progress
from splitstep.training.networks import cost_of
from splitstep.training.progress import Progress, Running, RunsProgress

PACE = Pace(once=3.0, step=0.05, evaluation=0.5, bytes=1000, tokens=2048, parameters=826_112, flops=10, figure=5.0)
PACES = {"lie": [PACE, PACE._replace(step=0.06)], "macaron": [PACE]}


def question(text: Path, minutes: float = 10.0, design: Design | None = None) -> Question:
    recipe = load_recipe("own-text", [f"data.path={text}"])

    def fitted(one: Recipe) -> list[Fitted]:
        changed = [Entrant(one.changed({"scheme": name}), name, name, alone=True) for name in ("lie", "macaron")]
        return [Fitted(each, Fit(None, Cost(1, 1, 1, 1), 1.0)) for each in changed]

    task, tokens = recipe.load_task(), text.stat().st_size * 9 // 10
    return Question(recipe, fitted, task, tokens, range(5), design or Design(), minutes, paces=PACES)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace("compare", tmp_path / "out", None, "local=2", True)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of 900,000 tokens for training."""
    file = tmp_path / "text.txt"
    file.write_bytes(b"0123456789" * 100_000)
    return file


def shortest(seconds: Sequence[float], workers: int) -> float:
    """The least time of all ways to share runs among workers."""
    ways = itertools.product(range(workers), repeat=len(seconds))
    return min(
        max(sum(s for s, w in zip(seconds, way, strict=True) if w == one) for one in range(workers)) for way in ways
    )


@pytest.mark.parametrize("seconds", [[3.0, 3.0, 2.0, 2.0, 2.0], [5.0], [1.0] * 7, [4.0, 3.0, 2.0, 1.0]])
def test_workers_take_the_longest_run_that_is_left(seconds: list[float]) -> None:
    """It takes at most 4/3 of the shortest time, by Graham, and never less."""
    best = shortest(seconds, 2)
    assert best <= makespan(seconds, 2) <= 4 / 3 * best


def test_a_run_takes_its_start_its_updates_and_its_evaluations() -> None:
    for steps, every in ((100, 40), (80, 40), (7, 40), (105, 0), (9, 0)):
        options = TrainOptions(steps=steps, evaluate_every=every)
        count = sum(evaluates(options, step) for step in range(1, steps + 1))
        assert PACE.seconds(options) == pytest.approx(3.0 + steps * 0.05 + count * 0.5)


def test_a_plan_has_all_runs_that_may_be_needed(text: Path) -> None:
    asked = question(text, design=Design((1.0, 3.0), (1e-3, 3e-3, 9e-3), null=True))
    stages = asked._replace(seeds=range(4)).stages
    runs = list(itertools.chain(*stages))
    count = {(role, budget): sum((r.role, r.budget) == (role, budget) for r in runs)
             for role in ("", "tune", "null") for budget in (1.0, 3.0)}  # fmt: skip
    assert count == {("", 1.0): 8, ("", 3.0): 8, ("tune", 1.0): 8, ("tune", 3.0): 4, ("null", 1.0): 0, ("null", 3.0): 4}


def replace_steps(recipe: Recipe, steps: int) -> Recipe:
    return replace(recipe, train=replace(recipe.train, steps=steps))


@pytest.mark.parametrize("budgets", [(1.0,), (1.0, 3.0)])
@pytest.mark.parametrize(
    ("minutes", "tokens"), [(3.0, None), (8.0, None), (3.0, 900_000), (8.0, 900_000), (1000.0, 900_000)]
)
def test_a_time_is_filled_with_steps_as_far_as_the_text_goes_and_then_with_seeds(
    minutes: float, budgets: tuple[float, ...], tokens: int | None, text: Path
) -> None:
    asked = filled(question(text, minutes, Design(budgets))._replace(text=tokens), 2)
    steps, seeds = asked.recipe.train.steps, len(asked.seeds)
    assert fits(asked, 2)
    assert 5 <= seeds <= MOST_SEEDS
    assert seeds == MOST_SEEDS or not fits(asked._replace(seeds=range(seeds + 1)), 2)
    longer = asked._replace(recipe=replace_steps(asked.recipe, steps + 1), seeds=range(5))
    used_up = tokens is not None and (steps + 1) * PACE.tokens * budgets[-1] > tokens
    assert used_up or not fits(longer, 2)
    assert tokens is None or steps * PACE.tokens * budgets[-1] <= tokens


def test_the_network_sees_as_many_tokens_as_it_has_parameters(text: Path, place: Workplace) -> None:
    """In ten minutes a network of 4 x 128 does; in one there is time for the smallest alone."""
    found = [with_size(question(text, minutes), 2).recipe.model for minutes in (1.0, 10.0, 1e4)]
    assert [(one["layers"], one["width"], one["heads"]) for one in found] == [SIZES[0], SIZES[1], SIZES[1]]


def test_a_short_text_has_small_batches(text: Path) -> None:
    recipe = question(text).recipe
    assert [smaller_batches(recipe, tokens).train.batch for tokens in (900_000, 300_000, 45_000)] == [16, 8, 4]


@pytest.mark.parametrize("budgets", [(1.0,), (1.0, 3.0)])
def test_a_plan_says_that_the_text_is_used_up(budgets: tuple[float, ...], text: Path, place: Workplace) -> None:
    """With 5,000 minutes no step is left out but for lack of text; a step less does not use it up."""
    asked = filled(question(text, 5000.0, Design(budgets)), 2)
    steps = asked.recipe.train.steps

    def said(steps: int, seeds: int = MOST_SEEDS) -> str:
        less = asked._replace(recipe=replace_steps(asked.recipe, steps), seeds=range(seeds))
        return announced(plan_of("", less, place))

    longest = round(steps * budgets[-1])
    assert said(steps).endswith(f"; with {longest} steps the text is used up, and more time would not help.")
    assert said(steps, 5).endswith(f"; with {longest} steps the text is used up.")
    assert "used up" not in said(steps - 1)


@pytest.mark.parametrize("network", [0.02, 0.05, 0.1])
def test_ten_minutes_are_filled_by_a_megabyte_and_not_by_fifty_thousand_bytes(
    network: float, tmp_path: Path, place: Workplace
) -> None:
    """With 4 x 128 at these seconds an update, and costs of a run that starts, as two cores have them."""
    minutes = []
    for size in (50_000, 1_000_000, 20_000_000):
        (tmp_path / "text.txt").write_bytes(b"0123456789" * (size // 10))
        asked = question(tmp_path / "text.txt", 9.5)
        asked = asked._replace(recipe=smaller_batches(asked.recipe, size * 9 // 10))
        tokens = asked.recipe.train.batch * asked.recipe.options.length
        own = PACE._replace(
            once=1.0, step=network * tokens / 2048, evaluation=0.5 * min(1, size / 500_000), tokens=tokens
        )
        before = cost_of(asked.recipe, asked.task).flops
        asked = with_size(asked._replace(paces={"lie": [own], "macaron": [own]}), 2)
        own = own.scaled(cost_of(asked.recipe, asked.task).flops / before)
        asked = filled(asked._replace(paces={"lie": [own], "macaron": [own]}), 2)
        minutes.append(plan_of("", asked, place).seconds / 60)
    assert minutes[0] < 5
    assert all(8 <= one <= 9.5 for one in minutes[1:]), minutes


def test_what_was_typed_is_not_chosen(text: Path, place: Workplace) -> None:
    asked = question(text, 3.0)
    steps = filled(asked._replace(typed=frozenset({"train.steps"})), 2)
    assert steps.recipe.train.steps == asked.recipe.train.steps
    assert filled(asked._replace(minutes=0.5, typed=frozenset({"train.steps"})), 2).seeds == range(5)
    seeds = filled(asked._replace(seeds=range(3), typed=frozenset({"seeds"})), 2)
    assert seeds.seeds == range(3)
    assert seeds.recipe.train.steps != asked.recipe.train.steps
    typed = frozenset({"model.width", "train.batch"})
    assert sized(asked._replace(minutes=1.0, typed=typed), place).recipe == asked.recipe
    assert seeds.hash() != seeds._replace(typed=frozenset()).hash()


def test_seeds_beside_looks_are_refused(text: Path, place: Workplace) -> None:
    recipe = load_recipe("own-text", [f"data.path={text}"])
    with pytest.raises(ValueError, match="--until decided has looks at 4 to 12 seeds of its own: leave --seeds out"):
        question_of(recipe, ["lie", "macaron"], range(5), place, until="decided", typed=["seeds"])


@pytest.mark.parametrize("typed", [(), ("train.steps",)])
def test_budgets_stay_within_the_text_unless_steps_were_typed(typed: tuple[str, ...], text: Path) -> None:
    """600 steps of 2,048 tokens are more than 900,000, and so are three times 147."""
    asked = question(text, design=Design((1.0, 3.0)))._replace(minutes=None, typed=frozenset(typed))
    assert within_text(asked).recipe.train.steps == (600 if typed else 146)
    assert within_text(asked._replace(recipe=replace_steps(asked.recipe, 100))).recipe.train.steps == 100


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 16])
def test_updates_are_timed_with_all_processes_at_once(
    workers: int, text: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short runs of two arms are shared evenly, so no process is idle before the last of them end."""
    started = list[str]()

    def run_jobs(jobs: Sequence[Job], *rest: object) -> Iterator[tuple[Job, Pace]]:
        started.extend(job.folder for job in jobs)
        return ((job, PACE) for job in jobs)

    monkeypatch.setattr(planning, "run_jobs", run_jobs)
    found = measured(question(text), place._replace(engine=f"local={workers}")).paces
    assert len(started) == len(set(started)) == sum(map(len, found.values()))
    assert len(started) % workers == 0
    assert len(found["macaron"]) == 1
    assert PILOTS <= len(found["lie"]) < PILOTS + workers


def test_a_plan_is_made_once_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--task", "digits", "train.steps=2", "model.width=8", "model.heads=2", "model.ffn=64",
             "--arms", "lie,macaron", "--seeds", "3", "--out", str(tmp_path / "out")]  # fmt: skip
    assert cli.main([*words, "--plan"]) == 0
    said = capsys.readouterr()
    assert "6 runs take about" in said.out
    stored = json.loads((tmp_path / "out" / FILE).read_text())
    assert (stored["runs"], len(stored["arms"]), stored["steps"]) == (6, 2, 2)
    assert not (tmp_path / "out" / "runs").exists()
    assert cli.main([*words, "--plan"]) == 0
    assert "ms an update" not in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / FILE).read_text()) == stored
    assert Outline.__dataclass_fields__.keys() - {"faster"} == stored.keys(), "bfloat16 would take longer to time"


@pytest.mark.parametrize(
    ("faster", "more", "taken"),
    [(0.0, [], "bfloat16"), (1e9, [], "auto"), (0.0, ["train.precision=float32"], "float32")],
)
def test_bfloat16_is_taken_for_all_arms_where_it_pays_and_the_recipe_leaves_it_open(
    faster: float, more: list[str], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever this machine has: the processor counts as one with bfloat16, and what it pays is given."""
    monkeypatch.setattr(running, "open_engine", here)
    monkeypatch.setattr(planning, "native_bfloat16", lambda: True)
    monkeypatch.setattr(planning, "FASTER", faster)
    monkeypatch.setattr(planning, "WORTH", 0)
    recipe = load_recipe("digits", ["train.steps=2", "model.width=8", "model.heads=2", "model.ffn=64", *more])
    place = Workplace("compare", tmp_path, None, "local=1", True)
    asked = question_of(recipe, ["lie", "macaron"], range(3), place)
    plan = outlined(asked, place)
    assert plan.recipe["train"]["precision"] == taken
    said = [text for name, text in totals(plan) if name == "precision"]
    assert [text.split(";")[0] for text in said] == ([] if more else [{"auto": "float32"}.get(taken, taken)])
    assert outlined(asked, place) == plan, "the same command does not choose again"
    chosen = asked._replace(recipe=read_recipe(plan.recipe, "the plan")).entrants
    assert {one.recipe.train.precision for one in chosen} == {taken}
    assert plan.detectable is not None, "the spread is that of all short runs"


def test_bfloat16_is_not_timed_for_a_comparison_that_is_as_short(text: Path, place: Workplace) -> None:
    """Timing takes 12 seconds until workers have begun, and 10 for each of two arms."""
    asked = question(text)
    assert PACE.short == pytest.approx(2 * 3.0 + 40 * 0.05 + 4 * 0.5)
    assert [pays(asked._replace(minutes=minutes), 2) for minutes in (63 / 60, 65 / 60)] == [False, True]
    assert not pays(asked._replace(minutes=None, recipe=replace_steps(asked.recipe, 1)), 2)


def test_a_short_run_is_cut_short_when_its_share_of_the_time_is_used(tmp_path: Path) -> None:
    recipe = load_recipe("digits", ["model.width=8", "model.heads=2", "model.ffn=64"])
    whole, cut = pace_of(recipe, None), pace_of(recipe, None, 1e-9)
    assert isfinite(whole.figure)
    assert not isfinite(cut.figure)
    assert cut.evaluation == 0
    assert cut._replace(once=0, step=0, evaluation=0, bytes=0, figure=0) == whole._replace(
        once=0, step=0, evaluation=0, bytes=0, figure=0
    )


def test_short_runs_are_announced_named_and_interrupted_with_the_truth(
    text: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_jobs(jobs: Sequence[Job], *rest: object) -> Iterator[tuple[Job, Pace]]:
        yield from ((job, PACE) for job in jobs[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "run_jobs", run_jobs)
    with pytest.raises(KeyboardInterrupt, match="interrupted while measuring: the same command begins again"):
        outlined(question(text), place._replace(quiet=False))
    said = capsys.readouterr().err
    assert said.startswith("compare  short runs: 6 of 40 updates measure how fast this machine is, before the plan")
    assert "[1/6] lie, seed 10000: 50 ms an update" in said
    assert not (place.out / FILE).exists()


@pytest.mark.parametrize(("match", "said"), [
    ("parameters", "has as many parameters as lie and 3.25 times its FLOPs: --match flops makes these equal."),
    ("flops", "has as many FLOPs as lie and 0.50 times its parameters."),
    ("none", None),
])  # fmt: skip
def test_a_plan_says_which_cost_is_equal_and_which_is_not(
    match: str, said: str | None, text: Path, place: Workplace
) -> None:
    found = plan_of("", question(text), place)
    first, other = found.arms
    pace = PACE._replace(flops=325, parameters=PACE.parameters // 2 if match == "flops" else PACE.parameters)
    arms = first._replace(pace=PACE._replace(flops=100)), other._replace(pace=pace)
    plan = replace(found, recipe=found.recipe | {"match": match}, arms=arms)
    assert announced(plan).splitlines()[1:] == ([f"macaron {said}"] if said else [])
    assert f"{'parameters' if match == 'parameters' else 'FLOPs'}, ratio" in str(plan.document())


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float | None]]:
    """The time left that is told of two jobs, of which the first has logged so many steps after so many seconds."""

    def left(work: float, jobs: Sequence[tuple[int, float]], *at: tuple[float, int]) -> list[float | None]:
        now, log, found = [0.0], tmp_path / "metrics.jsonl", list[float | None]()
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
        bar = Progress("runs", sum(steps for steps, _ in jobs))
        monkeypatch.setattr(bar, "update", lambda *given: found.append(given[2]))
        watch = RunsProgress(bar, len(jobs), work)
        for now[0], step in at:
            log.write_text(json.dumps({"step": step}) + "\n")
            watch.look(
                [Running(folder, *own) for folder, own in zip((tmp_path, tmp_path / "none"), jobs, strict=False)]
            )
        return found

    return left


def test_the_time_left_is_that_of_the_work(told: Callable[..., list[float | None]]) -> None:
    """Of 3,600 seconds of work, a step of the job that logs is 180. One that takes 180 seconds leaves as many as there
    is work, and less while nothing is logged."""
    left = told(3600.0, [(10, 1800.0), (10, 600.0)], (60, 0), (360, 1), (540, 2), (600, 2))
    assert left == [None, None, 3600 - 2 * 180, 3600 - 2 * 180 - 60]


def test_the_time_left_is_not_said_before_the_pace_is_known(told: Callable[..., list[float | None]]) -> None:
    """A step in a hundred, soon after the first one, may be any; five of them, or a minute, say enough."""
    quick = told(500.0, [(100, 500.0)], (0, 0), (5, 1), (7, 2), (25, 6))
    assert quick == [None, None, None, pytest.approx(20 / 5 * 94)]
    assert told(500.0, [(100, 500.0)], (0, 0), (60, 1), (120, 2)) == [None, None, 60 * 98]


def test_runs_of_later_stages_are_those_after_the_rates(text: Path) -> None:
    asked = question(text, design=Design((1.0, 3.0), (1e-3, 3e-3, 9e-3)))
    campaign = Campaign(asked.entrants, range(4), asked.design, asked.task.metric, lambda runs: [])
    smallest, larger, verdict = planned_stages(campaign.entrants, campaign.seeds, campaign.design)
    assert campaign.later(smallest) == larger + verdict
    assert campaign.later(larger) == verdict
    assert campaign.later(verdict) == []


def test_each_look_is_a_stage_of_its_own(text: Path) -> None:
    asked = question(text, design=Design(until_decided=True, null=True))
    stages = asked._replace(seeds=range(12)).stages
    assert [len({run.seed for run in own}) for own in stages] == [4, 2, 2, 2, 2]
    assert [len(own) for own in stages] == [12, 6, 6, 6, 6]
    alone = [seconds_of([own], PACES, 2) for own in stages]
    assert seconds_of(stages, PACES, 2) == pytest.approx(sum(alone))

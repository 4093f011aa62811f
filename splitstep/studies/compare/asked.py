"""What `compare` is asked for when arms are named alone: own text, arms, a design and a plan."""

import math
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from ...experiments.arms import Own, read_arms
from ...experiments.plan import check_seeds
from ...experiments.running import Workplace
from ...jobs import workers_of
from ...opening.others import check_network
from ...recipe import Recipe, read_recipe
from ...support.documents import read_json
from ...support.files import write_atomically
from ...support.typed import json_text, read_as
from ...training.networks import check_bytes
from ...training.processes import this_world
from . import compare_entrants
from .arms import Fitted, fitted_arms
from .design import AT, Design
from .outline import Outline, announced
from .planning import Question, filled, measured, plan_of, sized, with_precision, within_text
from .result import Comparison

FILE = "plan.json"


def compare_arms(question: Question, place: Workplace) -> Comparison:
    """The comparison, after its plan says how long it takes."""
    arms = question.fitted(question.recipe)
    for one in arms:
        check_bytes(one.fit.cost.parameters, this_world().memory)
    for one in arms:  # of networks of others, none may see later tokens or other examples of its batch
        check_network(one.entrant.recipe, question.task)
    plan = outlined(question, place)
    if not place.quiet:
        print(announced(plan), file=sys.stderr, flush=True)
    planned = question._replace(recipe=read_recipe(plan.recipe, "the plan"))
    changed = {one.name: one.remarks for one in plan.arms if one.remarks}
    return compare_entrants(
        planned.recipe, planned.entrants, plan.seeds, place, design=question.design, changed=changed,
        seconds=plan.seconds_of,
    )  # fmt: skip


def outlined(question: Question, place: Workplace) -> Outline:
    """The plan: the stored one, if an earlier call of the same command made it, or a new one, which is stored."""
    with suppress(ValueError, OSError):
        kept = read_as(Outline, read_json(place.out / FILE, "anything"), FILE)
        if kept.asked == question.hash():
            return kept
    try:
        found = plan_of(question.hash(), chosen(question, place), place)
    except KeyboardInterrupt as end:
        end.args = ("interrupted while measuring: the same command begins again.",)
        raise
    place.out.mkdir(parents=True, exist_ok=True)
    write_atomically(place.out / FILE, json_text(found.json()))
    return found


def chosen(question: Question, place: Workplace) -> Question:
    """The question with its paces and all that is left to us: the precision and, if it has minutes, the size, the steps
    and the seeds. What it takes to find these out is a part of the minutes, of which half at least are left for the
    runs."""
    begun, minutes = time.monotonic(), question.minutes
    found = measured(question, place)
    if minutes is None:
        return with_precision(within_text(found), place)
    found = with_precision(sized(found, place), place)
    left = max(minutes / 2, minutes - (time.monotonic() - begun) / 60)
    return filled(found._replace(minutes=left), workers_of(place.engine))


def question_of(
    recipe: Recipe,
    names: Sequence[str],
    seeds: Sequence[int],
    place: Workplace,
    own: Own | None = None,
    *,
    budgets: Sequence[float] = (1.0,),
    tune: int = 0,
    null: bool = False,
    until: str | None = None,
    margin: float | None = None,
    minutes: float | None = None,
    typed: Collection[str] = (),
) -> Question:
    """What is asked, checked. `typed`: entries of the recipe, and "seeds", that were typed, so nobody chooses them."""
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"--minutes {minutes:g}: give a time above 0, such as --minutes 10")
    if tune and tune < 2:
        raise ValueError(f"--tune {tune}: try at least 2 learning rates, such as --tune 3")
    design = Design(tuple(budgets), rates_around(recipe.train.lr, tune), null, until == "decided", margin)
    if design.until_decided and "seeds" in typed:
        raise ValueError(f"--until decided has looks at 4 to {AT[-1]} seeds of its own: leave --seeds out")
    if design.until_decided:
        seeds = range(seeds[0], seeds[0] + AT[-1])
    check_seeds(seeds)
    read_arms(names, recipe, own)  # what is wrong with a name is said before the data are read
    task = recipe.load_task(place.data)

    def fitted(one: Recipe) -> list[Fitted]:
        return fitted_arms(read_arms(names, one, own), one, task)

    text = task.describe().get("tokens", {}).get("train")
    return Question(recipe, fitted, task, text, seeds, design, minutes, frozenset(typed))


def rates_around(rate: float, count: int) -> tuple[float, ...]:
    """So many learning rates around one, each three times the one before."""
    middle = (count - 1) / 2
    return tuple(float(f"{rate * 3 ** (place - middle):.3g}") for place in range(count))

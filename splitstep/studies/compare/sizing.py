"""What a time has room for: the size of a network, its steps and the number of seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...experiments.running import Workplace
from ...jobs import workers_of
from ...models.cost import cost
from ...recipe import Recipe
from .campaign import planned_stages
from .design import AT, MOST_SEEDS
from .pace import Pace
from .planning import Paces, Question, measured, seconds_of

SIZES = ((2, 64, 2), (4, 128, 4), (6, 256, 8), (6, 384, 6), (8, 512, 8), (12, 768, 12))  # layers, width, heads
SEEDS = 5
SIZE = {"model.layers", "model.width", "model.heads", "model.ffn"}
FEWEST_STEPS, SMALLEST_BATCH = 200, 4  # a batch is halved until the text has enough of them


def sized(question: Question, paces: Paces, place: Workplace) -> tuple[Question, Paces]:
    """The question with a network of the size that its minutes have room for, and the paces there: the largest one that
    sees at least as many tokens as it has parameters. A size that was typed stays, and that of a recipe that is not of
    one's own text."""
    recipe, text, chosen = question.recipe, tokens_of(question), question
    if recipe.task != "text" or text is None:
        return question, paces
    if "train.batch" not in question.typed:
        chosen = question._replace(recipe=smaller_batches(recipe, text))
    if not SIZE & question.typed:
        chosen = with_size(chosen, paces, workers_of(place.engine), text)
    return chosen, paces if chosen.recipe == recipe else measured(chosen, place)


def filled(question: Question, paces: Paces, workers: int) -> Question:
    """The question with the steps and seeds that its minutes have room for, unless they were typed. No token of the
    text is seen more than once; time that is left then goes into seeds."""
    chosen = question._replace(seeds=first_seeds(question))
    if "train.steps" not in question.typed:
        steps = steps_for(chosen, paces, workers, tokens_of(question))
        chosen = chosen._replace(recipe=with_steps(chosen.recipe, steps))
    return chosen._replace(seeds=more_seeds(chosen, paces, workers))


def within_text(question: Question, paces: Paces) -> Question:
    """The question with fewer steps, if its largest budget has more tokens than the text. Steps that were typed stay,
    and those of a recipe that itself goes over its text more than once."""
    text, steps = tokens_of(question), question.recipe.train.steps
    if text is None or "train.steps" in question.typed:
        return question
    most, once = most_steps(question, paces, text), text // tokens_of_step(paces)
    if steps <= most or (question.recipe.task != "text" and steps > once):
        return question
    return question._replace(recipe=with_steps(question.recipe, most))


def tokens_of_step(paces: Paces) -> int:
    """The tokens of an update."""
    return next(iter(paces.values()))[0].tokens


def most_steps(question: Question, paces: Paces, text: int) -> int:
    """As many steps as the text has tokens for at the largest budget."""
    return max(1, int(text / tokens_of_step(paces) / question.design.largest))


def tokens_of(question: Question) -> int | None:
    """The tokens of the training text, if the task has one."""
    return question.task.describe().get("tokens", {}).get("train")


def first_seeds(question: Question) -> Sequence[int]:
    """The seeds that a comparison has at least."""
    if "seeds" in question.typed:
        return question.seeds
    return seeds_from(question, AT[-1] if question.design.until_decided else SEEDS)


def seeds_from(question: Question, count: int) -> range:
    return range(question.seeds[0], question.seeds[0] + count)


def with_steps(recipe: Recipe, steps: int) -> Recipe:
    """The recipe with so many steps, of which a tenth warms up."""
    train = replace(recipe.train, steps=steps, warmup=min(recipe.train.warmup, max(1, steps // 10)))
    return replace(recipe, train=train)


def smaller_batches(recipe: Recipe, text: int) -> Recipe:
    """The recipe with a batch of which the text has enough."""
    batch, length = recipe.train.batch, recipe.options.length
    while batch > SMALLEST_BATCH and text < FEWEST_STEPS * batch * length:
        batch //= 2
    return replace(recipe, train=replace(recipe.train, batch=batch))


def with_size(question: Question, paces: Paces, workers: int, text: int) -> Question:
    """The question with the largest network that there is time for, by its FLOPs; the smallest, if there is none."""
    task = question.task
    now = cost(question.recipe.config(task), task.length).flops
    for layers, width, heads in reversed(SIZES):
        entries: dict[str, Any] = {"layers": layers, "width": width, "heads": heads, "ffn": 4 * width}
        other = question.recipe.changed({f"model.{key}": value for key, value in entries.items()})
        found = cost(other.config(task), task.length)
        slower = {name: [scaled(pace, found.flops / now) for pace in own] for name, own in paces.items()}
        tried = question._replace(recipe=other, seeds=first_seeds(question))
        tokens = steps_for(tried, slower, workers, text) * other.train.batch * task.length
        if tokens >= found.parameters or (layers, width, heads) == SIZES[0]:
            return question._replace(recipe=other)
    raise AssertionError("there is a smallest size")


def scaled(pace: Pace, factor: float) -> Pace:
    """The pace of a network with other FLOPs."""
    return pace._replace(step=pace.step * factor, evaluation=pace.evaluation * factor)


def fits(question: Question, paces: Paces, workers: int) -> bool:
    """Whether there is time for the comparison."""
    assert question.minutes is not None
    stages = planned_stages(question.entrants(question.recipe), question.seeds, question.design)
    return seconds_of(stages, paces, workers) <= 60 * question.minutes


def steps_for(question: Question, paces: Paces, workers: int, text: int | None) -> int:
    """The most steps for which there is time, and text."""
    low, high = 1, 10**6 if text is None else most_steps(question, paces, text)
    while low < high:
        middle = (low + high + 1) // 2
        longer = question._replace(recipe=with_steps(question.recipe, middle))
        low, high = (middle, high) if fits(longer, paces, workers) else (low, middle - 1)
    return low


def more_seeds(question: Question, paces: Paces, workers: int) -> Sequence[int]:
    """The most seeds for which there is time. Those that were typed stay, and those of looks."""
    if "seeds" in question.typed or question.design.until_decided:
        return question.seeds
    count = len(question.seeds)
    while count < MOST_SEEDS:
        more = question._replace(seeds=seeds_from(question, count + 1))
        if not fits(more, paces, workers):
            break
        count += 1
    return seeds_from(question, count)

"""What a time has room for: the size of a network, its steps and the number of seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...experiments.running import Workplace
from ...jobs import workers_of
from ...models.cost import cost
from ...recipe import Recipe
from .design import AT, MOST_SEEDS
from .planning import Question, measured, seconds_of

SIZES = ((2, 64, 2), (4, 128, 4), (6, 256, 8), (6, 384, 6), (8, 512, 8), (12, 768, 12))  # layers, width, heads
SEEDS = 5
SIZE = {"model.layers", "model.width", "model.heads", "model.ffn"}
FEWEST_STEPS, SMALLEST_BATCH = 200, 4  # a batch is halved until the text has enough of them


def sized(question: Question, place: Workplace) -> Question:
    """With a network of the size that its minutes have room for, and the paces there: the largest one that sees at
    least as many tokens as it has parameters. A size that was typed stays, and that of a recipe that is not of one's
    own text."""
    recipe, chosen = question.recipe, question
    if recipe.task != "text" or question.text is None:
        return question
    if "train.batch" not in question.typed:
        chosen = question._replace(recipe=smaller_batches(recipe, question.text))
    if not SIZE & question.typed:
        chosen = with_size(chosen, workers_of(place.engine))
    return chosen if chosen.recipe == recipe else measured(chosen, place)


def filled(question: Question, workers: int) -> Question:
    """With the steps and seeds that its minutes have room for, unless they were typed. No token of the text is seen
    more than once; time that is left then goes into seeds."""
    chosen = question._replace(seeds=first_seeds(question))
    if "train.steps" not in question.typed:
        chosen = with_steps(chosen, steps_for(chosen, workers))
    return chosen._replace(seeds=more_seeds(chosen, workers))


def within_text(question: Question) -> Question:
    """With fewer steps, if its largest budget has more tokens than the text. Steps that were typed stay, and those of a
    recipe that itself goes over its text more than once."""
    text, steps = question.text, question.recipe.train.steps
    if text is None or "train.steps" in question.typed:
        return question
    most, once = most_steps(question, text), text // tokens_of_step(question)
    if steps <= most or (question.recipe.task != "text" and steps > once):
        return question
    return with_steps(question, most)


def tokens_of_step(question: Question) -> int:
    """The tokens of an update."""
    return next(iter(question.paces.values()))[0].tokens


def most_steps(question: Question, text: int) -> int:
    """As many steps as the text has tokens for at the largest budget."""
    return max(1, int(text / tokens_of_step(question) / question.design.largest))


def first_seeds(question: Question) -> Sequence[int]:
    """The seeds that a comparison has at least."""
    if "seeds" in question.typed:
        return question.seeds
    return seeds_from(question, AT[-1] if question.design.until_decided else SEEDS)


def seeds_from(question: Question, count: int) -> range:
    return range(question.seeds[0], question.seeds[0] + count)


def with_steps(question: Question, steps: int) -> Question:
    """With so many steps, of which a tenth warms up."""
    train = question.recipe.train
    train = replace(train, steps=steps, warmup=min(train.warmup, max(1, steps // 10)))
    return question._replace(recipe=replace(question.recipe, train=train))


def smaller_batches(recipe: Recipe, text: int) -> Recipe:
    """The recipe with a batch of which the text has enough."""
    batch, length = recipe.train.batch, recipe.options.length
    while batch > SMALLEST_BATCH and text < FEWEST_STEPS * batch * length:
        batch //= 2
    return replace(recipe, train=replace(recipe.train, batch=batch))


def with_size(question: Question, workers: int) -> Question:
    """With the largest network that there is time for, by its FLOPs; the smallest, if there is none."""
    task = question.task
    now = cost(question.recipe.config(task), task.length).flops
    for layers, width, heads in reversed(SIZES):
        entries: dict[str, Any] = {"layers": layers, "width": width, "heads": heads, "ffn": 4 * width}
        other = question.recipe.changed({f"model.{key}": value for key, value in entries.items()})
        found = cost(other.config(task), task.length)
        slower = {name: [pace.scaled(found.flops / now) for pace in own] for name, own in question.paces.items()}
        tried = question._replace(recipe=other, seeds=first_seeds(question), paces=slower)
        tokens = steps_for(tried, workers) * other.train.batch * task.length
        if tokens >= found.parameters or (layers, width, heads) == SIZES[0]:
            return question._replace(recipe=other)
    raise AssertionError("there is a smallest size")


def fits(question: Question, workers: int) -> bool:
    """Whether there is time for the comparison."""
    assert question.minutes is not None
    return seconds_of(question.stages, question.paces, workers) <= 60 * question.minutes


def steps_for(question: Question, workers: int) -> int:
    """The most steps for which there is time, and text."""
    low, high = 1, 10**6 if question.text is None else most_steps(question, question.text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(with_steps(question, middle), workers) else (low, middle - 1)
    return low


def more_seeds(question: Question, workers: int) -> Sequence[int]:
    """The most seeds for which there is time. Those that were typed stay, and those of looks."""
    if "seeds" in question.typed or question.design.until_decided:
        return question.seeds
    count = len(question.seeds)
    while count < MOST_SEEDS and fits(question._replace(seeds=seeds_from(question, count + 1)), workers):
        count += 1
    return seeds_from(question, count)

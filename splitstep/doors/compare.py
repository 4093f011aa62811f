"""The door to comparisons: networks at equal cost over seeds, at several budgets, with rates of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..recipes import recipe_names
from ..schemes import SCHEMES, scheme
from ..shelf import SHELF
from ..sources import is_network
from ..support.words import nearest, split_list
from .common import Asked, default_folder, kept, recipe_asked
from .door import door

if TYPE_CHECKING:
    from ..studies.compare.outline import Outline
    from ..studies.compare.result import Comparison

OTHERS = ("glue", "distil")  # comparisons of other things, each a verb
DEFAULT = ("lie", "macaron")
OWN_TEXT = "own-text"  # the recipe


@door
def compare(
    recipe: str | None = None,
    *changes: str,
    task: str | None = None,
    text: list[str] | None = None,
    arms: tuple[str, ...] = (),
    schemes: tuple[str, ...] = (),
    seeds: int | None = None,
    minutes: float | None = None,
    budgets: tuple[float, ...] = (),
    tune: int | None = None,
    null: bool = False,
    until: Literal["decided"] | None = None,
    margin: float | None = None,
    plan: bool = False,
    out: Path | None = None,
    match: Literal["parameters", "flops", "none"] | None = None,
    sweep: list[str] | None = None,
    engine: str = "local",
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Comparison | Outline:
    """Train networks at equal cost and compare them over seeds.

    Example:
      splitstep compare --text my.txt --arms lie,macaron --minutes 10
      splitstep compare --text my.txt --arms lie,mine.py:block,qwen3.json --budgets 1,3,9 --tune 3
      splitstep compare stdlib --arms lie,swiglu,rms --until decided --margin 0.01
      splitstep compare --task digits --schemes lie,macaron,strang-midpoint --sweep train.lr=1e-3,3e-3

    Prints one sentence and a table with 95% intervals, and writes DIR/result.json and DIR/report.html. All networks are
    resized to the cost of the first. If interrupted, the same command continues: finished runs are kept.

    Other comparisons have options of their own:
      splitstep compare glue --help      pre-trained networks, fine-tuned on GLUE
      splitstep compare distil --help    methods of distillation

    Parameters:
    arms LIST: What is compared with the first: schemes, modifications (see `splitstep arms`), FILE.py:NAME, config.json
      of a causal model. With --schemes, what changes in each: full, no-residual, no-norm, neither, post, sandwich,
      diffusion.
    seeds N: The number of seeds: 5 means 0 to 4 (from train.seed). Default: 5; with --minutes, what there is time for.
    match: What all networks have as much of; none: equal shapes. Default: as in the recipe.
    """
    refuse_blanks([recipe or "", *changes], arms=arms, schemes=schemes)
    asked = recipe_asked("compare", *named(recipe, changes, text), task, [] if match is None else [f"match={match}"])
    design = {"budgets": budgets, "tune": tune, "null": null, "until": until, "margin": margin, "minutes": minutes}
    typed = [one.partition("=")[0] for one in (recipe or "", *changes) if "=" in one] + ["seeds"] * (seeds is not None)
    seeds = 5 if seeds is None else seeds
    return compared(asked, schemes, arms, seeds, sweep or [], out, engine, data, plan, typed, design)


def compared(
    asked: Asked, schemes: Sequence[str], arms: Sequence[str], seeds: int, sweep: list[str], out: Path | None,
    engine: str, data: Path | None, plan: bool, typed: Sequence[str],
    given: Mapping[str, Any],
) -> Comparison | Outline:  # fmt: skip
    """The comparison of arms that are each named by themselves, after a plan, or of every scheme with every arm."""
    numbers = asked.seeds(seeds)  # refuses a wrong number, and the next line a wrong scheme, before torch is imported
    for text in filter(None, schemes):
        scheme(text)
    design = {name: one for name, one in given.items() if one is not None and one is not False and one != ()}
    alone = bool(plan or design or (arms and not schemes) or asked.name == OWN_TEXT)
    refuse_mixture(schemes, arms, sweep, alone, next(iter(design), "plan"))
    from ..experiments.arms import find_arms, read_ablate, read_arms

    own = read_ablate(asked.document, asked.name).arms
    if alone:  # refuses a wrong name, as the line after next
        read_arms(arms or schemes or DEFAULT, asked.recipe, own)
    for text in () if alone else schemes or DEFAULT:
        find_arms(arms or ("full",), asked.recipe.changed({"scheme": str(scheme(text))}), own)
    out = default_folder("compare", asked.recipe.task, out, "compare")
    from ..experiments.plan import read_sweep
    from ..experiments.running import Workplace
    from ..studies.compare import compare as study
    from ..studies.compare.asked import compare_arms, outlined, question_of

    if not alone:
        return kept(study(
            asked.recipe, schemes or DEFAULT, numbers, out, sweep=read_sweep(sweep), arms=arms or ("full",),
            own_arms=own, engine=engine, data=data,
        ), out)  # fmt: skip
    place = Workplace(f"compare {asked.recipe.task}", out, data, engine, False)
    question = question_of(asked.recipe, arms or schemes or DEFAULT, numbers, place, own, typed=typed, **design)
    return outlined(question, place) if plan else kept(compare_arms(question, place), out)


def refuse_blanks(words: Sequence[str], **lists: Sequence[str]) -> None:
    """Refuse a list with blanks, of which all after the first one stands where recipes do."""
    parts = [part for one in words for part in split_list(one) if part in SCHEMES or part in SHELF or is_network(part)]
    for option, listed in lists.items():
        if listed and parts:
            whole = ",".join([*filter(None, listed), *parts])
            raise ValueError(f"commas alone separate what --{option} lists, without blanks: type --{option} {whole}")


def refuse_mixture(schemes: Sequence[str], arms: Sequence[str], sweep: list[str], alone: bool, option: str) -> None:
    """Refuse options of schemes for arms that are named alone, and one scheme that is compared with nothing."""
    if alone and sweep:
        raise ValueError("--sweep belongs to --schemes alone: use --tune 3 to try learning rates for each arm.")
    if alone and arms and schemes:
        raise ValueError(f"--schemes with --arms has no --{option}: name all in --arms.")
    if not alone and len(schemes) == 1 and not arms and not sweep:
        two = DEFAULT if schemes[0] in DEFAULT else (DEFAULT[0], schemes[0])
        raise ValueError(f"compare needs two schemes or more: type --schemes {','.join(two)}")


def named(recipe: str | None, changes: Sequence[str], text: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """The recipe and its changes, with texts of one's own in their place."""
    refuse_misspelt(recipe)
    words = [*([] if recipe is None else [recipe]), *changes]
    if not text:
        return recipe, list(changes)
    if words and "=" not in words[0]:
        raise ValueError(f"--text trains on your own text, and {words[0]} on its own: leave one of the two out.")
    missing = [file for file in text if not Path(file).exists()]
    if missing:
        raise ValueError(
            f"--text {missing[0]} is not a file: name a file of plain text, .gz or .xz, or a folder of them, as in "
            "--text my.txt."
        )
    paths = ", ".join(json.dumps(str(Path(file).resolve())) for file in text)
    return OWN_TEXT, [f"data.train=[{paths}]", *words]


def refuse_misspelt(recipe: str | None) -> None:
    """Refuse what is no recipe, but nearly the name of another comparison."""
    if recipe is None or "=" in recipe or recipe in recipe_names() or Path(recipe).is_file():
        return
    near = nearest(recipe, [*recipe_names(), *OTHERS])
    if near in OTHERS:
        raise ValueError(f"There is no recipe {recipe!r}. Did you mean `splitstep compare {near} ...`?")

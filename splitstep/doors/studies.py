"""Doors to studies that train: schemes, pre-trained networks and methods against each other, ablations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .common import default_folder, kept, recipe_asked, refuse_launchers
from .door import door

if TYPE_CHECKING:
    from ..studies.ablate.result import Ablation
    from ..studies.glue.result import GlueResult

ABLATION_SEEDS = 3  # unless the recipe says otherwise


@door
def compare_glue(
    *changes: str,
    start: str,
    seeds: int = 2,
    scratch: bool = False,
    tasks: tuple[str, ...] = (),
    grid: Literal["paper"] | None = None,
    out: Path | None = None,
    sweep: list[str] | None = None,
    engine: str = "local",
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> GlueResult:
    """Fine-tune pre-trained networks on GLUE and compare them over pre-training seeds.

    Example:
      splitstep compare mlm-small data.train=my-text/ --schemes lie,macaron --seeds 5 --out runs/pretrain
      splitstep compare glue --start runs/pretrain --seeds 2 --scratch --out runs/glue
      splitstep compare glue --start lie=runs/a+runs/b,macaron=runs/m* --tasks rte,mrpc --out runs/few

    Prints the scores of each task with 95% intervals and writes DIR/result.json and DIR/report.html.

    Parameters:
    changes KEY=VALUE: Recipe entries to change, such as train.steps=500; for one task, such as sst2.train.steps=500.
    start NAME=RUN,...|DIR: Pre-trained runs, as in lie=runs/a,macaron=runs/b, several of one name joined by + or
      matched by *; or a whole comparison.
    seeds N: The number of fine-tunings of each pre-trained network.
    scratch: Also train the same networks without pre-training.
    tasks LIST: Any of cola, sst2, mrpc, rte, stsb, wnli, mnli, qnli, qqp. Default: the first five.
    grid: Try epochs, batches and rates as the Macaron paper does.
    """
    for word in changes:
        if "=" not in word:
            raise ValueError(f"compare glue takes entries to change, such as train.steps=500, but not {word!r}.")
    refuse_launchers("compare glue")
    out = default_folder("compare", "glue", out, "glue")
    from ..studies.glue import DEFAULT, glue, read_starts

    result = glue(
        read_starts(start), out, seeds=seeds, tasks=list(tasks) or DEFAULT, scratch=scratch, changes=changes,
        sweep=sweep or [], grid=grid, engine=engine, data=data,
    )  # fmt: skip
    return kept(result, out)


@door
def ablate(
    recipe: str | None = None,
    *changes: str,
    task: str | None = None,
    arms: tuple[str, ...] = ("full", "no-residual", "no-norm", "neither"),
    seeds: int | None = None,
    rates: tuple[float, ...] = (),
    out: Path | None = None,
    engine: str = "local",
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Ablation:
    """Train a network without its residuals or norms, and measure what is lost.

    Example:
      splitstep ablate --task digits
      splitstep ablate listops --arms full,no-norm,sandwich,diffusion --seeds 5
      splitstep ablate digits train.steps=200 --rates 1e-3,3e-3 --out runs/ablate

    Each arm is a network that differs in one thing. It is trained at its own best learning rate and at the full arm's.
    Prints what the seeds say about each claim, and writes DIR/result.json and DIR/report.html. If interrupted, the same
    command continues: finished runs are kept.

    Parameters:
    arms LIST: Any of full, no-residual, no-norm, neither, post, sandwich, diffusion; full is always among them.
    seeds N: The number of seeds. Default: as in the recipe, else 3.
    rates LIST: Learning rates to try, such as 5e-4,1e-3. Default: a third, 1 and 3 times lr.
    """
    asked = recipe_asked("ablate", recipe, changes, task)
    from ..experiments.arms import find_arms, read_ablate

    own = read_ablate(asked.document, asked.name)
    find_arms(arms, asked.recipe, own.arms)  # refuses a wrong name before torch is imported
    out = default_folder("ablate", asked.recipe.task, out, "ablate")
    from ..studies.ablate.study import ablate as study
    from ..studies.ablate.study import check_rates

    count = next(given for given in (seeds, own.seeds, ABLATION_SEEDS) if given is not None)
    result = study(
        asked.recipe, out, arms=arms, own_arms=own.arms, seeds=asked.seeds(count),
        rates=check_rates(rates) if rates else own.rates, engine=engine, data=data,
    )  # fmt: skip
    return kept(result, out)

"""Runs and comparisons that nobody computed, for tests of what is done with them."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from splitstep.experiments.arms import PAPER
from splitstep.experiments.plan import slug
from splitstep.experiments.statistics import Estimate
from splitstep.experiments.trials import Curve, Trial
from splitstep.models.cost import Cost
from splitstep.schemes import scheme
from splitstep.studies.ablate.result import Ablation, ArmResult, Lost, Outcome, Replayed, Series, claims_of
from splitstep.studies.compare.result import Comparison, OnTestSet, Pair, ScoreEstimate, rows_of
from splitstep.support.provenance import Provenance
from splitstep.tasks import Metric
from splitstep.training.result import Divergence, Kept, Shape

ACCURACY = Metric("accuracy", True, "{:.2%}")
LOSS = Metric("bits_per_byte", False, "{:.3f}")


def trial(
    text: str, seed: int, value: float | None, valid: float = 0.0, setting: tuple[str, ...] = (), points: int = 2
) -> Trial:
    """A run with these figures; one without a value diverged."""
    notation = str(scheme(text))
    steps = tuple(range(10, 10 * points + 10, 10))
    loss = tuple(2.3 * math.exp(-s / 300) + 0.02 * math.sin(s + seed) for s in steps)
    return Trial(
        scheme=notation, setting=setting, seed=seed, folder=f"runs/{slug(notation)}-{'-'.join(setting)}{seed}",
        status="diverged" if value is None else "finished", valid={"accuracy": valid, "loss": 1.0},
        test=None if value is None else {"accuracy": value, "loss": 1.0}, best_step=5, steps=10, tokens=100,
        seconds=2.0 + seed, tokens_per_second=50.0, matched=None,
        cost=Cost(202_058, 200_064, 205_096 * scheme(notation).evaluations, 4),
        shape=Shape(2, 8, 32, 1.0), device="cpu", precision="float32", mode="eager",
        commit=None, diverged=Divergence(3, math.nan, layer=0) if value is None else None,
        train_loss=Curve(steps, loss), valid_loss=Curve(steps[::2], loss[::2]),
        valid_metric=Curve(steps[::2], tuple(1 - v / 2.5 for v in loss[::2])),
    )  # fmt: skip


MADE = ("recipe", "data", "engine", "threads", "command", "commit", "versions", "date")


def comparison(trials: Sequence[Trial], **changes: Any) -> Comparison:
    entries: dict[str, Any] = {
        "task": "digits", "metric": ACCURACY, "match": "parameters", "reference": "A F",
        "seeds": tuple(dict.fromkeys(t.seed for t in trials)),
        "sweep": tuple(s for s in dict.fromkeys(t.setting for t in trials) if s),
        "rows": tuple(rows_of(trials, ACCURACY)), "trials": tuple(trials), "recipe": {"task": "digits", "train": {}},
        "data": {}, "engine": "local", "threads": 1, "command": "splitstep compare --task digits", "commit": "0" * 12,
        "versions": {"python": "3.11", "torch": "2.13"}, "date": "2026-01-31",
    }  # fmt: skip
    found = {**entries, **changes}
    own = {name: found.pop(name) for name in MADE}
    return Comparison(**found, made=Provenance(**own))


BLEU = Metric("bleu", True, "{:.2f}", "BLEU (tokenised, lower-cased)")
SCORES = (
    ("sacrebleu", "sacreBLEU", "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0", False),
    ("chrf", "chrF", "nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:2.6.0", False),
    ("bleu", BLEU.title, "nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:2.6.0", True),
    ("exact_match", "exact match", "percent of lines equal to their reference", False),
)


def translation(seeds: int) -> Comparison:
    """Two translators on three test sets; their metric was computed at the end alone."""
    found = comparison([trial(text, seed, 0.4) for text in ("lie", "macaron") for seed in range(seeds)])

    def one(split: str, scheme: str) -> OnTestSet:
        spread = 0.4 if seeds > 1 else None
        mean = Estimate(40.5, spread and 40.5 - spread, spread and 40.5 + spread, seeds)
        pairs = [] if scheme == "A F" else [Pair(s, 0.3 * s - 0.4, 0.001 + 0.03 * s) for s in range(seeds)]
        scores = tuple(ScoreEstimate(*score, mean) for score in SCORES)
        return OnTestSet(
            split, scheme, 1000, scores, Estimate(0.2, -0.35, 0.71, seeds) if pairs else None, tuple(pairs)
        )

    splits = [(split, row.scheme) for split in ("test2016", "test2017", "coco") for row in found.rows]
    trials = tuple(
        dataclasses.replace(
            t, valid={"bleu": 39.0}, test={"bleu": 40.0}, valid_metric=Curve((), ()), best_step=None,
            kept=Kept("average", list(range(5010, 6001, 110))),
        )
        for t in found.trials
    )  # fmt: skip
    recipe = {"task": "multi30k", "train": {"keep": "average", "average": 10}}
    made = dataclasses.replace(found.made, recipe=recipe)
    return dataclasses.replace(
        found, task="multi30k", metric=BLEU, made=made, trials=trials, tests=tuple(one(*pair) for pair in splits)
    )


def outcome(**entries: Any) -> Outcome:
    """An arm at one rate, of three runs that finished."""
    plain = {"rate": 1e-3, "finished": 3, "lost": (), "test": None, "valid": None, "difference": None}
    return Outcome(**{**plain, **entries})


def about(mean: float, half: float | None = 0.01) -> Estimate:
    """A figure of three seeds with an interval of this half width, or without one."""
    return Estimate(mean, None, None, 2) if half is None else Estimate(mean, mean - half, mean + half, 3)


def ablation(seeds: int = 3, layers: int = 3, lost: str = "") -> Ablation:
    """An ablation of the paper's arms with every figure; all runs of one arm may have diverged."""
    trials = [
        dataclasses.replace(
            trial("=A =F" if name in ("no-residual", "neither") else "A F", seed, None if name == lost else 0.9),
            arm=name, setting=("train.lr=0.001",),
        )
        for name in PAPER
        for seed in range(seeds)
    ]  # fmt: skip
    arms = []
    for i, name in enumerate(PAPER):
        found = figures_of(i, layers) if name != lost else {}
        gone = tuple(Lost(t.seed, t.diverged) for t in trials if t.arm == name and t.diverged is not None)
        one = outcome(finished=0 if gone else seeds, lost=gone, not_finite=len(gone), **found)
        arms.append(ArmResult(name, trials[i * seeds].scheme, {"model.norm": "none"} if i else {}, one, one))
    replayed = (Replayed("no-norm", about(0.5), about(-0.4), (about(1.0), about(0.8)), (about(1.0), about(0.7))),)
    common = comparison(trials)
    return Ablation(
        task="digits", metric=ACCURACY, seeds=tuple(range(seeds)), rates=(1e-3, 3e-3), arms=tuple(arms),
        claims=claims_of(arms), replay=replayed, trials=tuple(trials),
        made=Provenance(
            recipe=common.made.recipe, data={}, engine="local", threads=1, command="splitstep ablate --task digits",
            versions={}, commit=None, date="2026-01-31",
        ),
    )  # fmt: skip


def figures_of(i: int, layers: int) -> dict[str, Any]:
    """The figures of the arm number i."""
    steps = tuple(range(0, 300, 15))
    names = {"drift": 0, "neighbours": 0, "entropy": 0, "sensitivity": 0, "gradients": 1, "cka": 1, "cosine": 1}
    names |= {"information_x": 1, "information_y": 1, "I(X;T) mixture 1": 1, "gradient of A.qkv": 0}
    profiles = {name: tuple(about(0.9 / (1 + k + i)) for k in range(layers + more)) for name, more in names.items()} | {
        "growth": (about(1.5),),
        "exponent": (about(0.2),),
        "I(X;T) mixture 1 bias": (about(0.01),),
    }
    series = {
        name: Series(steps, tuple(tuple(one.mean * (1 + s / 300) for one in found) for s in steps))
        for name, found in profiles.items()
        if not name.startswith(("I(", "gradient of"))
    }
    heads = tuple(tuple(0.01 * (1 + i + k * h) for h in range(4)) for k in range(layers))
    return {
        "test": about(0.9 - 0.1 * i), "valid": about(0.9), "difference": about(-0.1 * i) if i else None,
        "drift": about(0.5 if i % 2 == 0 else 0.02), "growth": about(1.5 + i), "alignment": about(-0.1) if i else None,
        "profiles": profiles, "series": series, "maps": {name: heads for name in ("kl", "jensen_shannon", "cosine")},
    }  # fmt: skip

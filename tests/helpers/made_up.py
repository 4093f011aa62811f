"""Runs and comparisons that nobody computed, for tests of what is done with them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from splitstep.models.cost import Cost
from splitstep.schemes import scheme
from splitstep.studies.compare.plan import slug
from splitstep.studies.compare.result import Comparison, Curve, OnTestSet, Pair, Scored, Trial
from splitstep.studies.compare.rows import rows_of
from splitstep.studies.statistics import Estimate
from splitstep.tasks import Metric
from splitstep.training.run_result import Divergence, Kept, Shape

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


def comparison(trials: Sequence[Trial], **changes: Any) -> Comparison:
    entries: dict[str, Any] = {
        "task": "digits", "metric": ACCURACY, "match": "parameters", "reference": "A F",
        "seeds": tuple(dict.fromkeys(t.seed for t in trials)),
        "sweep": tuple(s for s in dict.fromkeys(t.setting for t in trials) if s),
        "rows": tuple(rows_of(trials, ACCURACY)), "trials": tuple(trials), "recipe": {"task": "digits", "train": {}},
        "data": {}, "engine": "local", "threads": 1, "command": "splitstep compare --task digits", "commit": "0" * 12,
        "versions": {"python": "3.11", "torch": "2.13"}, "date": "2026-01-31",
    }  # fmt: skip
    return Comparison(**{**entries, **changes})


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
        scores = tuple(Scored(key, name, signature, comparable, mean) for key, name, signature, comparable in SCORES)
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
    return dataclasses.replace(
        found, task="multi30k", metric=BLEU, recipe=recipe, trials=trials, tests=tuple(one(*pair) for pair in splits)
    )

"""What parts of a ListOps tree say about its value: levels to compare a loss curve with.

    python benchmarks/listops_levels.py --variant lra --out results/listops_levels.json

Each predictor sees one feature of a tree and answers with the distribution of values among the training trees with this
feature. The features are nested: the operator at the root; its first argument, if that is a digit; all digits before
the first nested operator, as far as they matter to the root's operator; and all digits that are arguments of the root,
to find which one must count brackets. Cross-entropy is in nats, like the losses of the tasks.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.tasks import task as load_task
from splitstep.tasks.listops import CLOSE, DIGIT, OPERATOR, VOCABULARY

Feature = tuple[int, ...]
PRIOR = 0.5  # added to the count of each value
VALUES = 10
FUNCTIONS: dict[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda digits: int(median(digits)),
}


def noted(root: int, digits: Sequence[int]) -> Feature:
    """What the operator at the root makes of some of its arguments; a partial sum says nothing."""
    name = VOCABULARY[root]
    if name == "[SM" or not digits:
        return (root,)
    more = (min(len(digits), 4),) if name == "[MED" else ()
    return (root, FUNCTIONS[name](digits), *more)


def leading(tree: np.ndarray) -> np.ndarray:
    """The digits before the first nested operator."""
    nested = np.flatnonzero(tree[1:] < DIGIT)
    return tree[1 : 1 + nested[0]] - DIGIT


def direct(tree: np.ndarray) -> np.ndarray:
    """The digits that are arguments of the root."""
    opens = (tree >= OPERATOR) & (tree < CLOSE)
    depth = np.cumsum(opens) - np.cumsum(tree == CLOSE)
    return tree[(depth == 1) & (tree >= DIGIT)] - DIGIT


FEATURES: dict[str, Callable[[np.ndarray], Feature]] = {
    "nothing": lambda tree: (),
    "the operator at the root": lambda tree: (int(tree[0]),),
    "root and first argument": lambda tree: (int(tree[0]), *leading(tree)[:1].tolist()),
    "root and digits before the first nested operator": lambda tree: noted(int(tree[0]), leading(tree).tolist()),
    "root and all digits that are its arguments": lambda tree: noted(int(tree[0]), direct(tree).tolist()),
}


def trees(variant: str, split: str) -> Iterator[tuple[np.ndarray, int]]:
    """The tokens of each tree from its root on, and its value."""
    for batch in load_task("listops", {"variant": variant}).batches(split, 256):
        ids, lengths = batch["input_ids"].numpy(), batch["attention_mask"].sum(1).tolist()
        for row, length, value in zip(ids, lengths, batch["labels"].tolist(), strict=True):
            yield row[1:length], value


def levels(variant: str) -> list[dict[str, str | float]]:
    """Cross-entropy and accuracy of each predictor on validation and test."""
    counts = {name: defaultdict[Feature, Counter[int]](Counter) for name in FEATURES}
    for tree, value in trees(variant, "train"):
        for name, feature in FEATURES.items():
            counts[name][feature(tree)][value] += 1
    rows: dict[str, dict[str, str | float]] = {name: {"seen": name} for name in FEATURES}
    for split in ("valid", "test"):
        found = list(trees(variant, split))
        for name, feature in FEATURES.items():
            loss = right = 0.0
            for tree, value in found:
                known = counts[name][feature(tree)]
                loss -= math.log((known[value] + PRIOR) / (known.total() + VALUES * PRIOR))
                right += max(range(VALUES), key=lambda v: known[v]) == value
            rows[name] |= {f"{split}_loss": loss / len(found), f"{split}_accuracy": right / len(found)}
    return list(rows.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--variant", default="lra", help="the variant of the task: lra, long, original or short")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    rows = levels(options.variant)
    for row in rows:
        print(
            f"{row['seen']:<50} valid {row['valid_loss']:.3f} {row['valid_accuracy']:.2%}  test {row['test_loss']:.3f} "
            f"{row['test_accuracy']:.2%}"
        )
    document = {
        "command": f"python benchmarks/listops_levels.py --variant {options.variant}",
        **stamp(),
        "variant": options.variant,
        "rows": rows,
    }
    write_atomically(options.out, json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What needs no network on GLUE: the majority, a linear model on TF-IDF, and counting shared words.

    python benchmarks/glue_baselines.py --data DATA --out results/pretrain/baselines.json

All are fitted to the whole training set and measured on the published dev set, by scikit-learn and scipy. Sentences:
logistic regression on TF-IDF of words and pairs of words; its penalty is chosen by Matthews' correlation in three-fold
cross-validation. Pairs of sentences: the share of words that both have (of all words of the two, of the first, of the
second, in lower case), for classes through a logistic regression; STS-B's figure is the correlation with the first of
the three alone, which nothing is fitted to.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.tasks.glue import PARTS, labels_of, read_lines, texts_of

TASKS = ("cola", "sst2", "mrpc", "rte", "stsb")
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
WORD = re.compile(r"\w+")


def overlap(first: str, second: str) -> list[float]:
    """The share of common words in all words, in the first sentence's and in the second's."""
    a, b = (set(WORD.findall(text.lower())) for text in (first, second))
    both = len(a & b)
    return [both / max(1, len(words)) for words in (a | b, a, b)]


def figures(labels: np.ndarray, said: np.ndarray) -> dict[str, float]:
    return {
        "accuracy": float(accuracy_score(labels, said)),
        "f1": float(f1_score(labels, said, zero_division=0)),
        "matthews": float(matthews_corrcoef(labels, said)),
    }


def measure(task: str, data: Path) -> dict[str, Any]:
    part = PARTS[task]
    files = [read_lines(data, part, name) for name in ("train", "dev")]
    (texts, labels), (dev_texts, dev_labels) = [(texts_of(lines, part), labels_of(lines, part)) for lines in files]
    if not part.labels:
        shared = np.array([overlap(*pair)[0] for pair in dev_texts])
        found = {"pearson": pearsonr(shared, dev_labels)[0], "spearman": spearmanr(shared, dev_labels)[0]}
        return {"word overlap": {name: float(value) for name, value in found.items()}}
    commonest = np.full_like(dev_labels, np.bincount(labels).argmax())
    if len(part.texts) == 1:
        name, x, dev_x = "TF-IDF", [text for (text,) in texts], [text for (text,) in dev_texts]
        linear = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
        model = GridSearchCV(linear, {"logisticregression__C": PENALTIES}, cv=3, scoring="matthews_corrcoef")
    else:
        name, x, dev_x = "word overlap", [overlap(*pair) for pair in texts], [overlap(*pair) for pair in dev_texts]
        model = LogisticRegression(max_iter=1000)
    said = model.fit(x, labels).predict(dev_x)
    return {"majority": figures(dev_labels, commonest), name: figures(dev_labels, said)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds glue/")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = {task: measure(task, given.data) for task in TASKS}
    command = f"python benchmarks/glue_baselines.py --data DATA --out {given.out}"
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(given.out, json.dumps({"command": command, **stamp(), "tasks": found}, indent=1) + "\n")
    for task, ways in found.items():
        for way, values in ways.items():
            print(f"{PARTS[task].folder:6} {way:13}", ", ".join(f"{name} {x:.3f}" for name, x in values.items()))


if __name__ == "__main__":
    main()

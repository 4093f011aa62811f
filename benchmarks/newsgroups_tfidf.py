"""The test accuracy of a linear model on the words of 20 Newsgroups.

python benchmarks/newsgroups_tfidf.py --data ./data --out results/compare/newsgroups/tfidf.json
"""

import argparse
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from splitstep.support.provenance import stamp
from splitstep.tasks.newsgroups import Document, splits_of

MODEL = "TfidfVectorizer + LinearSVC, train and valid documents, test split"


def tfidf_baseline(documents: Mapping[str, list[Document]]) -> float:
    """The test accuracy of a linear model on word counts, trained on the training and validation documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    known, test = documents["train"] + documents["valid"], documents["test"]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    model = LinearSVC(random_state=0)
    model.fit(words.fit_transform([document.text for document in known]), [document.group for document in known])
    return float(model.score(words.transform([document.text for document in test]), [d.group for d in test]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    command = "python benchmarks/newsgroups_tfidf.py --data ./data --out results/compare/newsgroups/tfidf.json"
    found = {"accuracy": tfidf_baseline(splits_of(given.data)), "model": MODEL, "command": command}
    text = json.dumps({**found, "sklearn": version("scikit-learn"), **stamp()}, indent=1)
    given.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

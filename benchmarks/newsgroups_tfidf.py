"""The test accuracy of a linear model on the words of 20 Newsgroups, in results/compare/newsgroups/tfidf.json.

python benchmarks/newsgroups_tfidf.py
"""

from collections.abc import Mapping

from splitstep.tasks.newsgroups import Document, splits_of


def tfidf_baseline(documents: Mapping[str, list[Document]]) -> float:
    """The test accuracy of a linear model on word counts, trained on the training and validation documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    known, test = documents["train"] + documents["valid"], documents["test"]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    model = LinearSVC(random_state=0)
    model.fit(words.fit_transform([document.text for document in known]), [document.group for document in known])
    return float(model.score(words.transform([document.text for document in test]), [d.group for d in test]))


if __name__ == "__main__":
    print(tfidf_baseline(splits_of(None)))

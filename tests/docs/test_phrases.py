"""README, docs, help, errors and pages are written in the terms of the field: some phrases must not come back."""

import ast
import inspect
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from commands import Capsys

import splitstep as ss
from splitstep import cli
from splitstep.cli import VERBS
from splitstep.experiments.study import STUDIES, study_of
from splitstep.report.drawing import document_to_page
from splitstep.support.documents import read_json

ROOT = Path(__file__).parents[2]
FORBIDDEN = {  # what must not be said: what to say instead
    r"\b(?:told?|tells?|telling) \S*(?: \S+)? ?apart": "differ, separate",
    r"\btold from": "distinguish",
    r"(?:is|are) told\b": "is reported",
    r"looked at\b": "inspected",
    r"\bof (?:one's|your) own\b": "your",
    r"\bat a rate of (?:their|its) own": "once the learning rate is tuned for them",
    r"\b(?:four|three) times in five": "with 80% power",
    r"\bwhat it shows\b": "anything that it shows",
    r"\bto show what\b": "to imitate",
    r"\bhold one by one": "hold separately",
    r"\b(?:written|older) (?:before|than) (?:the|their) runs": "pre-registered",
    r"\blearnt\b": "learned",
    r"(?<!the )\binside of\b": "inside",
    r", for (?:it|they|there) (?:has|have|is|are|was|were)\b": "because",
    r"\b(?:for|after|try|every) so (?:many|much)\b": "name the number",
    r"nothing is kept but": "only ... are kept",
    r"--device \S+ is not here": "is not available",
    r"\bcannot be kept\b": "cannot keep",
    r"\bbrackets do not (?:count|separate)(?! schemes)": "do not separate schemes",
    r"costs no coverage": "does not reduce coverage",
    r"\bown weights as tied": "assumes that F0 and F1 share weights",
    r"setting can (?:look like|be mistaken)": "a hyperparameter can be mistaken for a scheme effect",
    r"stand in one list": "are in one ModuleList",
    r"serves both is run once": "shared runs are trained once",
    r"the error 2\^p times": "divides the error by 2^p",
    r"\d of the length\b": "changes the state by 31%",
    r"\bare cut, and how many": "are truncated",
    r"\bas it is told": "as given",
}
PHRASES = re.compile("|".join(f"({one})" for one in FORBIDDEN), re.IGNORECASE)


def faults(text: str) -> list[str]:
    """The forbidden phrases of a text, with the words around them."""
    flat = " ".join(text.split())
    return [flat[max(0, one.start() - 40) : one.end() + 40] for one in PHRASES.finditer(flat)]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize("phrase", [
    "Nothing can be told apart from lie", "a difference of 7.04 would have been seen four times in five",
    "by rules written before the runs", "train as well as full ones at a rate of their own",
    "This column counts own weights as tied", "A setting can look like a scheme", "commas inside brackets do not count",
    "That costs no coverage", "are cut, and how many is told", "of a text nothing is kept but its figures",
    "A run that serves both is run once", "they must stand in one list", "Train a small model to show what a large one",
    "twice the steps make the error 2^p times as small", "0.31 of the length", "--device cuda is not here",
    "of which 9 cannot be kept, for it has no more", "What it shows, too, was not learned", "hold one by one",
    "What a random network has too was not learnt", "An encoder-decoder is looked at in its decoder",
])  # fmt: skip
def test_the_phrases_that_were_complained_of_are_found(phrase: str) -> None:
    assert faults(phrase)


def test_readme_and_docs() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *tracked("docs/*.md", "docs/*.ipynb")]
    assert len(pages) > 40
    found = {str(file.relative_to(ROOT)): faults(words_of(file)) for file in pages}
    assert {name: one for name, one in found.items() if one} == {}


def words_of(file: Path) -> str:
    """What a person reads of a file: of a notebook its cells."""
    if file.suffix == ".ipynb":
        return "\n".join("".join(cell["source"]) for cell in json.loads(file.read_text())["cells"])
    return file.read_text()


def test_no_page_has_a_place_for_a_figure_that_was_not_measured() -> None:
    for file in tracked("*.md", "*.ipynb"):
        assert not re.search(r"\bMEASURE\b|\bNUMBER\b", file.read_text()), file


def test_help(capsys: Capsys) -> None:
    """Of verbs, and of all public names in Python, with their methods."""
    for verb in VERBS:
        cli.main([*verb.split(), "--help"])
        assert faults(capsys.readouterr().out) == [], verb
    for name in set(ss.__all__) - {"__version__"}:
        value = getattr(ss, name)
        members = list(vars(value).values()) if inspect.isclass(value) else []
        said = [inspect.getdoc(one) or "" for one in (value, *members) if callable(one)]
        assert [one for text in said for one in faults(text)] == [], name


def strings(file: Path) -> Iterator[str]:
    """The texts of a module without its docstrings, adjacent ones joined."""
    tree = ast.parse(file.read_text())
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "7" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_errors_and_all_that_the_package_says() -> None:
    files = tracked("splitstep/*.py")
    found = {file.name: [one for text in strings(file) if " " in text for one in faults(text)] for file in files}
    assert {name: one for name, one in found.items() if one} == {}
    recipes = {file.name: faults(file.read_text()) for file in tracked("splitstep/recipes/*.yaml")}
    assert {name: one for name, one in recipes.items() if one} == {}


@cache
def results() -> list[Path]:
    """One stored result of each study, the smallest."""
    files: dict[str, Path] = {}
    for file in sorted(tracked("results/*/result.json"), key=lambda one: one.stat().st_size):
        if (name := str(read_json(file, "anything").get("study"))) in STUDIES:
            files.setdefault(name, file)
    return list(files.values())


def test_pages_of_stored_results() -> None:
    assert len(results()) >= 8
    for file in results():
        document = read_json(file, "anything")
        page = document_to_page(study_of(document, str(file)).read(document, str(file)).document())
        assert faults(re.sub(r"<[^>]*>", " ", page)) == [], file

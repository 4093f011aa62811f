"""What studies wrote to results/ is read by this version, and drawn as a page and as Markdown."""

import json
from pathlib import Path

import pytest

from splitstep.experiments.study import study_of
from splitstep.report.drawing import document_to_page, documents_to_markdown

ROOT = Path(__file__).parents[2] / "results"
STORED = [file for file in sorted(ROOT.rglob("result.json")) if "study" in json.loads(file.read_text(encoding="utf-8"))]


def test_there_are_results_of_most_studies() -> None:
    assert len({json.loads(file.read_text(encoding="utf-8"))["study"] for file in STORED}) >= 8


@pytest.mark.parametrize("file", STORED, ids=lambda file: str(file.parent.relative_to(ROOT)))
def test_a_stored_result_is_read_and_drawn(file: Path) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    document = study_of(found, str(file)).read(found, str(file)).document()
    assert document.tables
    assert document_to_page(document).endswith("</html>\n")
    assert "| --- |" in documents_to_markdown([("", document)], document.tables)

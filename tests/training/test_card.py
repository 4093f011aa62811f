"""A finished run's folder has a model card: what the model is, its figures, how to open it; nothing in it is markup."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

import splitstep as ss
from splitstep.training import read_recipe, train
from splitstep.training.result import RunResult

TINY = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}
DIGITS = {"task": "digits", "scheme": "F0/2 A F1/2", "match": "none", "model": TINY, "train": {"steps": 1, "batch": 4}}
HOSTILE = "<script>a()</script> | `x` [y](javascript:b) *z*\n\n---\n# h {0} <img src=x>"


def trained(document: dict[str, Any], out: Path) -> tuple[RunResult, Path]:
    return train(read_recipe(document, "recipe"), out, quiet=True), out / "model"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    return trained(DIGITS, tmp_path_factory.mktemp("card") / "run")


def test_the_front_matter_is_what_the_hub_reads(digits: tuple[RunResult, Path]) -> None:
    text = (digits[1] / "README.md").read_text()
    front = yaml.safe_load(text.split("---\n")[1])
    assert front == {
        "library_name": "transformers", "pipeline_tag": "image-classification", "tags": ["splitstep", "digits"],
    }  # fmt: skip
    assert ModelCard(text, ignore_metadata_errors=False).data.to_dict() == front


def test_the_card_says_what_the_model_is_and_how_it_did(digits: tuple[RunResult, Path]) -> None:
    result, folder = digits
    text = (folder / "README.md").read_text()
    model = ss.load(folder).model
    assert f"| scheme | `F0/2 A F1/2` (macaron) |\n| order | {ss.scheme('macaron').order} |" in text
    assert f"| parameters | {sum(p.numel() for p in model.parameters()):,} |" in text
    assert f"| test | {result.test['accuracy']:.2%} | {result.test['loss']:.4g} |" in text
    assert "one run, with one seed (0)" in text
    assert "license" not in text


def test_what_the_card_says_about_loading_works(digits: tuple[RunResult, Path]) -> None:
    text = (digits[1] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        found: dict[str, Any] = {}
        exec(block.replace("path/to/this/folder", str(digits[1])), found)  # the card's own code
        model = found["model"] if "model" in found else found["found"].model
        assert type(model) is ss.SplitstepForImageClassification


def test_text_from_data_is_no_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitstep.tasks.images.DIGITS_SOURCE", {"name": HOSTILE})
    _, folder = trained(DIGITS, tmp_path / "run")
    text = (folder / "README.md").read_text()
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text.split("---\n", 2)[2])
    assert "&lt;script&gt;a()&lt;/script&gt; | `x` [y](javascript:b) *z* --- # h {0} &lt;img src=x&gt;" in page
    assert not {"<script", "<img", "<a", "<em", "<hr"} & set(re.findall(r"<\w+", page))


def test_a_model_that_generates_is_saved_with_all_that_it_needs(tmp_path: Path) -> None:
    data = {"limit": 20_000, "length": 16}
    _, folder = trained(
        {"task": "stdlib", "data": data, "model": TINY, "train": {"steps": 1, "batch": 2}}, tmp_path / "r"
    )
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "config.json", "generation_config.json", "model.safetensors", "splitstep_models.py",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    snippet = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)[1]
    opened: dict[str, Any] = {}
    exec(snippet.replace("path/to/this/folder", str(folder)), opened)  # the card's own code
    assert opened["tokenizer"]("def ").input_ids == list(b"def ")
    found = ss.load(folder.parent)
    ids = found.needs_tokenizer()("def ", return_tensors="pt").input_ids
    assert found.model.generate(ids, max_new_tokens=3, do_sample=False).shape == (1, 7)

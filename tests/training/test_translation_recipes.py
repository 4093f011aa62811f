"""Claims about the recipes for translation: the papers' shapes and values, and a task that runs with no data at all."""

import re
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import yaml

from splitstep.models import SplitstepForTranslation, TranslationConfig
from splitstep.options import snapshot_steps
from splitstep.recipes import FOLDER
from splitstep.support.documents import flat
from splitstep.tasks import TASKS, task
from splitstep.tasks.pairs.corpora import english, german
from splitstep.tasks.pairs.search import translate
from splitstep.training import load_recipe, train

PAPERS: dict[str, Any] = {  # the Macaron Net paper's values in all three recipes; that weights are averaged is ours
    "scheme": "A F", "match": "parameters", "model.layers": 6, "model.decoder_layers": 6,
    "model.attention_dropout": 0.1, "model.activation_dropout": 0.1, "model.label_smoothing": 0.1,
    "train.schedule": "inverse-sqrt", "train.warmup": 8000, "train.warmup_from": 1e-7, "train.betas": [0.9, 0.98],
    "train.eps": 1e-8, "train.clip": 0.0, "train.keep": "average", "train.average": 10,
}  # fmt: skip
ENTRIES = (
    "model.width", "model.heads", "model.ffn", "model.dropout", "train.lr", "train.weight_decay", "train.batch",
    "data.direction", "data.merges", "data.beams", "data.length_penalty", "train.steps", "train.average_every",
)  # fmt: skip  # a batch is counted in tokens; the steps, and those between two snapshots, are ours
VALUES = {
    "iwslt14-de-en": (512, 4, 1024, 0.3, 1.5e-3, 1e-4, 4096, "de-en", 10_000, 5, 1.0, 60_000, 1200),
    "wmt14-en-de-base": (512, 8, 2048, 0.1, 1.5e-3, 0, 8192 * 4, "en-de", 32_764, 4, 0.6, 100_000, 1500),
    "wmt14-en-de-big": (1024, 16, 4096, 0.3, 3e-3, 0, 4096 * 64, "en-de", 32_764, 4, 0.6, 50_000, 500),
}
TASK_OF = {path.stem: yaml.safe_load(path.read_text())["task"] for path in sorted(FOLDER.glob("*.yaml"))}
NAMES = [name for name, which in TASK_OF.items() if TASKS[which].model == "translation" and name != "translate"]


@pytest.mark.parametrize("name", NAMES)
def test_recipes_are_sound(name: str) -> None:
    """And translators of real text end with the mean of ten snapshots, in the last part of the run."""
    recipe = load_recipe(name)
    config = TranslationConfig(**recipe.model)
    other = TranslationConfig(**{**recipe.model, "width": 4 * config.width})
    assert (config.embedding_scale, other.embedding_scale) == (sqrt(config.width), 2 * sqrt(config.width))
    assert (config.init, config.activation, config.positions) == ("xavier", "relu", "sinusoidal")
    if name != "numbers":
        steps = snapshot_steps(recipe.train)
        assert (len(steps), steps[-1]) == (10, recipe.train.steps)
        assert steps[0] > recipe.train.steps / 2


@pytest.mark.parametrize("name", VALUES)
def test_recipes_have_the_papers_values(name: str) -> None:
    expected = PAPERS | dict(zip(ENTRIES, VALUES[name], strict=True))
    found = dict(flat(load_recipe(name).document()))
    assert {entry: found[entry] for entry in expected} == expected


@pytest.mark.parametrize(("name", "steps"), [("multi30k-en-de", 500), ("tatoeba-de-en", 12), ("wmt14-en-de-base", 5)])
def test_a_shorter_run_is_refused_with_overrides_that_work(name: str, steps: int) -> None:
    shorter = f"train.steps={steps}"
    with pytest.raises(ValueError, match="option average is 10, and") as caught:
        load_recipe(name, [shorter])
    proposed = re.findall(r"train\.\S+", str(caught.value))
    assert len(proposed) == (2 if steps >= 10 else 1)
    for override in proposed:
        kept = snapshot_steps(load_recipe(name, [shorter, override]).train)
        assert kept[-1] == steps
        assert len(kept) == (10 if "average_every" in override else int(override.rpartition("=")[2]))


def test_own_text_needs_two_files() -> None:
    with pytest.raises(ValueError, match=r"translate: data: option train is missing"):
        load_recipe("translate")
    assert load_recipe("translate", ["data.train=my.en,my.de"]).task == "parallel"


def test_numbers_train(tmp_path: Path) -> None:
    """A short run goes from recipe to test figures and translations."""
    small = ["data.train=300", "data.valid=20", "data.test=20", "model.width=32", "model.ffn=64",
             "train.steps=8", "train.batch=256", "data.beams=2", "scheme=macaron"]  # fmt: skip
    result = train(load_recipe("numbers", small), tmp_path / "run", quiet=True)
    assert (result.status, result.metric.name) == ("finished", "exact_match")
    assert 1 < result.test["perplexity"] < 200
    for split in ("valid", "test"):
        assert (tmp_path / "run" / "translations" / f"{split}.txt").read_text().count("\n") == 20


@pytest.mark.nightly
def test_unseen_numbers_are_translated(tmp_path: Path) -> None:
    result = train(load_recipe("numbers"), tmp_path / "run", quiet=True)
    assert result.status == "finished"
    assert result.test["exact_match"] > 95
    made = task("numbers")
    model = SplitstepForTranslation.from_pretrained(tmp_path / "run" / "model").eval()
    typed = [42_301, 12, 42, 1, 100, 1000]  # what people try first; 12 and 42: README, `--help`
    assert translate(model, made.codec, [english(n) for n in typed]) == [german(n) for n in typed]

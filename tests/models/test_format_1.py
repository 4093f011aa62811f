"""Configs as they were stored before letters had options of their own open, and give the same logits bit for bit."""

import json
from pathlib import Path
from typing import Any

import golden
import pytest
from golden_sections import answers, answers_of, shapes
from tiny import drawn
from transformers import AutoConfig

STORED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "format_1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STORED)
def test_a_stored_config_means_the_same_network(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(STORED[name]), encoding="utf-8")
    kind, entries = shapes()[name]
    found = answers_of(kind, drawn(kind, AutoConfig.from_pretrained(tmp_path)))
    assert found == answers(kind, entries)
    if not golden.other_ground("models"):  # the weights and the logits of the day on which the files were written
        assert golden.mark(found) == golden.stored()["models"][name]

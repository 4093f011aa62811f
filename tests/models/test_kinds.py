"""Kinds: one table that tasks, costs and Hugging Face's Auto classes share, and the names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest
from transformers import AutoConfig

import splitstep as ss
from splitstep.models import KINDS, SplitstepConfig
from splitstep.models.config import kind_of
from splitstep.tasks import TASKS


@pytest.mark.parametrize("name", list(KINDS))
def test_a_kind_is_what_its_config_its_model_and_its_auto_class_say(name: str) -> None:
    kind = KINDS[name]
    config = kind.config(layers=1, width=8, heads=2, ffn=8)
    assert kind.model.config_class is kind.config
    assert kind_of(config).model is kind.model
    assert config.model_type == f"splitstep-{name}"
    assert type(AutoConfig.for_model(config.model_type)) is kind.config
    assert type(kind.auto.from_config(config)) is kind.model


def test_every_task_has_a_kind() -> None:
    assert {task.model for task in TASKS.values()} <= set(KINDS)


def test_a_config_of_no_kind_is_one_clear_line() -> None:
    with pytest.raises(ValueError, match=r"^SplitstepConfig does not belong to a model: use one of CausalConfig, "):
        kind_of(SplitstepConfig())


def test_all_public_names_are_listed_and_brought_on_first_use() -> None:
    code = (
        "import sys, splitstep as ss; names = dir(ss); assert 'torch' not in sys.modules; "
        "assert {'CausalConfig', 'Stack', 'scheme', 'twin'} <= set(names) == set(ss.__all__); "
        "assert all(getattr(ss, name) is not None for name in names)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'twins'"):
        _ = ss.twins

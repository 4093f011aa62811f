"""What must not change by accident is as it was frozen; tests/helpers/golden.py says how to look at a difference."""

import golden
import pytest

LARGE = ("tasks", "published")


@pytest.mark.parametrize(
    "section", [pytest.param(one, marks=[pytest.mark.nightly] * (one in LARGE)) for one in golden.sections()]
)
def test_nothing_changed_by_accident(section: str) -> None:
    """On another kind of machine, or with other versions of libraries, texts and numbers may rightly differ."""
    if ground := golden.other_ground(section):
        pytest.skip(ground)
    assert not list(golden.differences(section, golden.sections()[section]()))

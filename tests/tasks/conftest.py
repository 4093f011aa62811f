"""What tests of tasks share."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def data() -> Path:
    """The folder of real data: $SPLITSTEP_DATA, else shared/data beside the checkout."""
    given = os.environ.get("SPLITSTEP_DATA")
    path = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no data folder: set SPLITSTEP_DATA")
    return path

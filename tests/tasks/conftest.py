"""What tests of tasks share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of each module's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPLITSTEP_CACHE", str(folder))
        yield folder


@pytest.fixture
def data() -> Path:
    """The folder of real data: $SPLITSTEP_DATA, else shared/data beside the checkout."""
    given = os.environ.get("SPLITSTEP_DATA")
    path = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no data folder: set SPLITSTEP_DATA")
    return path

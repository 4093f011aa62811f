"""Pages are opened in a real browser, where nothing may go wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pages import chromium, visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file, and at the end says what should not have happened there."""
    seen = list[tuple[Any, list[str]]]()

    def opened(*given: Any, **context: Any) -> Any:
        seen.append(visit(browser, *given, **context))
        return seen[-1][0]

    yield opened
    for page, wrong in seen:
        page.close()
        assert wrong == []

"""Faster imports of large packages."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .garbage import no_collection


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside, nor right afterwards of what was made inside.

    The import of transformers makes 400,000 objects that stay. They trigger collections that look at all of them, which
    would take a fifth of the import's time.
    """
    with no_collection():
        try:
            yield
        finally:
            if gc.get_freeze_count() == 0:  # otherwise this would unfreeze objects that others froze
                gc.freeze()
                gc.unfreeze()  # moves all objects to the oldest generation without a collection


@contextmanager
def lean() -> Iterator[None]:
    """transformers without scikit-learn and scipy, which it imports if they are installed, for assisted generation and
    object detection. Programs that do neither save a second."""
    utils: Any = import_module("transformers.utils")
    known = {name: getattr(utils, name) for name in ("is_sklearn_available", "is_scipy_available")}
    for name in known:
        setattr(utils, name, lambda: False)
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(utils, name, function)

"""Quicker imports of what is large."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside, and none right after it for what was made inside.

    transformers makes 400,000 objects, all to stay, and each of the collections that so many set off looks at all of
    them: together a fifth of the time of the import.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # somebody's frozen objects would thaw
            gc.freeze()
            gc.unfreeze()  # what was young is of the oldest generation now, and no collection has looked at it
        if was_on:
            gc.enable()


@contextmanager
def lean() -> Iterator[None]:
    """transformers without scikit-learn and scipy inside: it imports them wherever they are installed, for assisted
    generation and for finding objects. For programs that do neither; a second less."""
    utils: Any = import_module("transformers.utils")
    known = {name: getattr(utils, name) for name in ("is_sklearn_available", "is_scipy_available")}
    for name in known:
        setattr(utils, name, lambda: False)
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(utils, name, function)

"""Imports without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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

"""Memory: when Python collects garbage, and errors of devices that have too little."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A plain RuntimeError says so on a CPU, where CUDA cannot start on a full GPU, and where one of its libraries cannot.
TEXTS = ("can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED")


class NoMemory(ValueError):
    """A device has too little memory for what was asked; the message says what to ask instead."""


def no_memory(error: BaseException) -> bool:
    """Whether an allocation failed."""
    import torch

    if isinstance(error, RuntimeError) and any(text in str(error) for text in TEXTS):
        return True
    return isinstance(error, torch.OutOfMemoryError | MemoryError)


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is collected inside; a collector that was off stays off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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

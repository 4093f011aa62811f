"""Out-of-memory errors."""

import torch

# A plain RuntimeError says so on a CPU, where CUDA cannot start on a full GPU, and where one of its libraries cannot.
TEXTS = ("can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED")


class NoMemory(ValueError):
    """A device has too little memory for what was asked; the message says what to ask instead."""


def no_memory(error: BaseException) -> bool:
    """Whether an allocation failed."""
    if isinstance(error, RuntimeError) and any(text in str(error) for text in TEXTS):
        return True
    return isinstance(error, torch.OutOfMemoryError | MemoryError)

"""Too little memory, told from other errors."""

import torch


def no_memory(error: BaseException) -> bool:
    """Whether an allocation failed; that of a CPU has no exception of its own."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)

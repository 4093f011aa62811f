"""Too little memory, told from other errors."""

import torch


def no_memory(error: BaseException) -> bool:
    """Whether an allocation failed; PyTorch's on a CPU have no exception of their own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

"""Out-of-memory errors."""

import torch


def no_memory(error: BaseException) -> bool:
    """Whether an allocation failed; on a CPU PyTorch raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

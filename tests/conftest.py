"""What all tests share: one thread per worker, and the same hypothesis examples on every run."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("splitstep", deadline=None, derandomize=True, database=None)
settings.load_profile("splitstep")

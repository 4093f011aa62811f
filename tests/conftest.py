"""What all tests share: one thread per worker, and the same hypothesis examples on every run."""

import os
import signal

# Some virtual machines advertise AMX and forbid it: a bfloat16 product then ends the process. Read when torch starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
from hypothesis import settings

# A shell starts background jobs with interrupts ignored, and children inherit that: tests of Ctrl-C need them heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
settings.register_profile("splitstep", deadline=None, derandomize=True, database=None)
settings.load_profile("splitstep")

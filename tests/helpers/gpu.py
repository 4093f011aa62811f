"""What tests of kernels share: where they can run, and what they run."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which comes with PyTorch for CUDA")


def interpret(code: str) -> None:
    """Run Python in another process, where Triton interprets kernels on the CPU and these helpers can be imported."""
    path = "import sys; sys.path.append('tests/helpers')"
    command = [sys.executable, "-W", "ignore", "-c", f"{path}; {code}"]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], env={**os.environ, "TRITON_INTERPRET": "1"})


def kernels(act: Callable[[], Any], trace: Path) -> list[str]:
    """The names of what runs on the GPU; memory may be copied or set there, too."""
    act()
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            act()
            torch.cuda.synchronize()
        seen.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    return [event["name"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]

"""Whether one kernel may replace several operations of PyTorch: only on plain tensors that nothing traces."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

T = TypeVar("T")

FUSED = (torch.float32, torch.bfloat16, torch.float16)  # what kernels take; they compute in float32


def plain(x: Tensor) -> bool:
    """Whether x is a plain tensor of numbers: not a tracer's, not of a subclass, not batched by `vmap`."""
    while functorch.is_gradtrackingtensor(x):
        x = functorch.get_unwrapped(x)
    return type(x) in (Tensor, nn.Parameter) and not functorch.is_functorch_wrapped_tensor(x)


def ordinary(x: Tensor, other: Tensor) -> bool:
    """Whether a kernel may run on both now. In parts of a compilation `is_compiling` is False, so the tensors are asked
    too. Kernels compute in float32, so x must not have more precision.
    """
    return (
        not torch.compiler.is_compiling()
        and x.dtype in FUSED
        and x.device == other.device
        and plain(x)
        and plain(other)
        and not is_in_torch_dispatch_mode()
    )


def transformed(*tensors: Tensor | None) -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation needs each operation's own rules."""
    if torch._C._are_functorch_transforms_active():  # pyright: ignore[reportAttributeAccessIssue]
        return True
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


@final
class FastKernel(Generic[T]):
    """A kernel, or several, in place of many operations of PyTorch: called with a kind of device, it gives what is at
    `path`, a module of this package or a function in one ("module:function"), if that runs there and `check` finds that
    it does as the formulas do; else None, and the formulas must do.

    The first call waits for the device. A missing Triton needs no warning. A missing compiler, an unknown device or
    wrong results are: the user should know why the program is slower.
    """

    def __init__(self, name: str, path: str, check: Callable[[T, str], None]) -> None:
        self.name, self.path, self.check = name, path, check
        self.known: dict[str, T | None] = {}

    def __call__(self, kind: str) -> T | None:
        if kind not in self.known:
            self.known[kind] = self.checked(kind)
        return self.known[kind]

    def load(self) -> Any:
        """What is at the path."""
        module, _, function = self.path.partition(":")
        found = import_module(f".{module}", __package__)
        return getattr(found, function) if function else found

    def checked(self, kind: str) -> T | None:
        """What is to be used on devices of this kind."""
        if kind != "cuda" or not torch.cuda.is_available():
            return None
        try:
            self.check(found := self.load(), kind)
            return found
        except ImportError:
            return None
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            why = f"which fails: {type(error).__name__}: {reason}"
            warnings.warn(f"{self.name} runs without its kernel, {why}", stacklevel=3)
            return None

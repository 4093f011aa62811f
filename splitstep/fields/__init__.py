"""Fields f(t, x, context) -> dx/dt."""

from ..kernels.dropout import draw_seed, dropout
from ..kernels.rotary import rotary
from .attention import CrossAttention, SelfAttention, barrier, exact_attention
from .context import Context, FieldSpec, visible
from .diffusion import Diffusion
from .pointwise import ACTIVATIONS, NORMS, FeedForward, Projection, Stabiliser, norm

__all__ = [
    "ACTIVATIONS", "NORMS", "Context", "CrossAttention", "Diffusion", "FeedForward", "FieldSpec", "Projection",
    "SelfAttention", "Stabiliser", "barrier", "draw_seed", "dropout", "exact_attention", "norm",
    "rotary", "visible",
]  # fmt: skip

"""Fields: f(t, x, context) -> dx/dt, one a file."""

from ..kernels.dropout import draw_seed, dropout
from .attention import CrossAttention, SelfAttention, barrier, exact_attention, rotary
from .context import Context
from .feed_forward import ACTIVATIONS, FeedForward
from .norms import NORMS, Projection, norm

__all__ = [
    "ACTIVATIONS", "NORMS", "Context", "CrossAttention", "FeedForward", "Projection", "SelfAttention",
    "barrier", "draw_seed", "dropout", "exact_attention", "norm", "rotary",
]  # fmt: skip

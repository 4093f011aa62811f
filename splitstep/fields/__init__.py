"""Fields f(t, x, context) -> dx/dt, one in each file."""

from ..kernels.dropout import draw_seed, dropout
from ..kernels.rotary import rotary
from .attention import CrossAttention, SelfAttention, attention_weights, barrier, exact_attention
from .context import Context, FieldSpec
from .feed_forward import ACTIVATIONS, FeedForward
from .norms import NORMS, Projection, norm

__all__ = [
    "ACTIVATIONS", "NORMS", "Context", "CrossAttention", "FeedForward", "FieldSpec", "Projection", "SelfAttention",
    "attention_weights", "barrier", "draw_seed", "dropout", "exact_attention", "norm", "rotary",
]  # fmt: skip

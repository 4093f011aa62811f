"""Published modifications of a Transformer, each a line: what it changes in a recipe, and the paper. No torch here."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .scheme import Scheme, with_projections
from .schemes import SCHEMES


class Paper(NamedTuple):
    """Where a modification was published: the arXiv identifier, the title and the year."""

    arxiv: str
    title: str
    year: int


class Modification(NamedTuple):
    """A modification: what it is, its paper, the entries of a recipe that it sets, and how it changes the scheme. One
    that evaluates fields more often can be compared at equal FLOPs only."""

    what: str
    paper: Paper
    entries: Mapping[str, Any]
    change: Callable[[Scheme], Scheme] | None = None
    costs_flops: bool = False


ATTENTION = Paper("1706.03762", "Attention Is All You Need", 2017)
GLU = Paper("2002.05202", "GLU Variants Improve Transformer", 2020)
PALM = Paper("2204.02311", "PaLM: Scaling Language Modeling with Pathways", 2022)
PARTICLES = Paper(
    "1906.02762",
    "Understanding and Improving Transformer From a Multi-Particle Dynamic System Point of View",
    2019,
)
ODE = Paper(
    "2203.09176", "ODE Transformer: An Ordinary Differential Equation-Inspired Model for Sequence Generation", 2022
)
NO_POSITIONS = Paper(
    "2203.16634", "Transformer Language Models without Positional Encodings Still Learn Positional Information", 2022
)
REORDERED = Paper("1911.03864", "Improving Transformer Models by Reordering their Sublayers", 2019)
COGVIEW = Paper("2105.13290", "CogView: Mastering Text-to-Image Generation via Transformers", 2021)


def row(name: str) -> dict[str, Any]:
    """The entries that choose a row of the schemes."""
    return {"scheme": str(SCHEMES[name])}


def once(scheme: Scheme) -> Scheme:
    """The scheme with its norms after each part, whatever it had before."""
    return scheme if scheme.projections else with_projections(scheme)


SHELF: dict[str, Modification] = {
    "swiglu": Modification("a feed-forward network with a gate, silu(W x) * V x", GLU, {"model.activation": "swiglu"}),
    "geglu": Modification("the same with gelu in the gate", GLU, {"model.activation": "geglu"}),
    "relu": Modification("relu in the feed-forward network", ATTENTION, {"model.activation": "relu"}),
    "relu2": Modification(
        "relu squared in the feed-forward network",
        Paper("2109.08668", "Primer: Searching for Efficient Transformers for Language Modeling", 2021),
        {"model.activation": "relu2"},
    ),
    "rms": Modification(
        "norms that divide by the root mean square",
        Paper("1910.07467", "Root Mean Square Layer Normalization", 2019),
        {"model.norm": "rms"},
    ),
    "tanh": Modification(
        "tanh(a x) instead of norms, with one a learned for each",
        Paper("2503.10622", "Transformers without Normalization", 2025),
        {"model.norm": "tanh"},
    ),
    "qk-norm": Modification(
        "norms of each head's queries and keys",
        Paper("2010.04245", "Query-Key Normalization for Transformers", 2020),
        {"model.letters.A.qk_norm": "rms"},
    ),
    "no-norm": Modification(
        "no norms at all",
        Paper("2408.09523", "Understanding Transformer Architecture through Continuous Dynamics", 2024),
        {"model.norm": "none"},
    ),
    "sandwich": Modification(
        "norms before and after each network, x + norm(f(norm(x)))", COGVIEW, {"model.norm_at": "both"}
    ),
    "post": Modification("norms after each sum, norm(x + f(x))", ATTENTION, {}, once),
    "no-positions": Modification("no positions", NO_POSITIONS, {"model.positions": "none"}),
    "sinusoidal": Modification("positions as sines and cosines", ATTENTION, {"model.positions": "sinusoidal"}),
    "learned": Modification(
        "a learned vector for each position",
        Paper("1705.03122", "Convolutional Sequence to Sequence Learning", 2017),
        {"model.positions": "learned"},
    ),
    "rotary": Modification(
        "queries and keys turned by their position",
        Paper("2104.09864", "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021),
        {"model.positions": "rotary"},
    ),
    "one-kv-head": Modification(
        "one head of keys and values for all heads of queries",
        Paper("1911.02150", "Fast Transformer Decoding: One Write-Head is All You Need", 2019),
        {"model.kv_heads": 1},
    ),
    "no-bias": Modification("no biases in matrices", PALM, {"model.bias": False}),
    "parallel": Modification("attention and feed-forward side by side", PALM, row("parallel")),
    "macaron": Modification("half a feed-forward before and half after attention", PARTICLES, row("macaron")),
    "conformer": Modification(
        "a gated convolution after attention, between the halves of a feed-forward",
        Paper("2005.08100", "Conformer: Convolution-augmented Transformer for Speech Recognition", 2020),
        row("conformer"),
    ),
    "F A": Modification("the feed-forward network before attention", REORDERED, row("reverse-lie")),
    "midpoint": Modification("each layer by the midpoint rule", ODE, row("midpoint"), costs_flops=True),
    "heun": Modification("each layer by Heun's method", ODE, row("heun"), costs_flops=True),
    "rk4": Modification("each layer by the classical method of order four", ODE, row("rk4"), costs_flops=True),
}

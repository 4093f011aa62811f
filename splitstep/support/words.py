"""Numbers with their nouns."""


def counted(n: int, noun: str) -> str:
    """The number and the noun as people write them: 1 layer, 2 layers, 1,000 layers."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"

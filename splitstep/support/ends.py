"""The tokens at which a model stops, by its generation settings."""

from typing import Any


def named_ends(settings: Any) -> list[int]:
    """The ends that the settings name: one, several or none."""
    named = settings.eos_token_id
    return list(named) if isinstance(named, list) else [] if named is None else [named]

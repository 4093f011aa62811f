"""A key is its text, and its text is the key."""

import pytest

from splitstep.flows import Key
from splitstep.flows.keys import ONCE, places

KEYS = [Key("states", 3), Key("weights", 12), Key("tail", 2), Key("tail", 0.5), *map(Key, ONCE)]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_key_is_read_as_it_is_written(key: Key) -> None:
    assert Key.read(str(key)) == key
    assert type(Key.read(str(key)).at) is {"tail": float, "states": int, "weights": int}.get(key.what, type(None))


def test_the_names_of_files_in_caches_are_keys() -> None:
    assert [str(key) for key in KEYS[:4]] == ["states.3", "weights.12", "tail.2", "tail.0.5"]


@pytest.mark.parametrize(
    "text", ["", "state.3", "states", "states.x", "states.1.5", "tail", "tail.2.0", "logits.1", "logits."]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'there is no key "{text}": write one of logits'):
        Key.read(text)


def test_places_are_in_order_and_each_once() -> None:
    assert places("states", [Key("states", 9), Key("states", 2), Key("weights", 5), Key("states", 9)]) == [2, 9]
    assert places("tail", [Key("logits")]) == []

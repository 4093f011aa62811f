"""YAML as recipes are written in it: no aliases, no repeated keys, and 3e-4 is a number."""

from __future__ import annotations

import re
from typing import Any, final

import yaml


@final
class Loader(yaml.SafeLoader):
    """Reads YAML without aliases, a few lines of which can expand beyond all memory, and without repeated keys, of
    which PyYAML's own loader would keep the last. 3e-4 is a number."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not allowed: write its value out", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is there twice: keep one", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse(text: str) -> Any:
    """The value of a YAML text."""
    return yaml.load(text, Loader)

"""How a YAML file becomes plain mappings, within bounds: a few lines of aliases can stand for terabytes.

Size is judged before anything is built from the parsed nodes, and an alias counts as often as it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

#: Largest file; a config is a few kilobytes, and all of them are read every few seconds.
FILE_LIMIT_BYTES = 1024 * 1024
#: What its values may come to when every alias is written out.
EXPANDED_LIMIT_CHARACTERS = 4 * 1024 * 1024

#: The C parser where it was built in: a hundred times as fast on a large folder.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_documents(path: Path) -> Iterator[Mapping[str, Any]]:
    """The mappings of a file: one, or each of a list. Raises OSError, ValueError, yaml.YAMLError with what is wrong."""
    if not path.is_file():  # a pipe would keep its reader, and with it the whole process, waiting for ever
        raise ValueError("it is not a file")
    if path.stat().st_size > FILE_LIMIT_BYTES:
        raise ValueError(f"it is larger than {FILE_LIMIT_BYTES} bytes")
    try:
        content = _load(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    for raw in content if isinstance(content, list) else [content]:
        if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
            raise ValueError("a model config is a mapping, or a list of mappings")
        yield raw


def _load(text: str) -> Any:
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded(node, {}) > EXPANDED_LIMIT_CHARACTERS:
            raise ValueError(f"its aliases stand for more than {EXPANDED_LIMIT_CHARACTERS} characters")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _expanded(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Characters of a node with every alias written out. Each node is looked at once, however often it is used."""
    if id(node) in known:
        size = known[id(node)]
        if size is None:
            raise ValueError("it has a value that contains itself")
        return size
    if isinstance(node, yaml.ScalarNode):
        size = len(node.value) + 1
    else:
        known[id(node)] = None
        size = 1 + sum(_expanded(inner, known) for inner in _inner(node))
    known[id(node)] = size
    return size


def _inner(node: yaml.Node) -> Iterator[yaml.Node]:
    for item in node.value:
        if isinstance(item, tuple):
            yield from item
        else:
            yield item

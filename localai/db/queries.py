"""Where the SQL of a subsystem stands: named statements in ``<subsystem>/queries.sql``.

A statement begins with its name between dashes, then one comment that says its purpose::

    -- take_job --
    -- A queued job gets its owner; one of many takers wins.
    UPDATE jobs SET ...

Parameters are written ``%(name)s``; comments are taken out before the statement is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- (\w+) --$")
_COMMENT = re.compile(r"\s*--.*$")


class Queries(Mapping[str, str]):
    """Statements by name. Asking for an unknown name is a programming error and names the file."""

    def __init__(self, source: str, statements: Mapping[str, str]) -> None:
        self._source, self._statements = source, dict(statements)

    def __getitem__(self, name: str) -> str:
        try:
            return self._statements[name]
        except KeyError:
            raise KeyError(f"{self._source} has no statement {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


@cache
def load_queries(package: str, file: str = "queries.sql") -> Queries:
    """The statements of one package, read once in a process. Raises ValueError for a file that breaks the form."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    return Queries(f"{package}/{file}", parse(text))


def parse(text: str) -> dict[str, str]:
    """Statements of a file's text, without comments and without the closing semicolon."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        heading = _NAME.match(line)
        if heading:
            if heading[1] in found:
                raise ValueError(f"two statements are named {heading[1]!r}")
            current = found.setdefault(heading[1], [])
            continue
        code = _COMMENT.sub("", line).rstrip()
        if not code:
            continue
        if current is None:
            raise ValueError(f"a statement without a name begins with {code!r}")
        current.append(code)
    return {name: "\n".join(lines).removesuffix(";") for name, lines in found.items()}

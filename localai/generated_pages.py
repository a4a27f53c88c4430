"""How is a page of the reference that is made from the code written anew, and how is it found to be stale?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def page_command(module: str, page: Callable[[], str], arguments: Sequence[str] | None = None) -> int:
    """`python -m module --write PAGE` or `--check PAGE`: the exit code, which is 1 where the page is stale or missing.

    ``arguments`` are those of the process where none are given.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--check", type=Path)
    group.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    if options.write:
        options.write.write_text(page(), encoding="utf-8")
        return 0
    if not options.check.exists() or options.check.read_text(encoding="utf-8") != page():
        sys.stderr.write(f"{options.check} is stale: run `make fmt`\n")
        return 1
    return 0

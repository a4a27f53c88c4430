"""How does a command tell a person what it does, apart from its result?"""

from __future__ import annotations

import sys

from localai.escapes import escaped


def say(text: str) -> None:
    """One message on standard error. A reader that has left is no reason to stop what runs."""
    try:
        sys.stderr.write(f"localai: {escaped(text)}\n")
        sys.stderr.flush()
    except OSError:
        return

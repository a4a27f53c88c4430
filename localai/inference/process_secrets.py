"""The secret of one model process: each call to the process shows it, and the process refuses a call without it.

The agent draws it when it starts the process. A process that was started without one has the secret None, and calls to
it show nothing.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

#: Where the process finds its secret. The environment of a process is readable by its own account only, unlike its
#: command line. Backends of other projects know this variable.
VARIABLE = "LOCALAI_GRPC_AUTH_TOKEN"

#: What a secret looks like, for errors about one.
FORM = "16 to 256 visible ASCII characters, or none"

_BYTES = 32
_FORM = re.compile(r"[!-~]{16,256}")


def draw() -> str:
    """A new secret, of letters, digits, `-` and `_`."""
    return secrets.token_urlsafe(_BYTES)


def is_usable(secret: Any) -> bool:
    """Whether calls can show what an agent reports as the secret of a process; None asks for nothing."""
    return secret is None or (isinstance(secret, str) and _FORM.fullmatch(secret) is not None)


def metadata(secret: str | None) -> tuple[tuple[str, str], ...] | None:
    """The metadata of a call to the process with this secret."""
    return None if secret is None else (("authorization", f"Bearer {secret}"),)

"""The secret of one model process: each call sends it as metadata, and the process refuses calls without it.

The agent draws the secret when it starts the process. A process of an earlier agent has the secret None, and calls to
it send no such metadata.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

#: Environment variable with the secret of the process. Only the account of a process can read its environment; every
#: account can read its command line. Backends of other projects check this variable.
VARIABLE = "LOCALAI_GRPC_AUTH_TOKEN"

#: The accepted form, for error texts.
FORM = "16 to 256 visible ASCII characters, or none"

_BYTES = 32
_FORM = re.compile(r"[!-~]{16,256}")


def draw() -> str:
    """Return a new secret of letters, digits, `-` and `_`."""
    return secrets.token_urlsafe(_BYTES)


def is_usable(secret: Any) -> bool:
    """Whether a reported secret can be sent as metadata; None is accepted and means no secret."""
    return secret is None or (isinstance(secret, str) and _FORM.fullmatch(secret) is not None)


def metadata(secret: str | None) -> tuple[tuple[str, str], ...] | None:
    """Return the metadata of a call to the process with this secret."""
    return None if secret is None else (("authorization", f"Bearer {secret}"),)

"""The random texts that nodes show, and what rows keep of them."""

from __future__ import annotations

import hashlib
import secrets


def draw() -> str:
    """A new credential or node secret: 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of(secret: str) -> str:
    """What a row keeps of a secret. A plain digest is enough, because the secret is random."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()

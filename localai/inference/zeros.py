"""Encoding of sampling values that are zero, for a protocol whose zero also means "not set".

The numbers of a call have no presence on the wire (proto3 scalars): some backends take every zero for "not set" and
use a default of their own. A zero that a request or a config gives is sent as another value that draws the same
tokens, so that every backend understands it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A share of the probability that only the most likely token fills.
SMALLEST = 1e-6
#: More tokens than a vocabulary has. With -1, llama.cpp would not sort them, so a seed would draw other words than with
#: any limit that is never reached.
ALL_TOKENS = 2**31 - 1
#: Any fixed seed repeats its answers as seed 0 does.
FIXED_SEED = 2**31 - 1

_SHARES = ("top_p", "typical_p", "mirostat_tau", "mirostat_eta")


def encoded(given: Mapping[str, Any], *, llama: bool) -> dict[str, Any]:
    """The values that replace zeros among the given ones.

    Args:
        given: The values of the request and of the config; None or a missing key is "not given".
        llama: Whether the backend carries llama.cpp. It takes zero of `temperature` and `seed` as they are; other
            backends take zero of `top_k` for no limit, set or not.
    """
    found: dict[str, Any] = {name: SMALLEST for name in _SHARES if _zero(given, name)}
    if llama and given.get("top_k") is not None and given["top_k"] <= 0:
        found["top_k"] = ALL_TOKENS
    if not llama and _zero(given, "temperature"):
        found["top_k"] = 1
    if not llama and _zero(given, "seed"):
        found["seed"] = FIXED_SEED
    if _zero(given, "repeat_penalty"):
        found["repeat_penalty"] = 1.0
    if _zero(given, "repeat_last_n"):
        # No token counts as a repetition: all three penalties are without effect.
        found |= {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
    return found


def _zero(given: Mapping[str, Any], name: str) -> bool:
    return given.get(name) == 0 and given.get(name) is not None

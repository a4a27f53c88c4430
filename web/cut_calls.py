"""Which calls to model processes were ended early, and why: counted once for each call."""

from __future__ import annotations

from collections.abc import Mapping

from localai import metrics
from localai.errors import BackendCrashed, ConnectTimeout, FirstByteTimeout, IdleTimeout, ModelUnloaded

_CAUSES: Mapping[type[BaseException], str] = {
    BackendCrashed: "crashed",
    ConnectTimeout: "connect",
    FirstByteTimeout: "first_byte",
    IdleTimeout: "idle",
    ModelUnloaded: "unloaded",
}


def count_cut(model: str, error: BaseException) -> None:
    """Count a call of a model that ended with this error; other errors count nothing."""
    cause = _CAUSES.get(type(error))
    if cause is not None:
        metrics.CALLS_CUT.labels(model, cause).inc()

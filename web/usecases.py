"""Is a model for what it is asked? Refused before anything loads, where its config or backend says that it is not."""

from __future__ import annotations

from enum import Enum
from functools import cache

from localai.backends.catalogue import usecases_of
from localai.errors import BackendUnimplemented
from localai.models.config import ModelConfig


class Use(Enum):
    """What a request wants: the words of `known_usecases` that allow it."""

    TEXT = ("chat", "completion", "edit", "llm")
    VECTORS = ("embeddings", "rerank")


#: Words that allow neither. One that nobody knows says nothing, so a list with such a word refuses nothing.
_NEITHER = ("image", "video", "transcript", "tts", "sound_generation", "vad", "detection")
_KNOWN = frozenset((*Use.TEXT.value, *Use.VECTORS.value, *_NEITHER))
_MAKES = {Use.TEXT: "no text", Use.VECTORS: "no vectors"}


def require(config: ModelConfig, use: Use) -> None:
    """Raises BackendUnimplemented for a model that is not for this."""
    if config.known_usecases and _refuses(config.known_usecases, use) and not _makes_vectors(config, use):
        raise _refusal(config, use, f"its config lists {', '.join(config.known_usecases)}")
    offered = _offered(config.backend)
    if _refuses(offered, use):
        raise _refusal(config, use, f"the backend is for {' and '.join(offered)}")


#: Asked for every request.
_offered = cache(usecases_of)


@cache
def _refuses(usecases: tuple[str, ...], use: Use) -> bool:
    """Whether all that is listed is known, and something else."""
    return bool(usecases) and set(usecases) <= _KNOWN - set(use.value)


def _makes_vectors(config: ModelConfig, use: Use) -> bool:
    """Switched on where the model is loaded, whatever is listed."""
    return use is Use.VECTORS and (config.loading.embeddings or config.loading.reranking)


def _refusal(config: ModelConfig, use: Use, reason: str) -> BackendUnimplemented:
    return BackendUnimplemented(
        f"the model {config.name!r} on backend {config.backend!r} makes {_MAKES[use]}: {reason}"
    )

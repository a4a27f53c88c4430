"""Is this process patched as a gevent web process must be? One that is not would hang on its first stream."""

from __future__ import annotations

from gevent import monkey
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from localai.errors import StartRefused


def require_gevent() -> None:
    """Raises StartRefused when sockets block the process, or gRPC blocks it."""
    if not monkey.is_module_patched("socket") or not monkey.is_module_patched("threading"):
        raise StartRefused("sockets are not patched: start gunicorn with -c web/gunicorn_conf.py")
    if not cygrpc.g_gevent_activated:
        raise StartRefused("gRPC is not in gevent mode: start gunicorn with -c web/gunicorn_conf.py")

"""How gunicorn runs the web processes: `python -m gunicorn -c <this file> 'web.app:create_app()'`.

The order is measured: sockets patched before anything else is imported, then gRPC's gevent mode, then psycopg2's wait
callback, then the application. Everything that holds a connection is made after the fork.

The master imports the application's modules once and makes nothing of them, so that a worker that replaces a dead one
inherits them with the fork: importing them is four fifths of the CPU that a start costs.
"""

import gc

# Nothing that is imported here is ever freed, so looking for garbage meanwhile only costs time.
gc.disable()

from gevent import monkey  # noqa: E402

monkey.patch_all()

import resource  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
from grpc.experimental.gevent import init_gevent  # type: ignore[import-not-found]  # noqa: E402

init_gevent()

from localai import logs, private_memory  # noqa: E402
from localai.db.gevent_wait import install_wait_callback  # noqa: E402
from localai.errors import BadSetting, StorageUnavailable  # noqa: E402
from localai.settings import Settings  # noqa: E402
from web import app, http_worker, unread_body, wiring  # noqa: E402, F401  # the application, for workers to inherit
from web.frontend_note import FrontendNote, hand_over  # noqa: E402
from web.gunicorn_log import Log  # noqa: E402

install_wait_callback()

try:
    _settings = Settings.load()
except BadSetting as error:
    sys.exit(error.message)

private_memory.close_to_others(unless=_settings.debuggable)
logs.configure(_settings.log_level, "web", _settings.instance_id)
_log = logs.get("web.gunicorn")

#: How long ending the row of a dead worker may take; its lease ends it otherwise.
_END_ROW_LIMIT_S = 5.0

#: Open files of a web process: its connections, as many again to model processes and files, and some of its own.
_OPEN_FILES = 10_000


def _allow_open_files(wanted: int) -> None:
    """Raise the soft limit, usually 1,024: with that a thousand waiting clients keep every other one out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


_allow_open_files(_OPEN_FILES)

_host = f"[{_settings.address}]" if ":" in _settings.address else _settings.address
bind = f"{_host}:{_settings.port}"
if _settings.tls_cert is not None and _settings.tls_key is not None:
    certfile, keyfile = str(_settings.tls_cert), str(_settings.tls_key)
workers = _settings.web_workers
worker_class = "web.http_worker.Worker"
# The application reads X-Forwarded-Proto itself; gunicorn would refuse requests whose proxies disagree.
secure_scheme_headers: dict[str, str] = {}
# The application lies at the root of every address. By default a client on this machine and the environment could say
# otherwise, and the server would fail every request whose path disagrees.
forwarder_headers = ""
raw_env = ["SCRIPT_NAME="]
# A thousand requests may wait for one model, and as many connections be kept alive, while others are served.
worker_connections = 4000
http_worker.limit(_settings)
backlog = 4096
preload_app = False
# One path for every instance of a user, and a thread in the master.
control_socket_disable = True
# Clients keep connections for a minute; a server that closes earlier races with their next request.
keepalive = 75
timeout = 60
# Streams that are under way when the process is told to stop get this long.
graceful_timeout = 10
# One line for each request is written by `web.request_log`.
accesslog = None
errorlog = "-"
logger_class = Log
loglevel = _settings.log_level
proc_name = "localai-web"


# Left out of later collections: one in a worker would copy every page that it shares with the master.
gc.freeze()
gc.enable()


def ssl_context(config: Any, default: Any) -> Any:
    """The TLS of the port, made in each worker when it starts."""
    from web.tls_port import Context  # late: it is needed with TLS only

    return Context.of(Path(config.certfile), Path(config.keyfile))


def pre_fork(server: Any, worker: Any) -> None:
    """Give the worker a note that survives it."""
    worker.frontend_note = FrontendNote()
    hand_over(worker.frontend_note)


def post_request(worker: Any, request: Any, environ: Any, response: Any) -> None:
    """The answer has left. A refused body would be read without limit before the next request of its connection."""
    unread_body.finish(request)


def child_exit(server: Any, worker: Any) -> None:
    """End the row of a worker that is gone, so that nobody waits for it. Beside the master: it forks the next one."""
    gevent.spawn(_end_row, worker.frontend_note)


def worker_exit(server: Any, worker: Any) -> None:
    """In the worker itself: close what it holds."""
    extensions = getattr(getattr(worker, "wsgi", None), "extensions", {})
    built = extensions.get("localai")
    if built is not None:
        with gevent.Timeout(_END_ROW_LIMIT_S, False):  # type: ignore[arg-type]  # False: leave the block silently
            built.close()


def _end_row(note: FrontendNote) -> None:
    frontend_id = note.read()
    note.close()
    if frontend_id is None:
        return
    try:
        with gevent.Timeout(_END_ROW_LIMIT_S, False):  # type: ignore[arg-type]  # False: leave the block silently
            wiring.end_frontend(_settings, frontend_id)
    except StorageUnavailable as error:
        _log.warning("the row of a dead web process stays until its lease ends: %s", error.message)

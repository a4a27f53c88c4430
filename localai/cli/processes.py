"""Which processes of ours does a frontend or `up` consist of, and with which settings does each start?"""

from __future__ import annotations

import http.client
import importlib.metadata
import importlib.util
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import localai
from localai.embedded.children import Child
from localai.embedded.state_folder import StateFolder
from localai.errors import StartRefused
from localai.settings import Settings

#: A frontend that is not ready by then is not going to be without a person.
READY_LIMIT_S = 60.0
#: Longer than gunicorn gives to requests in flight.
_WEB_STOP_S = 40.0
_CONTROL_STOP_S = 20.0


def web(settings: Settings, folder: StateFolder, *, to_files: bool) -> Child:
    """gunicorn with the web application. Ready = `/readyz` answers 200."""
    config = _module_folder("web") / "gunicorn_conf.py"
    return Child(
        name="web",
        argv=(sys.executable, "-m", "gunicorn", "-c", str(config), "web.app:create_app()"),
        env=child_environment(settings),
        cwd=folder.path,
        log=folder.log("web") if to_files else None,
        ready=partial(answers_ready, local_url(settings)),
        ready_limit_s=READY_LIMIT_S,
        stop_timeout_s=_WEB_STOP_S,
        # SIGTERM lets streams end first; when the supervisor has died nobody waits for them.
        parent_death_signal=signal.SIGQUIT,
    )


def control(settings: Settings, folder: StateFolder, *, to_files: bool) -> Child:
    """The process that owns jobs. It serves nothing, so it counts as ready once it is started."""
    return Child(
        name="control",
        argv=(sys.executable, "-m", "tasks.control"),
        env=child_environment(settings),
        cwd=folder.path,
        log=folder.log("control") if to_files else None,
        stop_timeout_s=_CONTROL_STOP_S,
    )


def agent(settings: Settings, folder: StateFolder, worker_port: int) -> Child:
    """The agent of `localai up`: bound to loopback, its data in the state folder, no database credential."""
    return Child(
        name="agent",
        argv=(sys.executable, "-m", "worker_agent.main"),
        env=child_environment(agent_settings(settings, folder, worker_port)),
        cwd=folder.path,
        log=folder.log("agent"),
        # Every group gets TERM, then KILL after the grace.
        stop_timeout_s=settings.stop_grace_s + 15.0,
    )


def agent_settings(settings: Settings, folder: StateFolder, worker_port: int) -> Settings:
    """What the agent of `up` is told: nothing that only a frontend needs."""
    return replace(
        settings,
        database_url="",
        nats_url=settings.worker_nats_url,
        broker_url=settings.worker_broker_url,
        worker_nats_url="",
        worker_broker_url="",
        api_key=(),
        approve_node="",
        approve_node_hash="",
        instance_id="",
        tls_cert=None,
        tls_key=None,
        models_path=None,  # that name means the frontend's folder here
        data_path=folder.worker,
        register_to=(local_url(settings),),
        serve_addr=f"127.0.0.1:{worker_port}",
        addr="",
        advertise_addr="",
        http_addr="",
        advertise_http_addr="",
    )


def local_url(settings: Settings) -> str:
    """The frontend's URL for processes of this machine."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(settings.address, settings.address)
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"


def child_environment(settings: Settings, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, with exactly these settings: a variable that a flag overruled must not come back."""
    environ = os.environ if environ is None else environ
    kept = Settings.left_out(environ)
    return {**kept, **_import_path(kept), **settings.environ()}


def _import_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Children run in the state folder: a source tree that is not installed must be named to them."""
    try:
        importlib.metadata.distribution("localai-cluster")
        return {}
    except importlib.metadata.PackageNotFoundError:
        root = str(Path(localai.__file__).resolve().parents[1])
        return {"PYTHONPATH": os.pathsep.join(filter(None, (root, environ.get("PYTHONPATH", ""))))}


def _module_folder(name: str) -> Path:
    # Found, not imported: it pulls in the whole web stack, and this process has no use for it.
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise StartRefused(f"package {name} is missing from this installation")
    return Path(next(iter(spec.submodule_search_locations)))


def _any_certificate() -> ssl.SSLContext:
    """For the readiness of a child of ours, to which nothing is shown; clients judge its certificate themselves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def answers_ready(url: str) -> bool:
    """Whether `/readyz` answers 200."""
    scheme, _, place = url.partition("://")
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(place, timeout=1.0, context=_any_certificate())
    else:
        connection = http.client.HTTPConnection(place, timeout=1.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

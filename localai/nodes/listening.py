"""Where the settings of a worker have it listen."""

from __future__ import annotations

from localai.errors import BadSetting
from localai.settings import Settings

#: The base port where no setting names one.
BASE_PORT = 50051


def serve_place(settings: Settings) -> tuple[str, int]:
    """Listen host and base port of model processes; an empty host means every address. Raises BadSetting."""
    variable, text = "LOCALAI_SERVE_ADDR", settings.serve_addr
    if text:
        host, port = host_and_port(variable, text)
    elif settings.addr:
        variable, text = "LOCALAI_ADDR", settings.addr
        host, port = "0.0.0.0", host_and_port(variable, text)[1]
    else:
        host, port = "0.0.0.0", BASE_PORT
    if port < 2:
        raise BadSetting(variable, text, "host:port with a port from 2 to 65535")
    return host, port


def http_place(settings: Settings) -> tuple[str, int]:
    """Listen host and port of the worker's HTTP server. Raises BadSetting."""
    if settings.http_addr:
        return host_and_port("LOCALAI_HTTP_ADDR", settings.http_addr)
    host, base_port = serve_place(settings)
    return host, base_port - 1


def host_and_port(variable: str, text: str) -> tuple[str, int]:
    """The parts of ``host:port``. Raises BadSetting."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) <= 65535 or ":" in host:
        raise BadSetting(variable, text, "host:port, such as 0.0.0.0:50051")
    return host, int(port)

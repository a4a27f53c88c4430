"""Certificates with which a server does not start, and those by which processes of this machine trust it."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from localai import tls
from localai.cli import processes
from localai.errors import StartRefused
from localai.settings import Settings


def check(settings: Settings) -> None:
    """Refuse files that cannot be used before anything is started. Raises BadSetting."""
    if settings.ca_file is not None:
        tls.client_context(settings.ca_file)
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls.server_context(settings.tls_cert, settings.tls_key)


def for_this_machine(settings: Settings) -> Settings:
    """Settings of `up` whose worker trusts its frontend. Raises BadSetting, and StartRefused if it would not.

    Without LOCALAI_CA_FILE the worker trusts the certificate itself; the name in it must be the one that it dials.
    """
    check(settings)
    cert, key = settings.tls_cert, settings.tls_key
    if cert is None or key is None:
        return settings
    settings = replace(settings, ca_file=settings.ca_file or cert)
    host = urlsplit(processes.local_url(settings)).hostname or ""
    server = tls.server_context(cert, key)
    if reason := tls.why_distrusted(server, tls.client_context(settings.ca_file), host):
        raise StartRefused(
            f"LOCALAI_TLS_CERT: the worker of `up` connects to {host} and would not trust {cert} there "
            f"({reason}): use a certificate that also names {host}, or --address with a name or address in it"
        )
    return settings


def for_clients(settings: Settings) -> dict[str, str]:
    """What the `env` file of the state folder says about trust; a path that it cannot hold is left out."""
    path = str(settings.ca_file or "")
    usable = settings.tls_cert is not None and path and not any(sign in path for sign in " \t\n\r'\"$`\\")
    return {tls.CA_VARIABLE: path} if usable else {}

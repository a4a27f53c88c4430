"""Certificates: which a process of ours shows, and by which authorities it judges those of others."""

from __future__ import annotations

import ssl
from pathlib import Path

from localai.errors import BadSetting

CA_VARIABLE = "LOCALAI_CA_FILE"


def client_context(ca_file: Path | None) -> ssl.SSLContext:
    """How a frontend or NATS is judged: by the authorities of the file, else by those of the system.

    A certificate in the file is trusted also if it is no authority's: a server's own certificate may stand there.
    Raises BadSetting.
    """
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise BadSetting(CA_VARIABLE, str(ca_file), f"a readable PEM file with certificates ({_said(error)})") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def load_pair(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Have a server's context show the certificate. Raises BadSetting that names the file at fault."""
    for variable, path in (("LOCALAI_TLS_CERT", cert), ("LOCALAI_TLS_KEY", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise BadSetting(variable, str(path), f"a readable PEM file ({error.strerror})") from None
    try:
        # An encrypted key would ask for its password on the terminal.
        context.load_cert_chain(cert, key, password="")
    except (OSError, ValueError) as error:
        accepted = (
            f"a PEM file with the certificate chain, whose unencrypted key is in LOCALAI_TLS_KEY ({_said(error)})"
        )
        raise BadSetting("LOCALAI_TLS_CERT", str(cert), accepted) from None


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """How a frontend speaks TLS. Raises BadSetting."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, cert, key)
    return context


def why_distrusted(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Why a client would not trust a server of ours at this host; empty if it would. Nothing is sent."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    done = [False, False]
    for _ in range(10):
        for number, side in enumerate((asking, answering)):
            try:
                side.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return _said(error)
        if all(done):
            break
    return ""


def distrusted(error: BaseException) -> bool:
    """Whether a connection failed because of the server's certificate."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _said(error: Exception) -> str:
    verified = getattr(error, "verify_message", "")
    return str(verified or getattr(error, "strerror", "") or getattr(error, "reason", "") or error)

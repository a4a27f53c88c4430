"""How do client commands talk to a server, and what do they say when it does not answer?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from localai import tls
from localai.cli.exit_codes import ExitCode, of_status
from localai.embedded import env_file
from localai.embedded.state_folder import StateFolder
from localai.errors import LocalAIError
from localai.lines import lines_in
from localai.settings import Settings, default_state_dir

if TYPE_CHECKING:
    import httpx2

_TIMEOUT_S = 30.0
#: Where `localai run` listens when nothing else is said.
_DEFAULT_URL = "http://127.0.0.1:8080"


class ServerError(LocalAIError):
    """The server cannot be asked, or refused.

    ``passing``: the same question may be answered a moment later, because the server or what it needs is away.
    """

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, passing: bool = False) -> None:
        self.code, self.passing = code, passing
        super().__init__(message)


class Client:
    """One server, asked over HTTP with an admin key. Every method raises ServerError with a text for people."""

    def __init__(self, url: str, key: str, ca_file: Path | None = None) -> None:
        # Late, because it is the slowest import of a client command and `--help` does not need it.
        import httpx2

        if not (key.isascii() and key.isprintable()):
            raise ServerError("the key holds a line break or a letter that no key has", code=ExitCode.USAGE)
        self.url = url
        self._transport_error = httpx2.TransportError
        self._bad_url = (httpx2.InvalidURL, httpx2.UnsupportedProtocol)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            # A proxy of the environment stands on the way to other machines, not to this one.
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("one looks like http://host:8080")
            proxies = parts.hostname not in ("127.0.0.1", "localhost", "::1")
            # Plain HTTP has no certificate to verify, and reading the trusted ones takes 35 ms of CPU.
            trust = parts.scheme == "https" and (True if ca_file is None else tls.client_context(ca_file))
            self._http = httpx2.Client(
                base_url=url, timeout=_TIMEOUT_S, headers=headers, trust_env=proxies, verify=trust
            )
        except (ValueError, *self._bad_url) as error:
            raise self._unusable(error) from None

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of an answer."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return body_of(self.send("GET", path, params=given))

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON of an answer."""
        return body_of(self.send("POST", path, json=body))

    def delete(self, path: str, **parameters: Any) -> Any:
        """The JSON of an answer."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return body_of(self.send("DELETE", path, params=given))

    def send(self, method: str, path: str, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """The answer, whatever its status; with ``stream`` its body is still to be read, and it is to be closed."""
        timeout = options.pop("timeout", _TIMEOUT_S)
        try:
            request = self._http.build_request(method, path, timeout=timeout, **options)
            return self._http.send(request, stream=stream)
        except self._bad_url as error:
            raise self._unusable(error) from None
        except self._transport_error as error:
            raise self._unreachable(error) from None

    def lines_of(self, response: httpx2.Response) -> Iterator[str]:
        """The lines of a streamed answer, as they come; closes it."""
        try:
            yield from lines_in(response.iter_bytes())
        except self._transport_error as error:
            raise self._unreachable(error) from None
        finally:
            response.close()

    def text_of(self, response: httpx2.Response) -> str:
        """The whole body of a streamed answer; closes it."""
        try:
            response.read()
            return response.text
        except self._transport_error as error:
            raise self._unreachable(error) from None
        finally:
            response.close()

    def _unusable(self, error: Exception) -> ServerError:
        return ServerError(f"{self.url!r} is not a usable URL: {error}", code=ExitCode.USAGE)

    def _unreachable(self, error: Exception) -> ServerError:
        if tls.distrusted(error):
            trust = f"{tls.CA_VARIABLE} or --ca-file names the authorities to trust"
            text = f"the certificate of {self.url} is not trusted ({error}): {trust}"
            return ServerError(text, code=ExitCode.NOT_REACHABLE)
        hint = (
            "is it running? `localai up` starts one here, --url or LOCALAI_URL names another, "
            "--state-dir the folder of one that was started with it"
        )
        text = f"no answer from {self.url} ({str(error) or type(error).__name__}): {hint}"
        return ServerError(text, code=ExitCode.NOT_REACHABLE, passing=True)


def connect(settings: Settings) -> Client:
    """The server that the settings name, else the one of the local state folder. Raises ServerError."""
    folder = StateFolder(settings.state_dir or default_state_dir())
    try:
        known = {} if settings.url else env_file.read(folder.env)
        url = settings.url or known.get("LOCALAI_URL", "") or _DEFAULT_URL
        key = settings.api_key[0] if settings.api_key else _kept_key(folder)
    except OSError as error:
        raise ServerError(
            f"{error.filename} cannot be read ({error.strerror}): set LOCALAI_URL and LOCALAI_API_KEY, "
            "or use the account that started the server"
        ) from None
    kept_ca = known.get(tls.CA_VARIABLE)
    return Client(url.rstrip("/"), key, settings.ca_file or (Path(kept_ca) if kept_ca else None))


def _kept_key(folder: StateFolder) -> str:
    try:
        return folder.api_key.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def body_of(response: httpx2.Response) -> Any:
    """The JSON of a good answer. Raises ServerError for any other."""
    if response.is_success:
        try:
            return response.json()
        except ValueError:
            raise ServerError(f"{response.url} did not answer with JSON: is this a localai server?") from None
    raise refused(response.status_code, response.text)


def refused(status: int, body: str) -> ServerError:
    """What a refused request means for the command."""
    return ServerError(error_text(status, body), code=of_status(status), passing=status >= 500)


def error_text(status: int, body: str) -> str:
    """What a refused request says to a person: the server's own message where there is one."""
    message = _message(body) or f"the server answered with status {status}"
    if status == 401:
        ignored = "".join(f"; {name} is not used" for name in Settings.unused())
        return f"{message} (the key is read from --api-key, LOCALAI_API_KEY or <state-dir>/api-key{ignored})"
    return message


def _message(body: str) -> str:
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    error = found.get("error") if isinstance(found, Mapping) else None
    if isinstance(error, Mapping):
        error = error.get("message")
    return error if isinstance(error, str) else ""

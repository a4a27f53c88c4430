"""How this agent talks to frontends: the only module of it that speaks HTTP to them.

Any frontend will do. The URLs are tried in turn, beginning with the one that answered last; each try has its own limit
and knows the moment at which it was sent, because that is what a grant or a renewal counts from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from localai import logs, tls
from localai.errors import (
    LocalAIError,
    NodeNameTaken,
    NodeRemoved,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    NotTheNextLife,
    Replaced,
    StartRefused,
)
from localai.jobs.operation_rules import Report, ReportAnswer
from worker_agent.files.receiving import FileTransport

log = logs.get(__name__)

#: Longest a frontend may take to accept a connection.
CONNECT_TIMEOUT_S = 2.0
#: Idle connections are given up before a frontend does it: a question on a closing one would count as unanswered.
KEEPALIVE_S = 1.5


class NoFrontend(LocalAIError):
    """No frontend answered. Nothing is known: absence is not proof."""


class RegistrationsFull(LocalAIError):
    """The frontend takes no registration of a new node now."""


class ClaimRefused(LocalAIError):
    """The row refuses the claim: the operation is over or another incarnation has it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What registration gave."""

    node_id: str
    name: str
    status: str
    incarnation: int
    node_token: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``sent_at`` is the moment before its question left."""

    status: int
    body: dict[str, Any]
    sent_at: float

    @property
    def error(self) -> str:
        return str(self.body.get("error") or f"status {self.status}")


@dataclass(frozen=True, slots=True)
class FileStream:
    """A file's bytes from ``start`` on. ``missing``: this frontend has no such file, or not these bytes of it."""

    start: int
    missing: bool
    chunks: Iterator[bytes]


Body = Callable[[], Mapping[str, Any]]


class Frontends:
    """Calls to whichever frontend answers. Safe to use from any thread."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        registration_token: str,
        timeout_s: float,
        clock: Callable[[], float],
        transport: httpx2.BaseTransport | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """``ca_file`` has the authorities by which frontends are judged. Raises BadSetting."""
        self._urls = [url.rstrip("/") for url in urls]
        self._registration_token = registration_token
        self._node_token = ""
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        # Plain HTTP has no certificate to judge, and reading the trusted ones takes 35 ms of CPU.
        secure = ca_file is not None or not all(url.lower().startswith("http:") for url in self._urls)
        trust = tls.client_context(ca_file) if secure else None
        self._client = httpx2.Client(
            transport=transport,
            verify=trust or False,
            trust_env=False,
            limits=httpx2.Limits(max_connections=100, keepalive_expiry=KEEPALIVE_S),
            timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        )
        self._files = httpx2.Client(transport=transport or FileTransport(trust), trust_env=False)
        #: Other servers that hold files are judged by the system's authorities.
        self._others = httpx2.Client(transport=transport or FileTransport(), trust_env=False)

    def use_credential(self, node_token: str) -> None:
        """Show the node's own credential from now on."""
        self._node_token = node_token

    def close(self) -> None:
        self._client.close()
        self._files.close()
        self._others.close()

    def register(self, body: Mapping[str, Any]) -> Registered:
        """Begin an incarnation.

        Raises NotTheNextLife, NodeNameTaken, RegistrationsFull, NotAuthenticated, StartRefused (the frontend's word),
        NoFrontend.
        """
        token = self._registration_token
        reply = self._ask("POST", "/api/node/register", lambda: {**body, "token": token}, token=token)
        if reply.status == 401:
            raise NotAuthenticated(reply.error)
        if reply.status == 409 and isinstance(reply.body.get("incarnation"), int):
            raise NotTheNextLife(reply.body["incarnation"])
        if reply.status == 409 and reply.body.get("code") == "node_name_taken":
            raise NodeNameTaken(reply.error)
        if reply.status == 429:
            raise RegistrationsFull(reply.error)
        if reply.status not in (200, 201):
            raise StartRefused(f"registration was refused: {reply.error}")
        return Registered(
            node_id=reply.body["id"],
            name=reply.body["name"],
            status=reply.body["status"],
            incarnation=int(reply.body["incarnation"]),
            node_token=reply.body.get("node_token") or token,
        )

    def heartbeat(self, node_id: str, body: Mapping[str, Any]) -> str:
        """The node's status.

        Raises NotFound, NodeRemoved, Replaced (a newer incarnation), NotAuthenticated, NoFrontend.
        """
        reply = self._ask("POST", f"/api/node/{node_id}/heartbeat", lambda: body)
        _raise_for(reply)
        return str(reply.body.get("status", ""))

    def claim(self, registered: Registered, job_id: str, op_generation: int, *, seq: int) -> Reply:
        """The grant, whose body is an Order.

        Raises ClaimRefused, NotFound, NotAuthenticated, NotAuthorized (the node waits for approval), NoFrontend.

        ``seq`` is the number of a report after which every report lists the operation.
        """
        body = {"op_generation": op_generation, "incarnation": registered.incarnation, "seq": seq}
        reply = self._ask("POST", f"/api/node/{registered.node_id}/jobs/{job_id}/claim", lambda: body)
        if reply.status == 409:
            raise ClaimRefused(reply.error)
        _raise_for(reply)
        return reply

    def report(self, node_id: str, build: Callable[[], Report]) -> tuple[ReportAnswer, float]:
        """The rows' answers, and when the question was sent.

        Raises Replaced, NotFound, NotAuthenticated, NotAuthorized (the node waits for approval), NoFrontend.

        ``build`` is called for each try, so that no two of them carry one ``seq``.
        """
        reply = self._ask("POST", f"/api/node/{node_id}/report", lambda: build().to_json())
        _raise_for(reply)
        try:
            return ReportAnswer.from_json(reply.body), reply.sent_at
        except (KeyError, TypeError, ValueError) as error:
            raise NoFrontend(f"the answer to a report cannot be read: {error}") from None

    def deregister(self, registered: Registered) -> None:
        """Say that this agent ends in good order. Raises NotFound, Replaced, NotAuthenticated, NoFrontend."""
        body = {"incarnation": registered.incarnation}
        _raise_for(self._ask("POST", f"/api/node/{registered.node_id}/deregister", lambda: body))

    @contextmanager
    def file(self, source: str, *, start: int, silence_s: float) -> Iterator[FileStream]:
        """Receive a file. A source that begins with ``/`` is asked of each frontend in turn.

        Raises NoFrontend when none sends it, and when one falls silent for ``silence_s`` or breaks off on the way.
        """
        problems: list[str] = []
        missing = handed_over = False
        timeout = httpx2.Timeout(silence_s, connect=min(CONNECT_TIMEOUT_S, silence_s))
        for url in self._in_turn() if source.startswith("/") else [""]:
            try:
                client = self._files if url else self._others
                with client.stream("GET", url + source, headers=self._range(url, start), timeout=timeout) as got:
                    if got.is_success:
                        handed_over = True
                        yield FileStream(start if got.status_code == 206 else 0, False, got.iter_raw())
                        return
                    missing = missing or got.status_code in (404, 416)
                    if got.status_code not in (404, 416):
                        problems.append(f"{url or source}: status {got.status_code}")
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                self._distrust(url)
                if handed_over:
                    raise NoFrontend(f"{url or source}: {_said(error)}") from None
                problems.append(f"{url or source}: {_said(error)}")
        if problems or not missing:
            raise NoFrontend("; ".join(problems))
        yield FileStream(0, True, iter(()))

    def _range(self, url: str, start: int) -> dict[str, str]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        if url:  # the credential is for frontends, not for whoever else holds a file
            headers |= _bearer(self._node_token)
        return headers

    def _ask(self, method: str, path: str, body: Body, *, token: str | None = None) -> Reply:
        problems = []
        credential = self._node_token if token is None else token
        for url in self._in_turn():
            sent_at = self._clock()
            try:
                response = self._client.request(method, url + path, json=body(), headers=_bearer(credential))
                answer = response.json() if response.status_code < 500 else None
            except (httpx2.TransportError, httpx2.InvalidURL, ValueError) as error:
                problems.append(f"{url}: {_said(error)}")
                continue
            if isinstance(answer, dict):
                self._trust(url)
                return Reply(response.status_code, answer, sent_at)
            problems.append(f"{url}: status {response.status_code}")
        raise NoFrontend("; ".join(problems))

    def _in_turn(self) -> list[str]:
        with self._lock:
            return list(self._urls)

    def _trust(self, url: str) -> None:
        """Ask this one first from now on."""
        with self._lock:
            if self._urls[0] != url:
                self._urls.remove(url)
                self._urls.insert(0, url)

    def _distrust(self, url: str) -> None:
        """Ask this one last from now on."""
        with self._lock:
            if url in self._urls:
                self._urls.remove(url)
                self._urls.append(url)


def _bearer(credential: str) -> dict[str, str]:
    """The header of a credential; none for an empty one, which open frontends accept and HTTP does not."""
    return {"Authorization": f"Bearer {credential}"} if credential else {}


def _raise_for(reply: Reply) -> None:
    match reply.status:
        case 200:
            return
        case 401:
            raise NotAuthenticated(reply.error)
        case 403:
            raise NotAuthorized(reply.error)
        case 404 if reply.body.get("removed") is True:
            raise NodeRemoved(reply.error)
        case 404:
            raise NotFound(reply.error)
        case 409:
            raise Replaced(reply.error)
        case _:
            raise NoFrontend(f"unexpected answer: {reply.error}")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__

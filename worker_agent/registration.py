"""How an incarnation begins: this agent names itself to a frontend, and gets its number and its credential."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import localai
from localai import logs
from localai.errors import NodeNameTaken, NotAuthenticated, NotTheNextLife, StartRefused
from localai.settings import Settings
from worker_agent.addresses import Addresses
from worker_agent.frontends import Frontends, NoFrontend, Registered, RegistrationsFull

log = logs.get(__name__)

#: Between two tries: soon at first, because frontend and agent often start together.
RETRY_S = (0.2, 10.0)
#: Longest pause of a worker that is refused for a while: a person has to act first.
TAKEN_RETRY_S = 30.0


def description(
    settings: Settings, addresses: Addresses, default_name: str, figures: Mapping[str, Any], secret: str
) -> dict[str, Any]:
    """What the node says of itself when it registers. ``secret`` proves that the name is its own."""
    return {
        "name": settings.node_name or default_name,
        "node_type": "backend",
        "address": addresses.base,
        "http_address": addresses.advertised_http,
        "version": localai.__version__,
        "labels": {},
        "max_replicas_per_model": 1,
        "reports_operations": True,
        "secret": secret,
        **figures,
    }


NOT_REGISTERED = "not registered with a frontend"


class Progress:
    """Why the registration has not succeeded yet, for the readiness probe."""

    def __init__(self) -> None:
        self.reason = NOT_REGISTERED


def register(
    frontends: Frontends, body: Mapping[str, Any], stop: threading.Event, progress: Progress | None = None
) -> Registered | None:
    """Register, asking again while no frontend answers; None when ``stop`` is set first. Raises StartRefused.

    A worker whose name is taken, or that finds too many nodes waiting for approval, asks again, too, with longer
    pauses: it neither flaps nor ends, its log and its readiness probe say why, and it joins once that has changed.

    Call it only after everything that earlier incarnations started is dead: registering declares exactly that. Each
    registration names the newest life, which the first answer says: one that a frontend carries out late, after this
    agent has begun its work, names an older one and is refused.
    """
    retry_s, after, progress = RETRY_S[0], 0, progress or Progress()
    while not stop.is_set():
        longest_s = RETRY_S[1]
        try:
            return frontends.register({**body, "after": after})
        except NotTheNextLife as error:
            if error.incarnation != after:
                after = error.incarnation
                continue
        except NotAuthenticated as error:
            raise StartRefused(
                f"the frontend does not accept this worker's registration token: {error.message}; "
                "LOCALAI_REGISTRATION_TOKEN must be the same on both, or a join token for this worker"
            ) from None
        except (NodeNameTaken, RegistrationsFull) as error:
            longest_s = TAKEN_RETRY_S
            progress.reason = f"registration refused: {error.message}"
            log.error("registration refused", extra=logs.fields(reason=error.message, retry_s=retry_s))
        except NoFrontend as error:
            progress.reason = NOT_REGISTERED
            log.warning("not registered yet", extra=logs.fields(reason=error.message, retry_s=retry_s))
        except (KeyError, TypeError, ValueError) as error:
            raise StartRefused(f"the answer to the registration cannot be read: {error!r}") from None
        stop.wait(retry_s)
        retry_s = min(retry_s * 2, longest_s)
    return None


def write_incarnation(path: Path, registered: Registered) -> None:
    """Leave a note of who this agent is, for people and scripts on this machine. It holds no credential.

    The agent needs it for nothing, so it starts without one on a full disk.
    """
    temporary = path.with_name(path.name + ".tmp")
    note = {"node_id": registered.node_id, "name": registered.name, "incarnation": registered.incarnation}
    try:
        temporary.write_text(json.dumps(note) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        log.warning("the note of this incarnation cannot be written", extra=logs.fields(path=path, error=error))

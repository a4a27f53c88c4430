"""Ports and secrets of a state folder."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from localai.embedded import credentials, tcp_ports
from localai.embedded.credentials import Credentials
from localai.errors import StartRefused

pytestmark = pytest.mark.unit


def every_port(_: int) -> bool:
    return True


def all_but(*taken: int) -> Callable[[int], bool]:
    return lambda port: port not in taken


@pytest.fixture
def drawn() -> Credentials:
    return credentials.draw(every_port)


def test_drawn_ports_differ_and_lie_below_those_of_outgoing_connections(drawn: Credentials) -> None:
    found = [drawn.postgres_port, drawn.nats_port, drawn.valkey_port, drawn.worker_port, drawn.worker_port - 1]
    assert len(set(found)) == len(found)
    assert max(found) < 32_768


def test_secrets_are_long_different_and_need_no_quoting(drawn: Credentials) -> None:
    secrets = [value for value in _values(drawn).values() if isinstance(value, str)]
    assert len(set(secrets)) == 8
    for secret in secrets:
        assert len(secret) >= 32 and secret.replace("-", "").replace("_", "").isalnum()


def test_urls_name_loopback_and_carry_the_secret(drawn: Credentials) -> None:
    database, nats, broker = (urlsplit(url) for url in (drawn.database_url, drawn.nats_url, drawn.broker_url))
    assert {url.hostname for url in (database, nats, broker)} == {"127.0.0.1"}
    assert (database.scheme, database.password, database.path) == ("postgresql", drawn.postgres_password, "/localai")
    assert (nats.scheme, nats.username, nats.port) == ("nats", "frontend", drawn.nats_port)
    assert (broker.scheme, broker.username, broker.path) == ("redis", "frontend", "/0")
    assert (nats.password, broker.password) == (drawn.nats_frontend_password, drawn.valkey_frontend_password)


def test_a_worker_has_secrets_of_its_own(drawn: Credentials) -> None:
    nats, broker = urlsplit(drawn.worker_nats_url), urlsplit(drawn.worker_broker_url)
    assert (nats.username, nats.password) == ("worker", drawn.nats_token)
    assert (broker.username, broker.password) == ("worker", drawn.valkey_password)


def test_a_file_of_an_earlier_version_keeps_its_secrets_and_gets_what_it_lacks_once(
    tmp_path: Path, drawn: Credentials
) -> None:
    path = tmp_path / "secrets.json"
    names = [
        "postgres_port",
        "postgres_password",
        "nats_port",
        "nats_token",
        "valkey_port",
        "valkey_password",
        "worker_port",
    ]
    earlier = {name: _values(drawn)[name] for name in (*names, "registration_token")}
    path.write_text(json.dumps(earlier))
    found = credentials.load_or_draw(path, every_port)
    assert {name: _values(found)[name] for name in earlier} == earlier
    assert found.valkey_default_user, "a worker that runs on goes on with the password it has"
    assert credentials.load_or_draw(path, every_port) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_they_are_drawn_once_into_a_file_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    first = credentials.load_or_draw(path, every_port)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert credentials.load_or_draw(path, every_port) == first
    assert [file.name for file in tmp_path.iterdir()] == ["secrets.json"], "no temporary file stays"


@pytest.mark.parametrize("name", credentials.SERVER_PORTS)
def test_only_a_port_that_was_taken_is_drawn_again(drawn: Credentials, name: str) -> None:
    taken = getattr(drawn, name)
    again = credentials.with_free_ports(drawn, all_but(taken))
    assert getattr(again, name) not in (taken, drawn.worker_port, drawn.worker_port - 1)
    assert {**_values(again), name: 0} == {**_values(drawn), name: 0}


def test_the_agents_base_port_follows_its_http_port_only(drawn: Credentials) -> None:
    """The base may still be held by a model process that the next agent ends."""
    assert credentials.with_free_ports(drawn, all_but(drawn.worker_port)) == drawn
    again = credentials.with_free_ports(drawn, all_but(drawn.worker_port - 1))
    assert again.worker_port - 1 != drawn.worker_port - 1
    assert {**_values(again), "worker_port": 0} == {**_values(drawn), "worker_port": 0}


def test_free_ports_stay(drawn: Credentials) -> None:
    assert credentials.with_free_ports(drawn, every_port) == drawn


def test_no_free_port_is_said_and_not_searched_for_ever() -> None:
    with pytest.raises(StartRefused, match="no free port"):
        tcp_ports.draw((), lambda _: False)


@pytest.mark.parametrize(
    "change",
    [lambda _: "", lambda _: "[]", lambda _: "{", lambda text: text.replace("nats_token", "other")],
)
def test_a_damaged_file_is_named_and_left_alone(
    tmp_path: Path, drawn: Credentials, change: Callable[[str], str]
) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(change(credentials.to_text(drawn)))
    before = path.read_text()
    with pytest.raises(StartRefused, match=r"secrets\.json cannot be used"):
        credentials.load_or_draw(path, every_port)
    assert path.read_text() == before


@pytest.mark.parametrize(("name", "value"), [("nats_port", "4222"), ("nats_port", 0), ("nats_token", 5)])
def test_a_value_of_another_type_is_named(tmp_path: Path, drawn: Credentials, name: str, value: object) -> None:
    text = json.dumps({**_values(drawn), name: value})
    with pytest.raises(StartRefused, match=name):
        credentials.parse(text, tmp_path / "secrets.json")


def _values(found: Credentials) -> dict[str, object]:
    values: dict[str, object] = json.loads(credentials.to_text(found))
    return values

"""Where an agent listens and is reached, for each way of saying so."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from localai.errors import BadSetting
from localai.settings import Settings
from worker_agent.addresses import Addresses, own_address

pytestmark = pytest.mark.unit


#: The names and addresses that stand for exactly one address of this machine.
OWN = {"gpu-1": "10.0.0.7", "10.0.0.8": "10.0.0.8"}


def of(**changes: Any) -> Addresses:
    return Addresses.of(Settings(**changes), "box", OWN.get)


@pytest.mark.parametrize(
    ("settings", "base", "http", "listens", "dials"),
    [
        ({}, "box:50051", "box:50050", ("0.0.0.0", 50050), "127.0.0.1"),
        ({"serve_addr": "127.0.0.1:6000"}, "127.0.0.1:6000", "127.0.0.1:5999", ("127.0.0.1", 5999), "127.0.0.1"),
        ({"serve_addr": "10.0.0.5:6000"}, "10.0.0.5:6000", "10.0.0.5:5999", ("10.0.0.5", 5999), "10.0.0.5"),
        ({"addr": "gpu-1:50051"}, "gpu-1:50051", "gpu-1:50050", ("0.0.0.0", 50050), "10.0.0.7"),
        ({"advertise_addr": "x:1"}, "x:1", "box:50050", ("0.0.0.0", 50050), "127.0.0.1"),
        ({"http_addr": "127.0.0.1:80"}, "box:50051", "127.0.0.1:80", ("127.0.0.1", 80), "127.0.0.1"),
        ({"addr": "y:5", "advertise_http_addr": "z:9"}, "y:5", "z:9", ("0.0.0.0", 4), "127.0.0.1"),
        ({"addr": "y:6000"}, "y:6000", "y:5999", ("0.0.0.0", 5999), "127.0.0.1"),
        ({"addr": "y:6000", "serve_addr": "0.0.0.0:7000"}, "y:6000", "y:6999", ("0.0.0.0", 6999), "127.0.0.1"),
    ],
)
def test_where_it_listens_and_what_it_tells(
    settings: dict[str, Any], base: str, http: str, listens: tuple[str, int], dials: str
) -> None:
    found = of(**settings)
    assert (found.base, found.advertised_http) == (base, http)
    assert (found.http_host, found.http_port) == listens
    assert found.dial_host == dials
    assert found.advertised(50077) == f"{found.advertise_host}:50077"


@pytest.mark.parametrize(
    ("settings", "listens"),
    [
        ({"addr": "gpu-1:50051"}, "10.0.0.7"),
        ({"advertise_addr": "10.0.0.8:50051"}, "10.0.0.8"),
        ({"addr": "router:50051", "advertise_addr": "gpu-1:50051"}, "10.0.0.7"),
        ({"addr": "router:50051"}, "0.0.0.0"),
        ({}, "0.0.0.0"),
        ({"addr": "gpu-1:50051", "serve_addr": "0.0.0.0:50051"}, "0.0.0.0"),
        ({"addr": "gpu-1:50051", "serve_addr": "10.0.0.9:50051"}, "10.0.0.9"),
    ],
)
def test_model_processes_listen_on_the_advertised_address_unless_a_setting_or_the_machine_says_otherwise(
    settings: dict[str, Any], listens: str
) -> None:
    found = of(**settings)
    assert found.bind_host == listens
    assert found.on_every_address is (listens == "0.0.0.0")


@pytest.mark.parametrize(
    ("host", "resolved", "own"),
    [
        ("127.0.0.1", ["127.0.0.1"], "127.0.0.1"),
        ("localhost", ["127.0.0.1"], "127.0.0.1"),
        ("box", ["127.0.1.1"], None),  # as Debian names the machine itself: others resolve it to another address
        ("box", ["127.0.0.1", "127.0.0.2"], None),
        ("router", ["203.0.113.1"], None),
        ("nowhere", [], None),
    ],
)
def test_a_name_stands_for_an_address_of_this_machine_only_if_others_read_it_alike(
    monkeypatch: pytest.MonkeyPatch, host: str, resolved: list[str], own: str | None
) -> None:
    def lookup(name: str, *_: Any) -> list[Any]:
        assert name == host
        if not resolved:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in resolved]

    monkeypatch.setattr("worker_agent.addresses.socket.getaddrinfo", lookup)
    monkeypatch.setattr("worker_agent.addresses.is_local", lambda address: address.startswith("127."))
    assert own_address(host) == own


@pytest.mark.parametrize(("name", "variable"), [("serve_addr", "LOCALAI_SERVE_ADDR"), ("addr", "LOCALAI_ADDR")])
def test_a_base_port_without_a_port_below_it_is_refused(name: str, variable: str) -> None:
    with pytest.raises(BadSetting) as caught:
        of(**{name: "host:1"})
    assert caught.value.variable == variable


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("serve_addr", "LOCALAI_SERVE_ADDR"),
        ("http_addr", "LOCALAI_HTTP_ADDR"),
        ("addr", "LOCALAI_ADDR"),
        ("advertise_addr", "LOCALAI_ADVERTISE_ADDR"),
        ("advertise_http_addr", "LOCALAI_ADVERTISE_HTTP_ADDR"),
    ],
)
@pytest.mark.parametrize("text", ["nonsense", "host:", "host:0x1", "host:70000", "a:b:5"])
def test_cf_04_a_text_that_is_no_address_names_its_variable(name: str, variable: str, text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        of(**{name: text})
    assert caught.value.variable == variable

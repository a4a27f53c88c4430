"""The host of an address."""

from __future__ import annotations

import pytest

from localai.nodes.host_rules import host_of, is_loopback

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("gpu-1:50051", "gpu-1"),
        ("GPU-1.Example.:1", "gpu-1.example"),
        ("[::1]:50051", "::1"),
        ("10.0.0.1:5", "10.0.0.1"),
        ("gpu-1", "gpu-1"),
        ("gpu-1:x", "gpu-1:x"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_host_is_what_stands_before_the_port(address: str | None, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_other_machines_reach_every_address_but_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here

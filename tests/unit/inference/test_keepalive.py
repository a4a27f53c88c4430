"""Pings that no server takes amiss."""

from __future__ import annotations

import pytest

from localai.inference.channels import LEAST_PING_INTERVAL_S, Keepalive
from localai.settings import Settings

pytestmark = pytest.mark.unit


def test_the_default_pings_more_rarely_than_servers_with_default_settings_allow() -> None:
    default, settings = Keepalive(), Settings()
    assert default.after_s >= LEAST_PING_INTERVAL_S * 1.05
    assert default == Keepalive(settings.grpc_keepalive_time_s, settings.grpc_keepalive_timeout_s)


def test_a_ping_has_the_time_that_a_paused_process_needs() -> None:
    """The timeout of a ping is an option of its own, and is a minute if only that of the keepalive is set."""
    options = dict(Keepalive(after_s=330.0, timeout_s=120.0).options())
    assert options == {
        "grpc.keepalive_time_ms": 330_000,
        "grpc.keepalive_timeout_ms": 120_000,
        "grpc.http2.ping_timeout_ms": 120_000,
    }


def test_pings_can_be_switched_off() -> None:
    assert Keepalive(after_s=0).options() == ()

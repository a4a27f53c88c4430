"""The command that joins a machine: complete, and without a secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localai.settings import Settings
from web.pages.join import join, without_secret

pytestmark = pytest.mark.unit

SERVERS = Settings(
    broker_url="redis://:hush@queue.internal:6379/0",
    nats_url="nats://hush@bus.internal:4222",
    registration_token="hush",
)


def test_another_machine_gets_every_option_and_fills_in_the_secrets_itself() -> None:
    found = join(SERVERS, "https://models.example")
    assert not found.only_here
    assert found.command.split(" \\\n  ") == [
        "localai worker",
        "--register-to https://models.example",
        "--broker-url redis://:<password>@queue.internal:6379/0",
        "--nats-url nats://<token>@bus.internal:4222",
        "--registration-token <token>",
    ]
    assert "hush" not in found.command


@pytest.mark.parametrize(
    ("settings", "server"),
    [
        (Settings(broker_url="redis://127.0.0.1:6379/0", nats_url="nats://bus:4222"), "http://frontend:8080"),
        (Settings(broker_url="redis://queue:6379/0", nats_url="nats://[::1]:4222"), "http://frontend:8080"),
        (SERVERS, "http://localhost:8080"),
    ],
)
def test_servers_of_this_machine_are_joined_by_their_folder(settings: Settings, server: str, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    found = join(replace(settings, state_dir=folder), server)
    assert found.only_here
    assert f"--state-dir '{folder}'" in found.command and "--node-name second" in found.command
    assert "hush" not in found.command


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://queue:6379/0", "redis://queue:6379/0"),
        ("redis://user:p@ss@queue/1", "redis://<user>:<password>@queue/1"),
        ("nats://a:b@[::1]:4222", "nats://<user>:<password>@[::1]:4222"),
    ],
)
def test_no_part_of_a_password_is_shown(url: str, shown: str) -> None:
    assert without_secret(url) == shown

"""Which names a node may have, and which one a worker gets whose settings give none."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.errors import BadInput
from localai.nodes.name_rules import check_new, fitted
from localai.nodes.names import default_name
from worker_agent.frontends import Registered
from worker_agent.registration import write_incarnation

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", ["a", "gpu-1", "GPU_1.rack-2", "0", "x" * 63, "...", "-"])
def test_ascii_letters_digits_and_three_signs_make_a_name(name: str) -> None:
    check_new(name)
    assert name in ("...", "-") or fitted(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "x" * 64, "a b", "größe", "a/b", "a\n", "\x1b[2J", "a\u202eb", "a,b", "a:1", "٣", "a\0", "\uff47\uff50\uff55"],
)
def test_any_other_text_is_refused_with_what_is_accepted(name: str) -> None:
    with pytest.raises(BadInput, match=r"^name: .* cannot be used; accepted: 1 to 63 letters, digits") as refused:
        check_new(name)
    assert refused.value.field == "name" and refused.value.message.isprintable()


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("gpu-1.example.org", "gpu-1.example.org"),
        ("my host", "my-host"),
        ("größe", "gr-e"),
        ("ノード", "node"),
        ("", "node"),
        ("h" * 64, "h" * 63),
        ("\x1b[2Jhost", "2Jhost"),
    ],
)
def test_a_host_name_is_made_to_fit(tmp_path: Path, hostname: str, name: str) -> None:
    assert default_name(hostname, tmp_path / "incarnation") == name
    check_new(name)


def test_a_worker_that_registered_under_its_host_name_keeps_it(tmp_path: Path) -> None:
    note = tmp_path / "incarnation"
    write_incarnation(note, Registered("id", "my host", "healthy", 3, "token"))
    assert default_name("my host", note) == "my host"
    assert default_name("other host", note) == "other-host"
    note.write_text("[]")
    assert default_name("my host", note) == "my-host"

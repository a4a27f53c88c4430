"""What an unload says it waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from localai.nodes.rules import Status
from localai.unloads.drain_rules import Wish, goes_anyway
from localai.unloads.rules import Left, drain_text, progress_text, refusal

pytestmark = pytest.mark.unit

CUT_AT = datetime(2026, 1, 1, 12, 41, 20, tzinfo=timezone(timedelta(hours=2)))
LEFT = Left(model="m", node="gpu-1", node_id="n1", node_status="healthy", served=True, in_flight=0, silent=0)


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (replace(LEFT, in_flight=2, silent=1), "2 requests in flight on gpu-1"),
        (replace(LEFT, in_flight=1), "1 request in flight on gpu-1"),
        (replace(LEFT, in_flight=1, cut_at=CUT_AT), "1 request in flight on gpu-1, cut at 10:41:20 UTC"),
        (replace(LEFT, cut_at=CUT_AT), "being stopped on gpu-1"),
        (replace(LEFT, silent=1), "1 frontend still to confirm for gpu-1"),
        (replace(LEFT, silent=3), "3 frontends still to confirm for gpu-1"),
        (LEFT, "being stopped on gpu-1"),
        (replace(LEFT, node_status="offline"), "being stopped on gpu-1, which is offline"),
        (replace(LEFT, node_status="draining"), "being stopped on gpu-1"),
        (replace(LEFT, refused="it has not ended"), "being stopped on gpu-1 (it has not ended)"),
        (replace(LEFT, served=False, silent=2), "being stopped on gpu-1"),
    ],
)
def test_the_reason_is_the_first_thing_that_must_end(left: Left, text: str) -> None:
    assert progress_text([left]) == text


def test_many_replicas_are_named_in_part() -> None:
    left = [replace(LEFT, node=f"n{number}") for number in range(5)]
    assert progress_text(left) == "being stopped on n0; being stopped on n1; being stopped on n2; 2 more"


def test_what_keeps_several_replicas_is_said_once() -> None:
    assert progress_text([LEFT, LEFT]) == "being stopped on gpu-1"


def test_a_drain_names_its_models() -> None:
    left = [replace(LEFT, model="a"), replace(LEFT, model="b", in_flight=1), replace(LEFT, model="c"), LEFT, LEFT]
    assert drain_text(left) == "a, c, m: being stopped on gpu-1; b: 1 request in flight on gpu-1"
    many = [replace(LEFT, model=f"m{number}", in_flight=number) for number in range(1, 7)]
    assert drain_text(many).endswith("m3: 3 requests in flight on gpu-1; 3 more")
    assert drain_text([]) == ""


def test_the_first_word_of_a_worker_that_could_not_stop_counts() -> None:
    assert refusal([LEFT, replace(LEFT, refused="stuck")]) == "stuck"
    assert refusal([LEFT]) is None


@pytest.mark.parametrize(
    ("wish", "status", "anyway"),
    [
        (Wish(), Status.OFFLINE, False),
        (Wish(force=True), Status.DRAINING, False),
        (Wish(remove=True), Status.DRAINING, False),
        (Wish(remove=True), Status.PENDING, False),
        (Wish(remove=True), Status.OFFLINE, True),
        (Wish(remove=True, force=True), Status.DRAINING, True),
        (Wish(remove=True), None, False),
    ],
)
def test_only_a_removal_ends_with_something_left(wish: Wish, status: Status | None, anyway: bool) -> None:
    assert goes_anyway(wish, status) is anyway
    assert Wish.of(wish.to_args()) == wish

"""A body arrives within a time, or at a least speed."""

from __future__ import annotations

import pytest
from gevent.event import Event

from web import body_clock
from web.body_clock import left_s, timed
from web.limits import BODY_BYTES_PER_S, BODY_S

pytestmark = pytest.mark.unit


class Unreader:
    """Sends bytes one at a time and then none, as a client that holds its connection."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces

    def chunk(self, size_hint: int | None = None) -> bytes:
        self._pieces -= 1
        if self._pieces < 0:
            Event().wait(60)
        return b"x"


def test_a_small_body_has_the_limit_whole() -> None:
    assert left_s(0.0, 0) == BODY_S
    assert left_s(BODY_S - 1.0, 1) == 1.0
    assert left_s(BODY_S, 1000) <= 0.0


def test_a_large_body_has_the_time_of_the_least_speed() -> None:
    assert left_s(BODY_S, 100 * BODY_BYTES_PER_S) == 100.0 - BODY_S


def test_a_read_that_waits_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_clock, "BODY_S", 0.05)
    unreader = Unreader(pieces=3)
    with timed(unreader):
        assert [unreader.chunk(None) for _ in range(3)] == [b"x"] * 3
        with pytest.raises(TimeoutError, match="in time"):
            unreader.chunk(None)
        with pytest.raises(TimeoutError):
            unreader.chunk(None)
    assert "chunk" not in vars(unreader), "the next head has a limit of its own"

"""A stream whose client closed the connection is cut, and never ended as if it were complete."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from localai.errors import CallCancelled
from web.client_watch import ClientWatch

pytestmark = pytest.mark.unit


def events(*pieces: bytes, cancelled: bool) -> Iterator[bytes]:
    yield from pieces
    if cancelled:
        raise CallCancelled


def test_a_complete_stream_is_sent_as_it_is() -> None:
    assert list(ClientWatch(None).sending(events(b"a", b"b", cancelled=False))) == [b"a", b"b"]


@pytest.mark.parametrize("pieces", [(), (b"a", b"b")])
def test_a_cancelled_stream_ends_with_the_error_of_a_broken_connection(pieces: tuple[bytes, ...]) -> None:
    sent = []
    with pytest.raises(OSError) as caught:
        for piece in ClientWatch(None).sending(events(*pieces, cancelled=True)):
            sent.append(piece)
    assert caught.value.errno == errno.EPIPE, "gunicorn logs every other error with a traceback"
    assert tuple(sent) == pieces

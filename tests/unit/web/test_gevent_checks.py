"""A web process that would hang on its first stream does not start."""

from __future__ import annotations

import pytest

from localai.errors import StartRefused
from web.gevent_checks import require_gevent

pytestmark = pytest.mark.unit


def test_an_unpatched_process_is_refused_with_what_to_do() -> None:
    with pytest.raises(StartRefused) as caught:
        require_gevent()
    assert "gunicorn_conf.py" in caught.value.message

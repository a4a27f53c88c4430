"""The master learns the id of a worker's row through the fork, also when the worker is killed."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from localai.ids import FrontendId, new_id
from web.frontend_note import FrontendNote, hand_over, write_own

pytestmark = pytest.mark.unit


def test_a_note_is_empty_until_it_is_written() -> None:
    note = FrontendNote()
    assert note.read() is None
    note.close()


def test_the_newest_registration_of_a_killed_child_is_known() -> None:
    note, first, second = FrontendNote(), FrontendId(new_id()), FrontendId(new_id())
    hand_over(note)
    with warnings.catch_warnings():
        # Newer Pythons warn where threads of other tests still run; this child only writes and dies.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        write_own(first)
        write_own(second)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert note.read() == second
    note.close()

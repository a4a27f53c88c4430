"""How gunicorn runs a front whose event loop is watched: as `web/gunicorn_conf.py` says, with one more greenlet.

The file that BENCH_GAPS names holds two numbers, the longest time in milliseconds that the greenlet waited for its turn:
of CPU time of the thread, and by the wall clock. Set to zero, they begin a new measurement.
"""

import mmap
import os
import struct
import time
from typing import Any

from web.gunicorn_conf import *  # noqa: F403  # first: it patches what the next line imports

import gevent  # isort: skip
from gevent.event import Event  # isort: skip

_PAUSE_S = 0.001
_GAPS = struct.Struct("dd")


def post_worker_init(worker: Any) -> None:
    """The worker serves now."""
    gevent.spawn(_watch)


def _watch() -> None:
    with open(os.environ["BENCH_GAPS"], "r+b") as file:
        gaps = mmap.mmap(file.fileno(), _GAPS.size)
    worked, at = time.thread_time(), time.perf_counter()
    never = Event()
    while True:
        never.wait(_PAUSE_S)
        now_worked, now_at = time.thread_time(), time.perf_counter()
        longest_work, longest = _GAPS.unpack_from(gaps)
        work, wait = (now_worked - worked) * 1000, (now_at - at - _PAUSE_S) * 1000
        _GAPS.pack_into(gaps, 0, max(longest_work, work), max(longest, wait))
        worked, at = now_worked, now_at

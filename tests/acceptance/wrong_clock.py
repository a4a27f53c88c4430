"""A clock that is wrong by minutes, for one process and everything it starts: a library in front of the system's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t offset(void) { const char *text = getenv("TEST_CLOCK_OFFSET_S"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(clock, now);
    if (outcome == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return outcome;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    int outcome = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return outcome;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


def build(folder: Path) -> Path | None:
    """The library, or None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    source, library = folder / "wrong_clock.c", folder / "wrong_clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def variables(library: Path, offset_s: int) -> dict[str, str]:
    """What makes the clock of a process wrong by so much."""
    return {"LD_PRELOAD": str(library), "TEST_CLOCK_OFFSET_S": str(offset_s)}

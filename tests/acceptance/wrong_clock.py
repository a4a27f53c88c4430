"""A wrong clock for one process and everything it starts: a library in front of the system's own.

The offset is a constant of the environment, or the first eight bytes of a file: then it steps while the process runs.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *shared;

__attribute__((constructor)) static void open_shared(void) {
    const char *path = getenv("TEST_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shared = found;
}

static time_t offset(void) {
    if (shared) return *shared;
    const char *text = getenv("TEST_CLOCK_OFFSET_S");
    return text ? atol(text) : 0;
}

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


#: The embedded PostgreSQL gets nothing of its caller's environment.
_UP = """
import ast, sys
from localai.cli.main import main
from localai.embedded import postgres
plain, added = postgres._environment, ast.literal_eval(sys.argv.pop(1))
postgres._environment = lambda: {**plain(), **added}
main()
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


class SteppingClock:
    """The clock of a database; `step` moves it while it runs."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library, self._path = library, folder / "clock"
        self.step(0)

    def step(self, offset_s: int) -> None:
        """Set how far the clock stands ahead, in whole seconds."""
        with self._path.open("r+b" if self._path.exists() else "w+b") as file:
            file.write(struct.pack("=q", offset_s))

    def program(self) -> list[str]:
        """The console script with a PostgreSQL that has this clock; what else it starts has the right one."""
        variables = {"LD_PRELOAD": str(self._library), "TEST_CLOCK_FILE": str(self._path)}
        return [sys.executable, "-c", _UP, repr(variables)]

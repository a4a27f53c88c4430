"""Guarded moves of jobs a second: the most that the rows of one database give to all control processes."""

from __future__ import annotations

import json
import subprocess
import sys

from localai.cli.migrations import upgrade
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, result_of
from tests.embedded_servers import ROOT, clean_environment, servers_of

#: As many processes as cores: one alone measures its own interpreter.
PROCESSES, THREADS = 2, 8


def measure(stand: Stand) -> list[Row]:
    servers = servers_of(stand.state)
    rows = []
    with servers.new_database() as url:
        upgrade(url)
        for processes in (1, PROCESSES):
            rate = _rate(url, processes, stand.length.fence_s)
            aim = Aim(at_least=1000) if processes == PROCESSES else None
            what = f"{processes} process{'es' if processes > 1 else ''} of {THREADS} threads"
            rows.append(Row(measure="fenced moves", what=what, value=rate, unit="moves/s", aim=aim))
    return rows


def _rate(url: str, processes: int, seconds: float) -> float:
    started = []
    for _ in range(processes):
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fencer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
            cwd=ROOT,
        )
        assert popen.stdin is not None
        popen.stdin.write(json.dumps({"database_url": url, "threads": THREADS, "seconds": seconds}))
        popen.stdin.close()
        started.append(popen)
    results = [result_of(popen) for popen in started]
    return float(sum(result["moves"] / result["seconds"] for result in results))

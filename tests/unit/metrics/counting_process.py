"""A process of a frontend that counts and shares: it says what it did, and obeys one word a line."""

from __future__ import annotations

import sys
from pathlib import Path

from localai import metrics, shared_counts


def main() -> None:
    counts = shared_counts.SharedCounts(Path(sys.argv[1]))
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "start":
            counts.start()
        elif word == "count":
            metrics.FENCED_WRITES.labels("take").inc(float(rest[0]))
            metrics.ROUTER_OVERHEAD.observe(0.004)
        elif word == "wait":
            metrics.WAITERS.labels("m").inc()
        elif word == "collect":
            text = metrics.exposition(counts.collect()).decode()
            found = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in text.splitlines() if line[0] != "#"}
            sys.stdout.write(" ".join(found.get(name, "none") for name in rest) + "\n")
        elif word == "stop":
            counts.stop()
            return
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

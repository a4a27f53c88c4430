"""What counting one warm answer costs: `python -m tests.bench.counter` reads one JSON object and writes one."""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

from localai import metrics  # noqa: E402
from localai.clock import boottime  # noqa: E402
from localai.shared_counts import SharedCounts  # noqa: E402
from web.account import open_account  # noqa: E402


def main(answers: int, models: int) -> dict[str, float]:
    """CPU of the same calls that a warm answer makes, of the file every five seconds, and of a scrape."""
    began = time.process_time()
    for number in range(answers):
        account = open_account()
        account.model, account.node = f"model-{number % models}", "node"
        with account.elsewhere():
            pass
        metrics.ROUTER_OVERHEAD.observe(max(0.0, boottime() - 1.0 - account.elsewhere_s))
        metrics.API_CALL.labels("POST", "/v1/chat/completions", "ok").observe(0.01)
        metrics.REQUESTS.labels(account.model, account.node, "ok").inc()
        metrics.TIME_TO_FIRST_TOKEN.labels(account.model).observe(0.01)
    counting = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        counts = SharedCounts(Path(folder))
        began = time.process_time()
        for _ in range(10):
            counts._write()
        writing = time.process_time() - began
        began = time.process_time()
        for _ in range(10):
            metrics.exposition(counts.collect())
        scraping = time.process_time() - began
    return {"answer_us": counting / answers * 1e6, "write_ms": writing / 10 * 1e3, "scrape_ms": scraping / 10 * 1e3}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(**json.load(sys.stdin))) + "\n")

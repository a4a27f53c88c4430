"""Beside what a person might pick instead: LiteLLM's proxy before an OpenAI server on the same model process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import yaml

from tests import plain_http
from tests.acceptance.cluster import free_port, wait_for
from tests.bench.machine import spread
from tests.bench.report import Row
from tests.bench.stand import FRONT_CORE, OTHER_CORE, Stand, cpu_s, median_of, pin
from tests.bench.warm import MODEL
from tests.embedded_servers import clean_environment

LEVELS = (1, 32)
KEY = "sk-bench"


def measure(stand: Stand) -> list[Row]:
    """The warm path of both, in turns. Made by `make bench-peers`, which installs the peer into `build/peers`."""
    address = stand.loaded(MODEL, "tokens:1")
    figures: dict[tuple[str, int, str], list[float]] = {}
    with stand.pinned(), stand.asgi(address, MODEL) as (upstream, app), _litellm(stand, upstream) as (port, proxy):
        pin(app, OTHER_CORE)
        for _ in range(stand.length.rounds):
            for level in LEVELS:
                sides = {"litellm": (proxy, {"port": port, "key": KEY}), "localai": (stand.web(), {})}
                for side, (front, changes) in sides.items():
                    for name, value in _ask(stand, front, level, changes).items():
                        figures.setdefault((side, level, name), []).append(value)
        memory = proxy.memory_full_info().pss / 2**20
    rows = [
        _row(f"{side}, c={level}, {name}", values, unit=name.split(" ")[0])
        for (side, level, name), values in figures.items()
    ]
    for level in LEVELS:
        pairs = zip(*(figures[side, level, "ms CPU/request"] for side in ("litellm", "localai")), strict=True)
        rows.append(_row(f"litellm : localai, c={level}, CPU", [peer / ours for peer, ours in pairs], ratio=True))
    return [*rows, Row(measure="peers", what="litellm, memory", value=memory, unit="MiB")]


def _row(what: str, values: list[float], *, unit: str = "ratio", ratio: bool = False) -> Row:
    return Row(measure="peers", what=what, value=median_of(values), unit=unit, spread=spread(values), ratio=ratio)


def _ask(stand: Stand, front: psutil.Process, level: int, changes: dict[str, Any]) -> dict[str, float]:
    plan = stand.chat(MODEL, connections=level, seconds=stand.length.seconds, **changes)
    before = cpu_s(front)
    found = stand.ask(plan)
    used = (cpu_s(front) - before) * plan.seconds / (plan.seconds + plan.warm_s)
    if set(found["statuses"]) != {"200"} or found["broken"]:
        raise RuntimeError(f"not every answer was 200: {found}")
    return {
        "ms p50": found["p50_ms"],
        "requests/s": found["requests"] / found["seconds"],
        "ms CPU/request": used * 1000 / found["requests"],
    }


@contextlib.contextmanager
def _litellm(stand: Stand, upstream: int) -> Iterator[tuple[int, psutil.Process]]:
    """The proxy with one worker, without a database."""
    port, config = free_port(), stand.cluster.folder / "litellm.yaml"
    parameters = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    config.write_text(
        yaml.safe_dump(
            {
                "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
                "general_settings": {"master_key": KEY},
            }
        )
    )
    environment = clean_environment({"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR"})
    program = Path(os.environ.get("BENCH_PEERS", "build/peers")) / "bin" / "litellm"
    log = stand.cluster.folder / "litellm.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [str(program), "--config", str(config), "--port", str(port), "--num_workers", "1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
        )
    try:
        wait_for(f"LiteLLM's proxy; its log is {log}", lambda: _answers(popen, port))
        process = psutil.Process(popen.pid)
        pin(process, FRONT_CORE)
        yield port, process
    finally:
        popen.terminate()
        popen.wait(30)


def _answers(popen: subprocess.Popen[bytes], port: int) -> bool:
    if popen.poll() is not None:
        raise RuntimeError(f"LiteLLM's proxy ended with {popen.returncode}")
    with contextlib.suppress(httpx2.TransportError):
        return plain_http.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).status_code == 200
    return False

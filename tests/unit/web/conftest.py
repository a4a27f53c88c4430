"""Fixtures of the web process's unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.web import WebBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WebBench]:
    bench = WebBench(tmp_path)
    yield bench
    bench.inference.close()

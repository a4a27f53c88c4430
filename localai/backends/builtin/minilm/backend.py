"""Sentence encoders behind the backend protocol: embeddings, and rerank by the angle between embeddings."""

from __future__ import annotations

import sys
import threading

import serving


def main(argv: list[str]) -> int:
    address = serving.parse_address(argv)
    stopping = threading.Event()
    serving.stop_on_signals(stopping)
    # Late: numpy starts threads when it is imported, and a signal kills the process while any thread does not block it.
    from calls import MiniLM

    return serving.serve(MiniLM(), address, stopping)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

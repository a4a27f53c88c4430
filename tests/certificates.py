"""Certificates of an authority that a test makes for itself."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is missing")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.cert, self._key = folder / "ca.pem", folder / "ca.key"
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        _openssl("req", "-x509", *_CURVE, "-subj", "/CN=test authority", *extensions, *_out(self.cert, self._key))

    def issue(self, *names: str) -> Pair:
        """A server's certificate for these names, such as ``DNS:localhost`` or ``IP:127.0.0.1``."""
        stem = self._folder / names[0].replace(":", "-")
        pair = Pair(stem.with_suffix(".pem"), stem.with_suffix(".key"))
        signed = ("-CA", str(self.cert), "-CAkey", str(self._key), "-addext", f"subjectAltName={','.join(names)}")
        _openssl("req", "-x509", *_CURVE, "-subj", "/CN=server", *signed, *_out(pair.cert, pair.key))
        return pair


def _out(cert: Path, key: Path) -> tuple[str, ...]:
    return ("-out", str(cert), "-keyout", str(key))


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)

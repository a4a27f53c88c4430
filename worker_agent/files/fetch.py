"""How the files of a model come to this node: pulled, resumed, hashed while they arrive, usable only once verified."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from localai import logs
from localai.errors import OperationFailed
from localai.jobs.disk_full import is_disk_full
from localai.jobs.operation_rules import Cause, StagedFile
from localai.metrics import STAGING_BYTES
from worker_agent.files.digests import DigestCache
from worker_agent.files.paths import within
from worker_agent.files.staged_files import PARTIAL_SUFFIX, StagedFiles, partial_of
from worker_agent.frontends import FileStream, NoFrontend
from worker_agent.hooks import Hooks
from worker_agent.work import Work

log = logs.get(__name__)

CHUNK_BYTES = 1024 * 1024
#: A connection that sends nothing for this long is given up and resumed: a stop that comes meanwhile waits no longer.
SILENCE_S = 5.0
#: A short stall window is split among at least so many tries, and a connection is given at least this long.
TRIES_LEAST, SILENCE_LEAST_S = 3, 0.1
#: A partial file that nothing was added to for this long is given up.
PARTIAL_MAX_AGE_S = 24 * 3600
#: Between two tries while no frontend sends the file.
RETRY_S = (0.2, 5.0)

Moved = Callable[[int], None]


class Sources(Protocol):
    """Where bytes come from."""

    def file(self, source: str, *, start: int, silence_s: float) -> AbstractContextManager[FileStream]:
        """The bytes of a source from ``start`` on. Raises NoFrontend."""


class Fetcher:
    """Brings one file after the other into a model's folder."""

    def __init__(
        self, sources: Sources, digests: DigestCache, staged_files: StagedFiles, hooks: Hooks | None = None
    ) -> None:
        self._sources = sources
        self._digests = digests
        self._staged_files = staged_files
        self._hooks = hooks or Hooks()

    def fetch(self, folder: Path, staged: StagedFile, *, stall_window_s: float, moved: Moved, work: Work) -> Path:
        """Make a file present with its promised digest. ``moved`` gets the bytes of it that are done so far.

        Raises OperationFailed, OperationStopped. Idempotent: what is there and right is not fetched again, and what was
        cut off goes on where it stopped.
        """
        target = within(folder, staged.path)
        partial = partial_of(target, staged.sha256)
        if self._digests.get(target) == staged.sha256:
            # Known to be whole: no partial file is made, for which a full disk has no room.
            return self._keep(target, staged, moved)
        with _disk_errors_are_typed(partial):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(partial, moved, work):
                if self._is_there(target, staged, moved, work):
                    partial.unlink(missing_ok=True)
                    return target
                _require_room(target.parent, staged.size - partial.stat().st_size, staged.path)
                self._staged_files.receiving(partial)
                with open(partial, "r+b") as file:
                    transfer = Transfer(
                        self._sources,
                        staged,
                        file,
                        stall_window_s=stall_window_s,
                        moved=moved,
                        work=work,
                        received=self._hooks.received_file,
                    )
                    if not transfer.complete():
                        partial.unlink()
                        raise transfer.mismatch()
                    self._hooks.verified(staged.path)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, target)
                _sync_folder(target.parent)
                self._hooks.renamed(staged.path)
                self._digests.put(target, staged.sha256)
        return target

    def require_room(self, folder: Path, files: Sequence[StagedFile]) -> None:
        """Refuse files for which the disk has no room before the first byte is received. Raises OperationFailed.

        Bytes that lie here count as present: whole files, and what earlier transfers left.
        """
        missing = sum(self._missing(within(folder, file.path), file) for file in files)
        if missing > 0:
            _require_room(folder, missing, f"the model of {len(files)} files")

    def _missing(self, target: Path, staged: StagedFile) -> int:
        known = self._digests.get(target)
        if known == staged.sha256 or (known is None and _size(target) == staged.size):
            return 0  # a file of the right size whose digest is not known is hashed before anything is received
        return max(0, staged.size - _size(partial_of(target, staged.sha256)))

    def _is_there(self, target: Path, staged: StagedFile, moved: Moved, work: Work) -> bool:
        if not target.is_file() or target.stat().st_size != staged.size:
            return False
        digest = self._digests.get(target)
        if digest is None:
            with open(target, "rb") as file:
                digest = _hash(file, staged.size, moved, work).hexdigest()
            self._digests.put(target, digest)
        if digest == staged.sha256:
            self._keep(target, staged, moved)
        return digest == staged.sha256

    @staticmethod
    def _keep(target: Path, staged: StagedFile, moved: Moved) -> Path:
        STAGING_BYTES.labels("kept").inc(staged.size)
        moved(staged.size)
        return target


class Transfer:
    """One file on its way: its bytes on disk, and their digest so far."""

    def __init__(
        self,
        sources: Sources,
        staged: StagedFile,
        file: BinaryIO,
        *,
        stall_window_s: float,
        moved: Moved,
        work: Work,
        received: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._staged = staged
        self._file = file
        self._stall_window_s = stall_window_s
        self._moved = moved
        self._work = work
        self._received = received
        self._size = 0
        self._moved_at = 0.0
        self._sha256 = hashlib.sha256()

    def complete(self) -> bool:
        """Receive what is missing. Whether the whole has the promised digest. Raises OperationFailed."""
        resumed = self._adopt()
        self._receive()
        self._received(self._staged.path)
        if resumed and not self._is_right():
            # The part that lay here may have been the bad one: once more, from the beginning.
            self._empty()
            self._receive()
        return self._is_right()

    def mismatch(self) -> OperationFailed:
        """What is to be said when the digest is another."""
        return OperationFailed(
            Cause.DIGEST_MISMATCH,
            f"{self._staged.path}: the {self._size} bytes that arrived have SHA-256 {self._sha256.hexdigest()}, "
            f"promised were {self._staged.size} bytes with {self._staged.sha256}",
        )

    def _is_right(self) -> bool:
        return self._size == self._staged.size and self._sha256.hexdigest() == self._staged.sha256

    def _adopt(self) -> bool:
        """Take over what an earlier transfer left; whether there was anything. Hashing it is progress."""
        size = os.fstat(self._file.fileno()).st_size
        if size > self._staged.size:
            self._empty()
            size = 0
        self._sha256 = _hash(self._file, size, self._moved, self._work)
        self._size = size
        return size > 0

    def _receive(self) -> None:
        """Ask the sources until all bytes are here. Raises OperationFailed when nothing moves for the stall window."""
        self._moved_at, retry_s = time.monotonic(), RETRY_S[0]
        while self._size < self._staged.size:
            before = self._size
            problems = [self._receive_from(source) for source in self._staged.sources if self._size == before]
            if self._size > before:
                retry_s = RETRY_S[0]
                continue
            if all(problem is None for problem in problems):
                raise OperationFailed(Cause.FILE_MISSING, f"{self._staged.path}: no source has the file")
            if self._left_s() <= 0:
                raise OperationFailed(
                    Cause.STAGING_STALLED,
                    f"{self._staged.path}: nothing arrived for {self._stall_window_s:g} s "
                    f"(LOCALAI_STAGING_STALL_WINDOW) at byte {self._size} of {self._staged.size}: "
                    + "; ".join(problem for problem in problems if problem),
                )
            self._work.pause(min(retry_s, max(self._left_s(), 0.0)))
            retry_s = min(retry_s * 2, RETRY_S[1])

    def _left_s(self) -> float:
        """What is left of the stall window, counted from the last byte. No try may outlast it."""
        return self._stall_window_s - (time.monotonic() - self._moved_at)

    def _receive_from(self, source: str) -> str | None:
        """Receive until the source ends or breaks off. Returns what went wrong; None = it has no such file."""
        silence_s = max(min(SILENCE_S, self._stall_window_s / TRIES_LEAST, self._left_s()), SILENCE_LEAST_S)
        try:
            with self._sources.file(source, start=self._size, silence_s=silence_s) as stream:
                if stream.missing:
                    return None
                if stream.start != self._size:
                    self._empty()
                for chunk in stream.chunks:
                    self._work.check()
                    self._add(chunk)
        except NoFrontend as error:
            return error.message
        return f"{source}: ended early"

    def _add(self, chunk: bytes) -> None:
        if self._size + len(chunk) > self._staged.size:
            raise OperationFailed(
                Cause.DIGEST_MISMATCH,
                f"{self._staged.path}: more than the promised {self._staged.size} bytes arrived",
            )
        STAGING_BYTES.labels("received").inc(len(chunk))
        self._file.write(chunk)
        self._sha256.update(chunk)
        self._size += len(chunk)
        self._moved_at = time.monotonic()
        self._moved(self._size)

    def _empty(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._sha256, self._size = hashlib.sha256(), 0


def _require_room(folder: Path, missing: int, what: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < missing:
        raise OperationFailed(Cause.DISK_FULL, f"{what} needs {missing} more bytes, and {free} are free in {folder}")


def _size(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _hash(file: BinaryIO, size: int, moved: Moved, work: Work) -> hashlib._Hash:
    """The digest of the first ``size`` bytes; the file then stands behind them."""
    digest, done = hashlib.sha256(), 0
    while done < size:
        work.check()
        chunk = file.read(min(CHUNK_BYTES, size - done))
        if not chunk:
            break
        digest.update(chunk)
        done += len(chunk)
        moved(done)
    return digest


@contextmanager
def _locked(path: Path, moved: Moved, work: Work) -> Iterator[None]:
    """Hold the only right to write the file. The lock is the kernel's: it ends with its holder, however that dies.

    What the holder receives meanwhile has moved for whoever waits, too: it is the same file.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            seen = 0
            while not _try_lock(descriptor):
                if (size := os.fstat(descriptor).st_size) > seen:
                    moved(seen := size)
                work.pause(RETRY_S[0])
            # The holder before may have renamed or removed what this descriptor is open on.
            if path.exists() and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                yield
                return
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _disk_errors_are_typed(partial: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            partial.unlink(missing_ok=True)  # the room is worth more than a resume
            raise OperationFailed(Cause.DISK_FULL, f"no space left while writing {partial}") from None
        raise OperationFailed(Cause.STAGING_FAILED, f"{partial} cannot be written: {error}") from None


def sweep_partials(models: Path, now: float) -> None:
    """Remove what transfers left that nobody went on with for a day. ``now`` is wall time, as file times are."""
    for path in models.rglob(f"*{PARTIAL_SUFFIX}"):
        try:
            if now - path.stat().st_mtime > PARTIAL_MAX_AGE_S:
                path.unlink()
        except OSError as error:
            log.warning("a stale partial file stays", extra=logs.fields(path=path, error=error))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

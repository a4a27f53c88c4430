"""Limits of memory and CPU that control groups set: of this process's own group and of every group above it.

Both versions are read, also side by side. ``root`` is the root of the file system, so that a test can make its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/")
#: Version 1 writes "no limit" as the largest number of pages; every real limit lies far below.
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The memory of one group with a limit, in bytes."""

    limit: int
    charged: int
    #: Pages of files, which the kernel takes back before it refuses memory to the group.
    file_pages: int

    @property
    def free(self) -> int:
        return max(0, self.limit - max(0, self.charged - self.file_pages))


def memory_groups(root: Path = ROOT) -> list[MemoryGroup]:
    """Every group with a memory limit that holds this process, the own one first."""
    unified = (_unified(folder) for folder in folders(root, ""))
    legacy = (_legacy(folder) for folder in folders(root, "memory"))
    return [group for group in (*unified, *legacy) if group is not None]


def cpu_quota(root: Path = ROOT) -> float | None:
    """How many processors this process may use at most, by the smallest quota of its groups; None without one."""
    unified = (_ratio(_text(folder / "cpu.max").split()) for folder in folders(root, ""))
    legacy = (
        _ratio([_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")])
        for folder in folders(root, "cpu")
    )
    return min((quota for quota in (*unified, *legacy) if quota is not None), default=None)


def _unified(folder: Path) -> MemoryGroup | None:
    limits = [_number(folder / name) for name in ("memory.max", "memory.high")]
    return _group(folder, limits, _number(folder / "memory.current"), prefix="")


def _legacy(folder: Path) -> MemoryGroup | None:
    limits = [_number(folder / "memory.limit_in_bytes")]
    return _group(folder, limits, _number(folder / "memory.usage_in_bytes"), prefix="total_")


def _group(folder: Path, limits: list[int | None], charged: int | None, *, prefix: str) -> MemoryGroup | None:
    limit = min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)
    if limit is None or charged is None:
        return None
    counts = dict(line.partition(" ")[::2] for line in _text(folder / "memory.stat").splitlines())
    pages = [counts.get(prefix + name, "") for name in ("inactive_file", "active_file")]
    return MemoryGroup(limit, charged, sum(int(text) for text in pages if text.isdigit()))


def _ratio(fields: list[str]) -> float | None:
    """Quota by period; None where one of them is no positive number (``max`` and -1 mean no quota)."""
    quota, period = (*fields, "", "")[:2]
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return None
    return int(quota) / int(period)


def folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the own group and of those above, as far as they are mounted. An empty controller is version 2."""
    group = _own_group(root, controller)
    mount = _mount(root, controller)
    if group is None or mount is None:
        return
    top, mounted = mount
    folder = root / top.relative_to("/")
    # A path outside of what is mounted belongs to a namespace further out: then the mounted group is the own one.
    if group.is_relative_to(mounted) and ".." not in group.parts:
        below = group.relative_to(mounted)
        for part in (below, *below.parents)[:-1] if below.parts else ():
            yield folder / part
    yield folder


def _own_group(root: Path, controller: str) -> PurePosixPath | None:
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, found, path = rest.partition(":")
        if found and path.startswith("/") and controller in controllers.split(","):
            return PurePosixPath(path)
    return None


def _mount(root: Path, controller: str) -> tuple[PurePosixPath, PurePosixPath] | None:
    """Where the hierarchy of a controller is mounted, and which of its groups is seen there."""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields, _, source = line.partition(" - ")
        place, kind = fields.split(), source.split()
        if len(place) < 5 or len(kind) < 3 or not place[4].startswith("/"):
            continue
        if (kind[0] == "cgroup2" and not controller) or (kind[0] == "cgroup" and controller in kind[2].split(",")):
            return PurePosixPath(_plain(place[4])), PurePosixPath(_plain(place[3]))
    return None


def _plain(text: str) -> str:
    """A path of mountinfo without its escapes."""
    for escape, sign in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(escape, sign)
    return text


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    """The content of a control file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

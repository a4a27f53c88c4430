"""How much memory the process groups of this agent hold, and how much of it the kernel calls available all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worker_agent.processes import proc_table

#: Mapped bytes from which on several processes of a model are asked how much of it they share: that question walks all
#: pages of a process (17 ms for 1 GiB were measured), and code and libraries stay below.
SHARED_LEAST = 256 * 1024**2


class Group(Protocol):
    """What is read of a process group."""

    @property
    def instance(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory of one process, in bytes."""

    resident: int
    #: Pages of mapped files. They are page cache, which the kernel counts as available while a model works on them.
    mapped: int


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Memory of all groups, in bytes."""

    #: Resident bytes by process instance.
    resident: dict[str, int]
    #: Pages of mapped files, counted once for all processes of a model.
    mapped: int


class ModelMemoryReading:
    """Reads the memory of the groups that an agent names; none until then."""

    def __init__(self, proc: Path = proc_table.PROC) -> None:
        self._proc = proc
        self.groups: Callable[[], Collection[Group]] = tuple

    def __call__(self) -> ModelMemory:
        groups = self.groups()
        members = proc_table.members_of(frozenset(group.pid for group in groups)) if groups else {}
        resident: dict[str, int] = {}
        by_model: dict[str, dict[int, Pages]] = defaultdict(dict)
        for group in groups:
            pages = {pid: found for pid in members.get(group.pid, ()) if (found := self._pages(pid)) is not None}
            resident[group.instance] = sum(one.resident for one in pages.values())
            by_model[group.name.rpartition("#")[0]].update(pages)
        return ModelMemory(resident, sum(self._mapped(pages) for pages in by_model.values()))

    def _mapped(self, pages: dict[int, Pages]) -> int:
        """Pages of files that the processes of one model map."""
        large = [pid for pid, one in pages.items() if one.mapped >= SHARED_LEAST]
        if len(large) < 2:
            return sum(one.mapped for one in pages.values())
        return sum(
            one.mapped if pid not in large else min(one.mapped, self._share(pid, one.mapped))
            for pid, one in pages.items()
        )

    def _pages(self, pid: int) -> Pages | None:
        """None where the process has ended meanwhile."""
        found = self._kilobytes(pid, "status")
        if "VmRSS" not in found:
            return None
        # Locked pages are no page cache to the kernel any more: it calls them used by itself.
        mapped = max(0, found.get("RssFile", 0) - found.get("VmLck", 0))
        return Pages(resident=found["VmRSS"], mapped=mapped)

    def _share(self, pid: int, unknown: int) -> int:
        """Mapped pages of a process, where each page is split among the processes that map it."""
        return self._kilobytes(pid, "smaps_rollup").get("Pss_File", unknown)

    def _kilobytes(self, pid: int, name: str) -> dict[str, int]:
        """The lines ``Key: 12 kB`` of a file of a process, in bytes. Empty where it cannot be read."""
        try:
            lines = (self._proc / str(pid) / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return {}
        fields = [line.split() for line in lines]
        return {
            field[0].removesuffix(":"): int(field[1]) * 1024
            for field in fields
            if len(field) == 3 and field[2] == "kB" and field[1].isdigit()
        }

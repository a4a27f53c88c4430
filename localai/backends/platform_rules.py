"""Whether a machine can run one of the builds of a backend, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "arm64", "aarch64": "aarch64"}


@dataclass(frozen=True, slots=True)
class Build:
    """What a prebuilt package needs: system and machine as `platform` names them, and the least glibc."""

    system: str
    machine: str
    glibc: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Platform:
    """A machine: ``linux``, ``x86_64``, and its glibc version; None where the C library is another."""

    system: str
    machine: str
    glibc: tuple[int, int] | None = None


def this_machine(system: str, machine: str, libc: tuple[str, str]) -> Platform:
    """The value of what `platform.system()`, `platform.machine()` and `platform.libc_ver()` say."""
    name, version = libc
    numbers = version.split(".")[:2]
    known = name == "glibc" and len(numbers) == 2 and all(number.isdigit() for number in numbers)
    glibc = (int(numbers[0]), int(numbers[1])) if known else None
    lowered = machine.lower()
    return Platform(system.lower(), _MACHINES.get(lowered, lowered), glibc)


def why_unavailable(builds: Sequence[Build], machine: Platform) -> str | None:
    """None when a build fits or none is needed, else one sentence for people."""
    if not builds:
        return None
    fitting = [build for build in builds if (build.system, build.machine) == (machine.system, machine.machine)]
    if not fitting:
        offered = ", ".join(f"{build.system} {build.machine}" for build in builds)
        return f"it is {machine.system} {machine.machine}; builds exist for {offered}"
    least = fitting[0].glibc
    if least is None or (machine.glibc is not None and machine.glibc >= least):
        return None
    have = "another C library" if machine.glibc is None else f"glibc {machine.glibc[0]}.{machine.glibc[1]}"
    return f"its builds need glibc {least[0]}.{least[1]} or newer, and the machine has {have}"

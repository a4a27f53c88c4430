"""A machine without a build is told so, and why."""

from __future__ import annotations

import pytest

from localai.backends.platform_rules import Build, Platform, this_machine, why_unavailable

pytestmark = pytest.mark.unit

BUILDS = (Build("linux", "x86_64", glibc=(2, 17)), Build("darwin", "arm64"))


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Platform("linux", "x86_64", (2, 36)), None),
        (Platform("linux", "x86_64", (2, 17)), None),
        (Platform("darwin", "arm64"), None),
        (Platform("linux", "x86_64", (2, 12)), "its builds need glibc 2.17 or newer, and the machine has glibc 2.12"),
        (Platform("linux", "x86_64"), "its builds need glibc 2.17 or newer, and the machine has another C library"),
        (Platform("linux", "riscv64", (2, 36)), "it is linux riscv64; builds exist for linux x86_64, darwin arm64"),
    ],
)
def test_a_build_fits_or_the_reason_says_what_is_missing(machine: Platform, expected: str | None) -> None:
    assert why_unavailable(BUILDS, machine) == expected


def test_a_backend_without_builds_runs_everywhere() -> None:
    assert why_unavailable((), Platform("plan9", "mips")) is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("Linux", "x86_64", ("glibc", "2.36")), Platform("linux", "x86_64", (2, 36))),
        (("Linux", "AMD64", ("glibc", "2.36.1")), Platform("linux", "x86_64", (2, 36))),
        (("Linux", "aarch64", ("", "")), Platform("linux", "aarch64")),
        (("Linux", "aarch64", ("musl", "1.2")), Platform("linux", "aarch64")),
        (("Darwin", "arm64", ("", "")), Platform("darwin", "arm64")),
    ],
)
def test_what_python_says_of_a_machine_is_understood(
    said: tuple[str, str, tuple[str, str]], expected: Platform
) -> None:
    assert this_machine(*said) == expected

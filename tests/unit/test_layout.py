"""House rules of the repository that a machine can check."""

from __future__ import annotations

import ast
import configparser
import fnmatch
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("localai", "tasks", "web", "worker_agent")
#: Programs of other environments: they import nothing of ours and get their options from the variables we give them.
BUILTIN = ROOT / "localai/backends/builtin"

FOLDERS = {"localai", "tasks", "web", "worker_agent", "protos", "migrations", "tests", "compose", "docs", ".ci"}
FILES = {
    "setup.cfg",
    "pyproject.toml",
    "constraints.txt",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    ".gitignore",
}
#: Starters of processes, which build a child's environment from ours. Everybody else gets a Settings value.
ENVIRONMENT_BUILDERS = {
    "localai/settings.py",
    "localai/cli/processes.py",
    "localai/embedded/nats.py",
    "localai/embedded/postgres.py",
    "localai/embedded/valkey.py",
    "localai/galleries/wheels.py",
    "worker_agent/processes/environ.py",
}
#: How Python reaches the environment.
ENVIRONMENT = ("environ", "environb", "getenv", "getenvb", "putenv")
#: Names that say nothing about what is inside.
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if BUILTIN not in path.parents or path.name == "__init__.py":
                yield path


def nodes(words: Iterable[str], *folders: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node of the files that hold one of the words: parsing all of them takes seconds."""
    for path in sources(*folders):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            for node in ast.walk(ast.parse(text, filename=str(path))):
                yield name(path), node


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_the_import_contract_lists_every_file_of_rules() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(config["importlinter:contract:pure"]["source_modules"].split())
    named = {module(path) for path in sources("localai") if path.stem.endswith("_rules")}
    # A wildcard stands for a whole module name, so `rules` and `ports` have one and `*_rules` cannot.
    assert {"localai.**.rules", "localai.**.ports"} <= listed
    missing, gone = named - listed, listed - named - {"localai.**.rules", "localai.**.ports"}
    gone = {entry for entry in gone if not (ROOT / entry.replace(".", "/")).with_suffix(".py").exists()}
    assert not missing, f"add to source_modules of importlinter:contract:pure in setup.cfg: {sorted(missing)}"
    assert not gone, f"remove from source_modules of importlinter:contract:pure in setup.cfg: {sorted(gone)}"


def test_only_the_known_names_stand_at_the_top() -> None:
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    for path in ROOT.iterdir():
        if path.name == ".git" or any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored):
            continue
        assert path.name in (FOLDERS if path.is_dir() else FILES), f"{path.name} has no place at the top"


def reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=attr):
            return attr in ENVIRONMENT
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in ENVIRONMENT for alias in names)
        case _:
            return False


def test_only_the_settings_and_starters_of_processes_touch_the_environment() -> None:
    found = {where for where, node in nodes(ENVIRONMENT, *PACKAGES) if reads_environment(node)}
    assert found - ENVIRONMENT_BUILDERS == set(), "take a Settings value; only starters of processes may be listed here"
    assert {entry for entry in ENVIRONMENT_BUILDERS if not (ROOT / entry).exists()} == set()


def test_no_test_sleeps() -> None:
    for where, node in nodes(["sleep"], "tests"):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called != "sleep", f"{where}:{node.lineno} sleeps: wait for what is to happen, with a limit"


def test_every_module_begins_with_what_it_is_about() -> None:
    for path in sources(*PACKAGES, "tests"):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            assert text.startswith('"""') and not text.startswith('""""""'), f"{name(path)} has no docstring"


def test_no_module_has_a_name_that_says_nothing() -> None:
    for path in sources(*PACKAGES, "tests"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        assert not EMPTY_NAMES & set(parts), f"{name(path)}: name it for what it answers"


def test_only_web_imports_flask_and_only_tests_import_tests() -> None:
    for where, node in nodes(["pytest", "tests", "flask"], *PACKAGES):
        imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        roots = {entry.split(".")[0] for entry in imported}
        assert not roots & {"pytest", "tests"}, where
        assert "flask" not in roots or where.startswith("web/"), where


def test_every_decision_has_a_number_of_its_own_which_its_heading_repeats() -> None:
    records = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [path.name[:4] for path in records]
    assert numbers == [f"{number:04}" for number in range(1, len(records) + 1)]
    for path in records:
        heading = path.read_text(encoding="utf-8").splitlines()[0]
        assert re.match(rf"# {path.name[:4]}\b", heading), f"{path.name} begins with {heading!r}"

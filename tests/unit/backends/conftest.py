"""Modules of built-in backends, loaded without a process. They find the stubs under the name a folder gives them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from localai.backends.catalogue import BUILTIN
from localai.inference import bounds, optional_runs
from protos import backend_pb2

LoadModule = Callable[[str, str], ModuleType]


@pytest.fixture(scope="session")
def load_module() -> LoadModule:
    """Load ``builtin/<folder>/<name>.py``."""

    def load(folder: str, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"{folder} {name}", BUILTIN / folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "backend_pb2", backend_pb2)
            patch.setitem(sys.modules, "bounds", bounds)
            patch.setitem(sys.modules, "optional_runs", optional_runs)
            patch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up there
            spec.loader.exec_module(module)
        return module

    return load

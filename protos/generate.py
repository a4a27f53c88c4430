"""Whether the committed Python stubs are those of ``backend.proto``, and how they are made anew.

``python -m protos.generate`` writes them, ``--check`` compares. Run it from the repository root. Stubs demand a grpcio
at least as new as the grpcio-tools that made them, so they are written with the oldest grpcio that setup.cfg allows.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
#: The stubs import each other as `protos.*`, so the compiler sees the folder's parent as its root.
SOURCE = "protos/backend.proto"
STUBS = ("backend_pb2.py", "backend_pb2.pyi", "backend_pb2_grpc.py")
_TOOL_VERSION = re.compile(r"^GRPC_GENERATED_VERSION = .*$", re.MULTILINE)


def generate(target: Path) -> None:
    """Write the stubs to ``target``/protos. Raises RuntimeError when the compiler refuses the source."""
    from grpc_tools import protoc  # a tool of developers, not a dependency of the program

    arguments = [f"-I{FOLDER.parent}", *(f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")), SOURCE]
    if protoc.main(["protoc", *arguments]) != 0:
        raise RuntimeError(f"{SOURCE} does not compile")


def stale() -> list[str]:
    """Names of the committed stubs that differ from what the source gives; the version of the tool does not count."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return [name for name in STUBS if _text(Path(folder, "protos", name)) != _text(FOLDER / name)]


def _text(path: Path) -> str:
    return _TOOL_VERSION.sub("", path.read_text(encoding="utf-8"))


def _main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m protos.generate")
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args(argv).check:
        generate(FOLDER.parent)
        return 0
    old = stale()
    if old:
        sys.stderr.write(f"stale stubs: {', '.join(old)}; run `python -m protos.generate`\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))

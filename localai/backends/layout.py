"""How the folder of an installed backend is laid out.

The result has the shape of any backend folder: ``run.sh --addr HOST:PORT`` starts it, and the protocol's stubs lie
beside ``backend.py`` under the names ``backend_pb2`` and ``backend_pb2_grpc``, as backends written elsewhere have them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from localai.backends.catalogue import Entry, contents

#: The stub imports its messages by the package they are compiled in; in a backend's folder they lie side by side.
_PACKAGED_IMPORT = "from protos import backend_pb2 as "
_FLAT_IMPORT = "import backend_pb2 as "


def lay_out(entry: Entry, folder: Path) -> None:
    """Fill ``folder``, which must exist and be empty, with everything but the virtual environment."""
    for path in contents(entry.source):
        shutil.copyfile(path, folder / path.name)
    (folder / "run.sh").chmod(0o700)
    stub = folder / "backend_pb2_grpc.py"
    text = stub.read_text(encoding="utf-8")
    if text.count(_PACKAGED_IMPORT) != 1:
        raise RuntimeError("the compiled stubs import their messages in an unexpected way")
    stub.write_text(text.replace(_PACKAGED_IMPORT, _FLAT_IMPORT), encoding="utf-8")

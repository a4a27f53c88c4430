#!/bin/sh
# Starts the backend: run.sh --addr HOST:PORT. Its own environment wins over LOCALAI_PYTHON, the agent's interpreter.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
python=${LOCALAI_PYTHON:-python3}
if [ -x "$here/venv/bin/python" ]; then
    python=$here/venv/bin/python
fi
exec "$python" "$here/backend.py" "$@"

"""What environment does a model process get?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from localai.backends.catalogue import canonical
from localai.jobs.operation_rules import Order
from localai.settings import Settings

#: They steer the agent's own interpreter; a backend has an environment of its own.
_INTERPRETER = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"})
#: Backends for tests, whose options act before LoadModel could bring them.
_FAULT = ("fault", "fault-slow")


def inherited() -> dict[str, str]:
    """The agent's environment without secrets and without what is meant for its own interpreter."""
    secret = {name for _, spec in Settings.specs() if spec.secret for name in spec.variables}
    return {name: value for name, value in os.environ.items() if name not in secret | _INTERPRETER}


def of_order(base: Mapping[str, str], order: Order) -> dict[str, str]:
    """The base, then the model's own variables, then what the agent decides."""
    decided = {
        # This agent ends its processes itself, also after its own death; a watch by polling would only guess.
        "LOCALAI_BACKEND_PARENT_WATCH": "false",
        "LOCALAI_PYTHON": sys.executable,
    }
    if canonical(order.backend) in _FAULT:
        decided["LOCALAI_FAULT_OPTIONS"] = "\n".join(order.model_options.get("Options", ()))
    return {**base, **order.env, **decided}

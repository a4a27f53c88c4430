"""The environment of model processes and installs: an allow-list of the agent's, beside the order's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping

from localai.backends.catalogue import canonical
from localai.jobs.operation_rules import Order
from localai.settings import Settings

#: Names that everything the agent starts inherits; a ``*`` stands for any ending.
_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR"),
    # Libraries and devices.
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NCCL_*", "CUBLAS_*"),
    *(
        "ROCR_*",
        "ROCM_*",
        "HIP_*",
        "HSA_*",
        "AMD_*",
        "GPU_*",
        "MIOPEN_*",
        "ONEAPI_*",
        "ZE_*",
        "ZES_*",
        "SYCL_*",
        "UR_*",
    ),
    *("VK_*", "OCL_*", "METAL_*", "ASCEND_*", "HABANA_*"),
    # Threads and numbers.
    *("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "BLIS_*", "NUMEXPR_*", "VECLIB_*", "MALLOC_*", "GGML_*"),
    # Libraries that download by themselves. A token is not among them.
    *("HF_HOME", "HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_*", "HF_HUB_ENABLE_*"),
    *(
        "HUGGINGFACE_HUB_CACHE",
        "TRANSFORMERS_CACHE",
        "TRANSFORMERS_OFFLINE",
        "TORCH_*",
        "PYTORCH_*",
        "TRITON_CACHE_DIR",
    ),
    *("XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
#: Passed to installs; to model processes only without a password in it.
_PROXIES = tuple(name for low in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (low, low.upper()))
_FOR_INSTALLS = ("PIP_*", "NETRC", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_*")
#: They steer the agent's own interpreter; a backend has an environment of its own.
_INTERPRETER = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"})
#: Backends for tests, whose options act before LoadModel could bring them.
_FAULT = ("fault", "fault-slow")


def inherited(
    further: Collection[str] = (), *, installs: bool = False, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The part of the agent's environment that a process gets; ``further`` are names of LOCALAI_BACKEND_ENV.

    Settings of this program are never passed, whatever the further names say: tokens and URLs are among them.
    """
    names = (*_PASSED, *(_FOR_INSTALLS if installs else ()), *further)
    return {
        name: value
        for name, value in Settings.left_out(os.environ if environ is None else environ).items()
        if name not in _INTERPRETER
        and (_is_one_of(name, names) or (name in _PROXIES and (installs or "@" not in value)))
    }


def is_inherited(name: str, value: str | None) -> bool:
    """Whether a variable has the value that it has for the agent, and so was set by no order."""
    return os.environ.get(name) == value


def _is_one_of(name: str, patterns: Collection[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


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

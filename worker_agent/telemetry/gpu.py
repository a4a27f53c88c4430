"""Which NVIDIA GPUs are there and how much memory they have. Nothing is said where there is no NVML."""

from __future__ import annotations

import pynvml


def read() -> dict[str, int | str]:
    """Memory of all GPUs in bytes, vendor, compute capability of the first, and the name a backend build goes by.

    Raises OSError where there is no GPU or its library does not answer.
    """
    try:
        pynvml.nvmlInit()
        try:
            return _read()
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise OSError(f"NVML: {error}") from None


def _read() -> dict[str, int | str]:
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if not handles:
        raise OSError("NVML: no GPU")
    memory = [pynvml.nvmlDeviceGetMemoryInfo(handle) for handle in handles]
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handles[0])
    cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2() // 1000
    return {
        "total_vram": sum(int(one.total) for one in memory),
        "available_vram": sum(int(one.free) for one in memory),
        "gpu_vendor": "nvidia",
        "gpu_compute_capability": f"{major}.{minor}",
        "capability": f"nvidia-cuda-{cuda}" if cuda in (12, 13) else "nvidia",
    }

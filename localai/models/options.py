"""Which ModelOptions a config asks for, defaults included.

The result is the proto3 JSON of ``backend.ModelOptions`` with original field names. Model, ModelFile, ModelPath and
the fields that name files are not in it: the node sets them to its own paths.
"""

from __future__ import annotations

from typing import Any

from localai.models.config import ModelConfig

DEFAULT_CONTEXT_SIZE = 4096
DEFAULT_BATCH = 512
#: More layers than any model has: all of them.
ALL_LAYERS = 99_999_999
#: Scale of an adapter without effect: zero is "not set" for the backend, which means 1.
NO_SCALE = 1e-9


def model_options(config: ModelConfig, threads: int = 0) -> dict[str, Any]:
    """Options for one load. ``threads`` serves a config that names none; 0 leaves the choice to the node."""
    loading = config.loading
    context_size = loading.context_size or DEFAULT_CONTEXT_SIZE
    found: dict[str, Any] = {
        "ContextSize": context_size,
        "NBatch": loading.batch or _default_batch(config, context_size),
        "Threads": loading.threads or threads,
        "NGPULayers": ALL_LAYERS if loading.gpu_layers is None else loading.gpu_layers,
        "F16Memory": loading.f16,
        "Embeddings": loading.embeddings,
        "Reranking": loading.reranking,
        "LowVRAM": loading.low_vram,
        "MLock": loading.mmlock,
        "MMap": True if loading.mmap is None else loading.mmap,
        "NoKVOffload": loading.no_kv_offloading,
        "FlashAttention": loading.flash_attention or "auto",
        "CacheTypeKey": loading.cache_type_k,
        "CacheTypeValue": loading.cache_type_v,
        "MainGPU": loading.main_gpu,
        "TensorSplit": loading.tensor_split,
        "Type": loading.type,
        "Seed": -1 if loading.seed is None else loading.seed,
        "RopeFreqBase": loading.rope_freq_base,
        "RopeFreqScale": loading.rope_freq_scale,
        "LoraScale": NO_SCALE if loading.lora_scale == 0 else loading.lora_scale,
        "Options": list(config.options),
        "Overrides": list(config.overrides),
    }
    # What proto3 JSON would leave out says nothing to the reader of an order either.
    return {name: value for name, value in found.items() if value not in (None, "", [], 0, False)}


def node_threads(configured: int, setting: int, cores: int) -> int:
    """Threads of a model process: what the config says, else the node's setting, else half its cores."""
    return configured or setting or max(cores // 2, 1)


def _default_batch(config: ModelConfig, context_size: int) -> int:
    # A text becomes one vector in one pass, so the batch must hold the longest text.
    single_pass = config.loading.embeddings or config.loading.reranking
    return max(DEFAULT_BATCH, context_size) if single_pass else DEFAULT_BATCH

"""How a model's options become parameters of llama.cpp."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable

import backend_pb2
import bounds
import xllamacpp

DEFAULT_CONTEXT = 4096
DEFAULT_BATCH = 512
#: Tokens of a prompt that one thread takes before it looks for a cancel. Larger batches were not faster on a CPU.
BATCH_OF_A_THREAD = 64
#: Seconds that the loop of the engine may be silent because of a grammar. One token of a grammar within `bounds` took
#: less than a tenth of it.
SAMPLER_LIMIT_S = 60
#: Warnings and errors: what people need in the tail of stderr, without a line for each request.
VERBOSITY = 2

_FLASH = {
    "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "true": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "false": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_POOLING = {
    "mean": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN,
    "cls": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_CLS,
    "last": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST,
}


class BadOption(ValueError):
    """An option of the model cannot be used; the text names it."""


def named(options: Iterable[str]) -> dict[str, str]:
    """The options of the form ``name:value``; others mean nothing to this backend."""
    pairs = (option.partition(":") for option in options)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def parameters(options: backend_pb2.ModelOptions, *, pooling: str | None = None) -> xllamacpp.CommonParams:
    """Parameters for one load. ``pooling`` overrides what the model's file says. Raises BadOption."""
    wanted = named(options.Options)
    params = xllamacpp.CommonParams()
    params.model.path = options.ModelFile or options.Model
    params.verbosity = VERBOSITY
    _listener(params)
    _size(params, options, parallel=_parallel(wanted))
    # Prompts of past answers kept outside the slots take memory that nobody accounts for.
    params.cache_ram_mib = _whole(wanted, "cache_ram", 0)
    params.n_cache_reuse = _whole(wanted, "cache_reuse", 0)
    params.no_kv_offload = options.NoKVOffload
    params.flash_attn_type = _FLASH.get(options.FlashAttention.lower(), params.flash_attn_type)
    params.cache_type_k = _cache_type(options.CacheTypeKey, params.cache_type_k)
    params.cache_type_v = _cache_type(options.CacheTypeValue, params.cache_type_v)
    params.load_mode = _load_mode(options)
    if options.RopeFreqBase > 0:
        params.rope_freq_base = options.RopeFreqBase
    if options.RopeFreqScale > 0:
        params.rope_freq_scale = options.RopeFreqScale
    if options.MMProj:
        params.mmproj.path = options.MMProj
    params.lora_adapters = _adapters(options)
    params.embedding = options.Embeddings
    chosen = pooling or wanted.get("pooling")
    if options.Embeddings and chosen:
        if chosen not in _POOLING:
            raise BadOption(f"option pooling: {chosen!r} cannot be used; accepted: {', '.join(sorted(_POOLING))}")
        params.pooling_type = _POOLING[chosen]
    return params


def sampler_limit_s(options: backend_pb2.ModelOptions) -> float:
    """How long one token of a grammar may hold the engine. Raises BadOption."""
    found = _whole(named(options.Options), "sampler_limit", SAMPLER_LIMIT_S)
    if found < 1:
        raise BadOption(f"option sampler_limit: {found} cannot be used; accepted: seconds from 1")
    return found


def _listener(params: xllamacpp.CommonParams) -> None:
    # The engine opens an HTTP port on loopback in any case. Only this process knows the key, and tokenizes through it.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_metrics = True  # the engine itself asks it
    params.cors_origins = ""
    params.n_threads_http = 2


def _size(params: xllamacpp.CommonParams, options: backend_pb2.ModelOptions, *, parallel: int) -> None:
    params.n_parallel = parallel
    if options.ContextSize < 0:
        # The model's own maximum, shared by the slots.
        params.n_ctx, params.kv_unified = 0, True
    else:
        # Each slot holds a whole context, so that no request fails because of its neighbours.
        params.n_ctx = (options.ContextSize or DEFAULT_CONTEXT) * parallel
    threads = options.Threads if options.Threads > 0 else max(_processors() // 2, 1)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    batch = options.NBatch if options.NBatch > 0 else DEFAULT_BATCH
    on_gpu = options.NGPULayers != 0 and _has_gpu()
    params.n_batch = params.n_ubatch = (
        batch if on_gpu or options.Embeddings else min(batch, BATCH_OF_A_THREAD * threads)
    )
    params.n_gpu_layers = options.NGPULayers if on_gpu else 0


def _parallel(wanted: dict[str, str]) -> int:
    found = max(_whole(wanted, "parallel", 1), 1)
    if found > bounds.PARALLEL:
        raise BadOption(f"option parallel: {found} cannot be used; accepted: at most {bounds.PARALLEL}")
    return found


def _processors() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _has_gpu() -> bool:
    return any(device["type"].name.endswith("GPU") for device in xllamacpp.get_device_info())


def _load_mode(options: backend_pb2.ModelOptions) -> xllamacpp.llama_load_mode:
    mode = xllamacpp.llama_load_mode
    if options.MMap:
        return mode.LLAMA_LOAD_MODE_MMAP_MLOCK if options.MLock else mode.LLAMA_LOAD_MODE_MMAP
    return mode.LLAMA_LOAD_MODE_MLOCK if options.MLock else mode.LLAMA_LOAD_MODE_NONE


def _cache_type(name: str, default: xllamacpp.ggml_type) -> xllamacpp.ggml_type:
    if not name:
        return default
    found = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{name.upper()}", None)
    if found is None:
        raise BadOption(f"cache type {name!r} is not known")
    return found


def _adapters(options: backend_pb2.ModelOptions) -> list[xllamacpp.CommonAdapterLoraInfo]:
    paths = list(options.LoraAdapters) or ([options.LoraAdapter] if options.LoraAdapter else [])
    scales = list(options.LoraScales) if options.LoraAdapters else [options.LoraScale]
    found = []
    for number, path in enumerate(paths):
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path = path
        adapter.scale = scales[number] if number < len(scales) and scales[number] else 1.0
        found.append(adapter)
    return found


def _whole(wanted: dict[str, str], name: str, default: int) -> int:
    text = wanted.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise BadOption(f"option {name}: {text!r} cannot be used; accepted: a whole number") from None

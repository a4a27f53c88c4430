"""What a backend is told about a model, defaults included."""

from __future__ import annotations

import pytest
from google.protobuf import json_format

from localai.models.config import parse_config
from localai.models.options import model_options, node_threads
from protos import backend_pb2

pytestmark = pytest.mark.unit

LEAST = {"name": "alpha", "backend": "llama-cpp"}


def test_defaults_are_those_of_the_reference() -> None:
    assert model_options(parse_config(LEAST)) == {
        "ContextSize": 4096,
        "NBatch": 512,
        "NGPULayers": 99_999_999,
        "MMap": True,
        "FlashAttention": "auto",
        "Seed": -1,
    }


def test_options_parse_as_the_message_with_original_field_names() -> None:
    raw = LEAST | {
        "context_size": -1,
        "threads": 2,
        "f16": True,
        "low_vram": True,
        "cache_type_k": "q8_0",
        "lora_scale": 0.5,
        "options": ["parallel:2"],
        "overrides": ["x"],
        "gpu_layers": 0,
        "parameters": {"seed": 7, "rope_freq_base": 10000.0, "batch": 32},
    }
    message = json_format.ParseDict(model_options(parse_config(raw)), backend_pb2.ModelOptions())
    assert (message.ContextSize, message.Threads, message.NBatch, message.Seed) == (-1, 2, 32, 7)
    assert (message.F16Memory, message.LowVRAM, message.CacheTypeKey) == (True, True, "q8_0")
    assert (message.LoraScale, message.RopeFreqBase, message.NGPULayers) == (0.5, 10000.0, 0)
    assert (list(message.Options), list(message.Overrides)) == (["parallel:2"], ["x"])
    assert not (message.Model or message.ModelFile or message.ModelPath)


def test_an_adapter_scale_of_zero_is_not_the_default_of_one() -> None:
    raw = LEAST | {"lora_adapter": "a.gguf"}
    assert "LoraScale" not in model_options(parse_config(raw))
    assert 0 < model_options(parse_config(raw | {"lora_scale": 0}))["LoraScale"] < 1e-6


def test_a_batch_of_an_embedding_model_holds_its_longest_text() -> None:
    assert model_options(parse_config(LEAST | {"embeddings": True, "context_size": 2048}))["NBatch"] == 2048
    assert model_options(parse_config(LEAST | {"embeddings": True, "context_size": 128}))["NBatch"] == 512


@pytest.mark.parametrize(
    ("configured", "setting", "cores", "expected"),
    [(3, 2, 8, 3), (0, 2, 8, 2), (0, 0, 8, 4), (0, 0, 1, 1)],
)
def test_threads_come_from_the_config_then_the_setting_then_half_the_cores(
    configured: int, setting: int, cores: int, expected: int
) -> None:
    assert node_threads(configured, setting, cores) == expected


def test_threads_given_by_the_caller_serve_a_config_that_names_none() -> None:
    assert model_options(parse_config(LEAST), threads=5)["Threads"] == 5
    assert model_options(parse_config(LEAST | {"threads": 2}), threads=5)["Threads"] == 2

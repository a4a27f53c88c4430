"""What a model's config says about a chat with it, in the words of the conversion."""

from __future__ import annotations

from dataclasses import fields

from localai.inference.convert import ChatDefaults, Sampling
from localai.models.config import ModelConfig

#: Backends that carry llama.cpp: only they mean something by `top_k`, and the template is in the model's own file.
_LLAMA_FAMILY = frozenset({"llama-cpp", "llama", "go-llama", "ik-llama-cpp", "ik_llama", "ik-llama", "turboquant"})
_LLAMA_TOP_K = 40


def chat_defaults(config: ModelConfig) -> ChatDefaults:
    """The defaults of a chat with this model."""
    llama = config.backend in _LLAMA_FAMILY
    values = {field.name: getattr(config.parameters, field.name) for field in fields(Sampling)}
    if llama and values["top_k"] is None:
        values["top_k"] = _LLAMA_TOP_K
    template = config.template
    return ChatDefaults(
        sampling=Sampling(**values),
        system_prompt=config.system_prompt,
        stopwords=config.stopwords,
        llama=llama,
        use_tokenizer_template=template.use_tokenizer_template
        or (llama and not (template.chat or template.chat_message)),
    )

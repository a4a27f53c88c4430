"""A random llama model of half a megabyte: real bytes to load, stage and truncate, in milliseconds.

It chats noise, the same noise for the same seed. Another seed gives other bytes and so another digest.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, FEED = 64, 2, 4, 128
#: Far more than any test waits for, so that an answer without a limit ends by cancel only.
CONTEXT = 131_072
_WORDS = ("▁hello", "▁world", "▁the", "▁a", "▁is", "▁and", "▁one", "▁two")


def write(path: Path, *, seed: int = 0) -> Path:
    """Write the model of a seed; returns the path."""
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, seed)
    _vocabulary(writer)
    _tensors(writer, np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def truncated(path: Path, *, seed: int = 0) -> Path:
    """Write the model of a seed and cut its last quarter off; returns the path."""
    write(path, seed=seed)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    return path


def _describe(writer: gguf.GGUFWriter, seed: int) -> None:
    writer.add_name(f"tiny-{seed}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(_tokens()))


def _tokens() -> list[tuple[str, float, gguf.TokenType]]:
    special = [
        ("<unk>", 0.0, gguf.TokenType.UNKNOWN),
        ("<s>", 0.0, gguf.TokenType.CONTROL),
        ("</s>", 0.0, gguf.TokenType.CONTROL),
    ]
    every_byte = [(f"<0x{number:02X}>", 0.0, gguf.TokenType.BYTE) for number in range(256)]
    return special + every_byte + [(word, -float(rank), gguf.TokenType.NORMAL) for rank, word in enumerate(_WORDS)]


def _vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = _tokens()
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")


def _tensors(writer: gguf.GGUFWriter, random: np.random.Generator) -> None:
    def noise(name: str, *shape: int) -> None:
        writer.add_tensor(name, random.normal(0, 0.1, shape).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    vocabulary = len(_tokens())
    noise("token_embd.weight", vocabulary, WIDTH)
    noise("output.weight", vocabulary, WIDTH)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        ones(f"{prefix}attn_norm.weight")
        ones(f"{prefix}ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            noise(f"{prefix}{name}.weight", WIDTH, WIDTH)
        noise(f"{prefix}ffn_gate.weight", FEED, WIDTH)
        noise(f"{prefix}ffn_up.weight", FEED, WIDTH)
        noise(f"{prefix}ffn_down.weight", WIDTH, FEED)

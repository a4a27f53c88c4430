"""One loaded sentence encoder: how a text becomes tokens, and tokens become one vector."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import backend_pb2
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

#: Tokens of a text that count, both ends included; the model was trained on texts of this length.
DEFAULT_LIMIT = 256
#: Positions that a model of the BERT family knows.
LARGEST_LIMIT = 512
MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"


class LoadFailed(Exception):
    """The model cannot be loaded; the text says why."""


class Refused(Exception):
    """A text or a token cannot be used; the text says why."""


class Encoder:
    """A loaded model. Calls may come from many threads; as many compute side by side as `parallel` says."""

    def __init__(self, options: backend_pb2.ModelOptions) -> None:
        """Load. Raises LoadFailed."""
        path = Path(options.ModelFile or options.Model)
        path = path / MODEL_FILE if path.is_dir() else path
        self._tokenizer = _tokenizer(Path(options.Tokenizer or path.with_name(TOKENIZER_FILE)))
        self._session = _session(path, options.Threads)
        self._inputs = {tensor.name for tensor in self._session.get_inputs()}
        self._limit = min(options.ContextSize if options.ContextSize > 0 else DEFAULT_LIMIT, LARGEST_LIMIT)
        self._turns = threading.BoundedSemaphore(_parallel(options.Options))
        try:
            # A file that opens and cannot be run, or is no encoder, is found by the load and not by the first caller.
            self.embed(self.tokenize("a"), threading.Event())
        except Exception as error:  # noqa: BLE001  the engine has no public base class of its errors
            raise LoadFailed(f"{path} is not a sentence encoder: {error}") from None

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text, its first and last one included. Raises Refused."""
        try:
            return list(self._tokenizer.encode(text).ids)
        except Exception as error:  # noqa: BLE001  the library raises bare exceptions
            raise Refused(f"the text cannot be read: {error}") from None

    def shortened(self, tokens: list[int]) -> list[int]:
        """What counts of the tokens: the beginning, and the last one, which marks the end."""
        return tokens if len(tokens) <= self._limit else [*tokens[: self._limit - 1], tokens[-1]]

    def embed(self, tokens: list[int], gone: threading.Event) -> np.ndarray:
        """The vector of tokens that are not too many, of length 1. Raises Refused, also when the caller has gone."""
        size = self._tokenizer.get_vocab_size()
        unknown = next((token for token in tokens if not 0 <= token < size), None)
        if unknown is not None:
            raise Refused(f"token {unknown} is none of this model's, which go from 0 to {size - 1}")
        # One text for each run, never a padded batch: a text has the same vector whatever it comes with.
        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        with self._turns:
            if gone.is_set():
                raise Refused("the caller has gone")
            states = self._session.run(None, {name: feeds[name] for name in self._inputs})[0]
        if states.ndim != 3:
            raise Refused(f"the first output has {states.ndim} dimensions, and 3 are needed")
        pooled = states[0].mean(axis=0)
        return pooled / max(float(np.linalg.norm(pooled)), 1e-12)


def _tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise LoadFailed(f"{path} is missing: the tokenizer must lie beside the model")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001  the library raises bare exceptions
        raise LoadFailed(f"{path} is not a tokenizer: {error}") from None
    # The file says how its trainer cut and padded; both are decided here.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    if not path.is_file():
        raise LoadFailed(f"{path} is missing")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads if threads > 0 else max(_processors() // 2, 1)
    # Idle threads that spin take the cores of the neighbours.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without a pool of its own the memory of a long text is given back; that was measured and is not slower.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    # Errors reach the caller; without this each is printed in colour as well.
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  the engine has no public base class of its errors
        raise LoadFailed(f"onnxruntime could not load {path}: {error}") from None


def _processors() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _parallel(options: Iterable[str]) -> int:
    """How many texts are computed side by side: option ``parallel:N``, else one."""
    text = next((option.partition(":")[2].strip() for option in options if option.startswith("parallel:")), "1")
    if not text.isdecimal() or int(text) < 1:
        raise LoadFailed(f"option parallel: {text!r} cannot be used; accepted: a whole number from 1")
    return int(text)

"""Limits of what one request may hold, in one place; `docs/reference/limits.md` is made from them.

A request of another shape would cost this process more of its event loop than the requests beside it can spare.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from localai.generated_pages import page_command
from localai.inference import bounds
from localai.jobs.operation_rules import OPERATIONS_MOST, PROCESSES_MOST
from localai.nodes.rules import LABELS_MOST


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest number of something in one request."""

    most: int
    what: str


# Of any body, counted in its bytes before it is parsed. The numbers are measured: see `tests/bench/bodies.py`.
VALUES = Limit(400_000, "values: numbers, texts, lists and objects, at any depth")
CONTAINERS = Limit(100_000, "lists and objects")
NAMES = Limit(100_000, "names of fields, repeated ones included")
DEPTH = Limit(128, "lists and objects inside each other")
DIGITS = Limit(128, "digits of one number in a row")
STRUCTURE = (VALUES, CONTAINERS, NAMES, DEPTH, DIGITS)

# Of a body in chunks, counted while it is read.
CHUNKS = Limit(65_536, "chunks of a body with `Transfer-Encoding: chunked`")
# Of the bytes of a body, before any of it is read. Routes of inference have the limit LOCALAI_UPLOAD_LIMIT.
LOGIN_BODY = Limit(16 * 1024, "bytes: `POST /api/auth/token-login`")
NODE_BODY = Limit(2 * 1024 * 1024, "bytes: registration, heartbeat and report of an agent")
SMALL_BODY = Limit(64 * 1024, "bytes: every other route that is no inference")
#: A body arrives whole in so many seconds, or at so many bytes a second.
BODY_S, BODY_BYTES_PER_S = 30.0, 16 * 1024
#: How long the head of the first request of a connection may take.
FIRST_HEAD_S = 30.0
BODIES = (LOGIN_BODY, NODE_BODY, SMALL_BODY)

# Of fields, checked before the items are looked at.
MESSAGES = Limit(4096, "`messages` of a chat")
PARTS = Limit(1024, "parts in the `content` of one message")
TOOL_CALLS = Limit(512, "`tool_calls` of one message")
TOOLS = Limit(512, "`tools` of a chat")
LOGIT_BIAS = Limit(1024, "tokens in `logit_bias`")
METADATA = Limit(64, "entries of `metadata`")
MODALITIES = Limit(8, "`modalities` of a chat")
STOP = Limit(64, "texts in `stop`")
PROMPTS = Limit(128, "texts in the `prompt` of a completion")
INPUTS = Limit(2048, "`input` of embeddings: texts, or lists of tokens")
DOCUMENTS = Limit(2048, "`documents` of a rerank")
STAGED_FILES = Limit(10_000, "`staged_files` of an agent's registration or heartbeat")
PROCESS_MEMORY = Limit(4096, "`process_memory` of an agent's registration or heartbeat")
LABELS = Limit(LABELS_MOST, "`labels` of an agent's registration")
OPERATIONS = Limit(OPERATIONS_MOST, "`operations` of an agent's report")
PROCESSES = Limit(PROCESSES_MOST, "`processes` of an agent's report")
# Of what becomes a grammar of the engine, or its memory. Other places check the same numbers: see `bounds`.
ENGINE = (
    Limit(bounds.GRAMMAR_BYTES, "bytes of a `grammar`"),
    Limit(bounds.GRAMMAR_NESTING, "brackets of a `grammar` inside each other"),
    Limit(bounds.GRAMMAR_ALTERNATIVES, "alternatives of a `grammar`"),
    Limit(bounds.GRAMMAR_OPTIONAL, "optional parts of a `grammar` in a row; the llama-cpp backend counts them"),
    Limit(bounds.SCHEMA_NODES, "values of the JSON schemas of a request, at any depth"),
    Limit(bounds.SCHEMA_ENUM_VALUES, "values of all `enum` lists of these schemas"),
    Limit(bounds.SCHEMA_NESTING, "lists and objects of a schema inside each other"),
    Limit(bounds.SCHEMA_CHARACTERS, "characters of the names and texts of these schemas"),
    Limit(bounds.PATTERN_CHARACTERS, "characters of a `pattern` of a schema"),
    Limit(bounds.PATTERN_NESTING, "brackets of a `pattern` inside each other"),
    Limit(bounds.LAST_TOKENS, "tokens of `repeat_last_n` and `n_keep`"),
    Limit(bounds.TOP_LOGPROBS, "`top_logprobs`"),
)
FIELDS = (
    *(MESSAGES, PARTS, TOOL_CALLS, TOOLS, LOGIT_BIAS, METADATA, MODALITIES, STOP, PROMPTS, INPUTS, DOCUMENTS),
    *(STAGED_FILES, PROCESS_MEMORY, LABELS, OPERATIONS, PROCESSES),
)


def limits_page() -> str:
    """The text of `docs/reference/limits.md`."""
    lines = [
        "# Limits",
        "",
        "Made by `python -m web.limits --write docs/reference/limits.md`; do not edit.",
        "",
        "The size of a body has the limit `LOCALAI_UPLOAD_LIMIT` ([settings](settings.md)). Its cost lies in what it",
        "holds, and a web process that parses a body serves no other request meanwhile, so that has limits too.",
        "No body of 15 MB, whatever it holds, makes the other requests of its process wait for more than 300 ms at a",
        "time; `make bench` measures it ([bench](bench.md)).",
        "",
        "## Bytes and time of a body",
        "",
        "A body above a limit is refused with 413 `request_too_large`, by its `Content-Length` before any of it is",
        "read; one without a length is read up to the limit. Keys and credentials in headers are checked before.",
        "",
        *_table(BODIES),
        "",
        f"The body of any route arrives within {BODY_S:g} seconds, or at {BODY_BYTES_PER_S:,} bytes",
        "a second or more, else it is refused with 408 `request_timeout`. The head of the first request of a",
        f"connection has {FIRST_HEAD_S:g} seconds; a connection whose head is late is closed.",
        "",
        "## Connections",
        "",
        "A web process has 4,000 places. Connections that showed no accepted key, session or credential may have",
        "three quarters of them, and `LOCALAI_CONNECTIONS_PER_ADDRESS` for one client address (one /64 network with",
        "IPv6; trusted proxies have the bound in total only). A new connection is not refused: above a bound the",
        "oldest one that showed none is closed, of the address that has most of them.",
        "`localai_connections_closed_total` counts these.",
        "",
        "## Structure of a body",
        "",
        "Counted in the bytes of every JSON body before it is parsed, and chunks while it is read. A body above a",
        "limit is refused with 413 `request_too_complex`; the text names the limit. The inside of texts does not",
        "count: one text may fill the whole body.",
        "",
        *_table((*STRUCTURE, CHUNKS)),
        "",
        "## Fields",
        "",
        "The length of a list or object is checked before its items are. Above the limit the request is refused with",
        "400 `invalid_value`, and `param` names the field. The first wrong item ends the check of its list.",
        "",
        *_table(FIELDS),
        "",
        "## Grammars and schemas",
        "",
        "An engine parses and samples for all requests of its process in native code that nothing interrupts, so what",
        "reaches it is bounded: 400 `invalid_value` names the field and the bound. The schemas of a request are that",
        "of its `response_format` and, together, those of its `tools`. Model configs have the same bounds for the same",
        "values, and the built-in backends check each call again.",
        "",
        *_table(ENGINE),
    ]
    return "\n".join(lines) + "\n"


def _table(limits: tuple[Limit, ...]) -> list[str]:
    return ["| at most | of what |", "|---:|---|", *(f"| {limit.most:,} | {limit.what} |" for limit in limits)]


if __name__ == "__main__":
    sys.exit(page_command("web.limits", limits_page))

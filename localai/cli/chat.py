"""`localai chat`: how does a person ask a model something from a terminal?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from localai.cli.chat_stream import Ended, Failed, Piece, read_events
from localai.cli.client import Client, ServerError, connect, refused
from localai.cli.exit_codes import ExitCode
from localai.cli.load_progress import LoadProgress
from localai.cli.options import with_settings
from localai.cli.output import echo, output_option, print_json, write_foreign
from localai.settings import Settings, parse_duration

#: Longest silence of a stream: a big prompt on a slow machine.
_SILENCE_S = 600.0


@click.command()
@click.argument("model")
@click.argument("text", required=False)
@click.option("--system", help="A system message before the text.")
@click.option("--temperature", type=float, help="0 always takes the likeliest word.")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer.")
@click.option("--wait", default="30m", show_default=True, metavar="DURATION", help="How long a load is waited for.")
@output_option
@with_settings("client")
def command(settings: Settings, model: str, text: str | None, wait: str, output: str, **options: Any) -> None:
    """Ask MODEL something and print the answer as it comes.

    TEXT is read from standard input when it is missing. While the model loads, its progress is shown on standard error.
    """
    body = request_body(model, _text(text), stream=output == "table", **options)
    limit_s = _duration(wait)
    client = connect(settings)
    with LoadProgress(client, model) as progress:
        response = _ask(client, body, progress, limit_s)
        if output == "json":
            text_read = client.text_of(response)
            progress.finish()
            print_json(_json(text_read))
            return
        _print_stream(client, response, progress)


def request_body(
    model: str,
    text: str,
    *,
    stream: bool,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """The body of the chat request: what was not asked for is left to the model's config."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": stream}
    if temperature is not None:
        body["temperature"] = temperature
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    return body


def _text(text: str | None) -> str:
    if text is None:
        if sys.stdin.isatty():
            echo("Type the message; Ctrl-D on an empty line sends it.", err=True)
        text = sys.stdin.read()
    if not text.strip():
        raise click.UsageError("the message is empty: give TEXT or write to standard input")
    return text


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} cannot be used; accepted: {error}", param_hint="--wait") from None


def _ask(client: Client, body: Mapping[str, Any], progress: LoadProgress, limit_s: float) -> Any:
    """The first answer that is not "still loading". Raises ServerError."""
    end = time.monotonic() + limit_s
    while True:
        response = client.send("POST", "/v1/chat/completions", json=body, stream=True, timeout=_SILENCE_S)
        if response.is_success:
            return response
        refusal = client.text_of(response)
        pause_s = retry_pause_s(response.status_code, response.headers.get("Retry-After"), _json(refusal))
        if pause_s is None:
            raise refused(response.status_code, refusal)
        if time.monotonic() + pause_s > end:
            raise ServerError(
                f"the model is still loading after {limit_s:.0f} s; `localai jobs list` shows how far it is",
                code=ExitCode.TIMED_OUT,
            )
        progress.wait(pause_s)


def retry_pause_s(status: int, retry_after: str | None, body: Any) -> float | None:
    """How long to wait before asking again; None = asking again would not help a person who waits.

    Only a load that goes on is waited for: a failed one is held, and its cause is what the person wants to read.
    """
    if status != 503 or not isinstance(body, Mapping):
        return None
    error, loading = body.get("error"), body.get("loading")
    code = error.get("code") if isinstance(error, Mapping) else None
    state = loading.get("state") if isinstance(loading, Mapping) else None
    if code != "model_loading" or state == "failed":
        return None
    try:
        return min(300.0, max(1.0, float(retry_after or 5)))
    except ValueError:
        return 5.0


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _print_stream(client: Client, response: Any, progress: LoadProgress) -> None:
    for event in read_events(client.lines_of(response)):
        progress.finish()
        match event:
            case Piece(text):
                write_foreign(text)
            case Failed(message):
                raise ServerError(message)
            case Ended():
                break
    write_foreign("\n")

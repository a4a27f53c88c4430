"""`localai jobs retry`: how is a load tried again that was given up?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError, body_of, connect
from localai.cli.exit_codes import ExitCode
from localai.cli.follow import finish, follow, timeout_option
from localai.cli.options import with_settings
from localai.cli.output import echo, output_option, print_json
from localai.ids import is_uuid
from localai.settings import Settings


@click.command("retry")
@click.argument("job_or_model", metavar="ID|MODEL")
@click.option("--wait", is_flag=True, help="Wait for the end of the new job, and show how far it is.")
@timeout_option
@output_option
@with_settings("client")
def command(settings: Settings, job_or_model: str, wait: bool, timeout: float | None, output: str) -> None:
    """Try a load again, by the ID of its job or by its MODEL.

    Lifts every quarantine of the model first. While the failed load still holds the model, for seconds as a rule, the
    command waits and asks again. Use it when what the load failed of is repaired: a load that fails again is counted
    anew.
    """
    client = connect(settings)
    began = time.monotonic()
    answer = ask(client, path_of(job_or_model), timeout)
    if wait and not answer.get("loaded"):
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
        finish(follow(client, str(answer.get("job_id")), left), output)
    elif output == "json":
        print_json(answer)
    else:
        echo(str(answer.get("message")))
        if not answer.get("loaded"):
            echo(f"job {answer.get('job_id')}")


def path_of(job_or_model: str) -> str:
    """What to ask: no model is named like the id of a job."""
    if is_uuid(job_or_model):
        return f"/api/jobs/{job_or_model}/retry"
    return f"/api/models/{quote(job_or_model, safe='')}/load-retry"


def ask(
    client: Client, path: str, timeout_s: float | None, *, pause: Callable[[float], None] | None = None
) -> Mapping[str, Any]:
    """The answer once no hold lies ahead. Raises ServerError, also when the time does not suffice for the hold."""
    waited = 0.0
    while True:
        response = client.send("POST", path)
        hold_s = hold_s_of(response)
        if hold_s is None:
            answer: Mapping[str, Any] = body_of(response)
            return answer
        if timeout_s is not None and waited + hold_s > timeout_s:
            text = f"the failed load holds the model for {hold_s} s more; its quarantine is lifted"
            raise ServerError(text, code=ExitCode.TIMED_OUT)
        echo(f"the failed load holds the model for {hold_s} s more; waiting", err=True)
        (pause or time.sleep)(hold_s)
        waited += hold_s


def hold_s_of(response: Any) -> int | None:
    """Seconds until the next attempt may begin; None for every other answer."""
    if response.status_code != 503:
        return None
    try:
        body = response.json()
        return int(body["loading"]["retry_after"]) if body["error"]["code"] == "model_load_failed" else None
    except (ValueError, KeyError, TypeError):
        return None

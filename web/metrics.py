"""What is counted of every request, and what a scrape of this frontend gets."""

from __future__ import annotations

from functools import cache, partial

from flask import Blueprint, Flask, Response, g, request

from localai import metrics
from localai.clock import boottime
from web.access import Access, open_to
from web.account import FAILED, LOADING, Account, open_account, outcome_of
from web.services import services

blueprint = Blueprint("metrics", __name__)

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


@blueprint.get("/metrics")
@open_to(Access.ADMIN)
def show() -> Response:
    found = services()
    text = metrics.exposition([*found.counts(), *found.gauges()])
    return Response(text, content_type=metrics.CONTENT_TYPE)


def install(app: Flask) -> None:
    """Count every request of the app. After `web.request_log`, whose clock reading it uses."""

    def begin() -> None:
        g.account = open_account()

    def end(response: Response) -> Response:
        account: Account = g.account
        if account.early:
            account.at_first_token = partial(_begun, account, g.started_at, streamed=True)
        elif account.model and response.status_code < 400:
            _begun(account, g.started_at, streamed=response.is_streamed)
        ending = _Ending(account, response.status_code)
        if response.is_streamed:
            response.call_on_close(ending.count)
        else:
            ending.count()
        return response

    app.before_request(begin)
    app.after_request(end)


def _begun(account: Account, started_at: float, *, streamed: bool) -> None:
    """The answer itself begins."""
    taken = boottime() - started_at
    metrics.ROUTER_OVERHEAD.observe(max(0.0, taken - account.elsewhere_s))
    if streamed:
        metrics.TIME_TO_FIRST_TOKEN.labels(account.model).observe(taken)


# The library looks a child up under a lock, from texts it makes anew; there are as many children as label values.
_api_call = cache(metrics.API_CALL.labels)
_requests = cache(metrics.REQUESTS.labels)


class _Ending:
    """The end of one request, which may come when it is out of its context already."""

    def __init__(self, account: Account, status: int) -> None:
        self._account, self._status, self._started_at = account, status, g.started_at
        rule = request.url_rule
        self._path = "(none)" if rule is None else rule.rule
        self._method = request.method if request.method in _METHODS else "(other)"

    def count(self) -> None:
        account, status = self._account, self._status
        broke = account.outcome in (FAILED, LOADING)
        outcome = "server_error" if broke or status >= 500 else "client_error" if status >= 400 else "ok"
        _api_call(self._method, self._path, outcome).observe(boottime() - self._started_at)
        if account.model:
            _requests(account.model, account.node, account.outcome or outcome_of(status)).inc()

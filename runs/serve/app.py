"""Maps the viewer's addresses to pages, and checks host, token and forms of every request.

The server listens on 127.0.0.1 and refuses other host names, since a foreign page could point its own name here. It
requires the token that the command printed, since other users of the machine can connect as well. The token comes once
in the address and is then kept in a cookie that no other site can use; forms carry it again. Pages load nothing from
elsewhere, and the store is opened for reading only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triton_agent.memory.errors import NotInStore, StoreError
from triton_agent.memory.exchange import jsonl
from triton_agent.memory.exchange.entries import entries
from triton_agent.memory.listing import RunFilter
from triton_agent.memory.store import Store
from triton_agent.runs.bench.page.sortable import ONLY_THIS_SCRIPT
from triton_agent.runs.cli.store_option import load_history, run_id
from triton_agent.runs.report.markup import tag
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView
from triton_agent.runs.serve import folders as records
from triton_agent.runs.serve.actions import Actions
from triton_agent.runs.serve.attempt_page import render_attempt
from triton_agent.runs.serve.compare_page import render_comparison
from triton_agent.runs.serve.folders import Folders
from triton_agent.runs.serve.frame import POLICY, link, page
from triton_agent.runs.serve.run_page import render_run
from triton_agent.runs.serve.runs_page import render_runs
from triton_agent.runs.serve.training_page import render_training, render_trainings
from triton_agent.tools.errors import TritonAgentError, UsageError

HOSTS = ("127.0.0.1", "localhost")
COOKIE = "triton-agent-view"
"""Name of the cookie, to which the port is added: browsers share cookies between the ports of a host."""
BODY_AT_MOST = 16_384
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Render = Callable[[Request], str]


def make_app(store: Store, folders: Folders, actions: Actions, token: str) -> Starlette:
    """Return the application with its pages."""
    write = actions.write

    def run(request: Request) -> str:
        (summary,) = store.runs(RunFilter(id=run_id(store, request.query_params.get("id", "last")), limit=1))
        return render_run(store, request.query_params, actions.of_run(summary), jobs=write)

    def attempt(request: Request) -> str:
        return render_attempt(store, request.query_params, actions.of_attempt, jobs=write)

    def report(request: Request) -> Response:
        history = load_history(store, request.query_params.get("id", ""))
        text = render_report(RunView(history=history))
        return HTMLResponse(text, headers=_as_file(f"{history.run.id}.html"))

    def export(request: Request) -> Response:
        found = store.run(request.query_params.get("id", ""))
        folder = tempfile.TemporaryDirectory(prefix="triton-agent-export-")
        path = Path(folder.name) / "run.jsonl.gz"
        jsonl.write_entries(entries(store, [found]), path)
        after = BackgroundTask(folder.cleanup)
        return FileResponse(path, headers=_as_file(f"{found.id}.jsonl.gz"), background=after)

    async def act(request: Request) -> Response:
        given = await _form(request)
        if not write or not hmac.compare_digest(given.get("token", "").encode(), token.encode()):
            return PlainTextResponse("this server does not write, or the form is not its own", 403)
        name = request.path_params["name"]
        begin = actions.cancel if name == "cancel" else None
        try:
            job = begin(given.get("id", "")) if begin else await run_in_threadpool(actions.start, name, given)
        except TritonAgentError as error:
            return HTMLResponse(_error_page(str(error), jobs=write), 400)
        return RedirectResponse(link("/job", id=job.id), 303)

    def pages(path: str, render: Render, policy: str = POLICY) -> Route:
        def endpoint(request: Request) -> Response:
            return _answer(request, render, policy, jobs=write)

        return Route(path, endpoint)

    routes = [
        pages("/", lambda request: render_runs(store, request.query_params, jobs=write)),
        pages("/run", run),
        pages("/attempt", attempt),
        pages("/compare", lambda request: render_comparison(store, request.query_params, jobs=write)),
        pages("/bench", lambda request: records.render_benchmarks(folders, jobs=write)),
        pages(
            "/bench/record",
            lambda request: records.render_record(folders, request.query_params, jobs=write),
            ONLY_THIS_SCRIPT,
        ),
        pages(
            "/bench/compare",
            lambda request: records.render_two_records(folders, request.query_params, jobs=write),
            ONLY_THIS_SCRIPT,
        ),
        pages("/training", lambda request: render_trainings(folders, jobs=write)),
        pages("/training/run", lambda request: render_training(folders, request.query_params, jobs=write)),
        Route("/report", _guarded(report)),
        Route("/export", _guarded(export)),
    ]
    if write:
        routes += [
            pages("/jobs", lambda request: actions.render_jobs()),
            pages("/job", lambda request: actions.render_job(request.query_params.get("id", ""))),
            Route("/act/{name}", act, methods=["POST"]),
        ]
    guards = [
        Middleware(_WithHeaders),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
        Middleware(_WithToken, token=token),
    ]
    return Starlette(routes=routes, middleware=guards)


def _answer(request: Request, render: Render, policy: str, *, jobs: bool) -> Response:
    """Render a page; an unchanged page is not sent again, and an anticipated error becomes a page."""
    try:
        text, status = render(request), 200
    except (NotInStore, UsageError) as error:
        text, status = _error_page(str(error), jobs=jobs), 404
    except StoreError as error:
        text, status = _error_page(f"the store: {error}", jobs=jobs), 503
    except Exception:  # a bug of ours: say so on the page, and keep serving
        text, status = _error_page(f"a bug in triton-agent:\n{traceback.format_exc()}", jobs=jobs), 500
    body = text.encode("utf-8", "backslashreplace")
    mark = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": mark, "Content-Security-Policy": policy if status == 200 else POLICY}
    if status == 200 and request.headers.get("If-None-Match") == mark:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(body, status, headers=headers)


def _error_page(words: str, *, jobs: bool) -> str:
    parts = [tag("p", words, class_="said"), tag("p", tag("a", "All runs", href="/"))]
    return page("This cannot be shown", "", [("error", "Why", parts)], jobs=jobs)


def _guarded(endpoint: Callable[[Request], Response]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            return endpoint(request)
        except TritonAgentError as error:
            return HTMLResponse(_error_page(str(error), jobs=False), 404)

    return answer


def _as_file(name: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return {"Content-Disposition": f'attachment; filename="{plain}"'}


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form; a long one is refused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_AT_MOST:
            return {}
    with contextlib.suppress(ValueError):
        return {name: values[0] for name, values in parse_qs(body.decode("ascii"), max_num_fields=20).items()}
    return {}


class _WithHeaders:
    """Adds `HEADERS` to every answer, and a Content-Security-Policy if the answer has none of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Content-Security-Policy", POLICY)
            await send(message)

        await self._app(scope, receive, sending)


class _WithToken:
    """Serves only requests with the token: in the address, from which it is then removed, or in the cookie."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Callable[[Scope, Receive, Send], Awaitable[Any]] = self._app
        if scope["type"] == "http":
            request, cookie = Request(scope), f"{COOKIE}-{(scope.get('server') or ('', 0))[1]}"
            if hmac.compare_digest(request.query_params.get("token", "").encode(), self._token):
                rest = urlencode([(key, value) for key, value in request.query_params.multi_items() if key != "token"])
                entered = RedirectResponse(scope["path"] + ("?" + rest if rest else ""), 303)
                entered.set_cookie(cookie, self._token.decode(), httponly=True, samesite="strict")
                answer = entered
            elif not hmac.compare_digest(request.cookies.get(cookie, "").encode(), self._token):
                answer = PlainTextResponse("open the address that `triton-agent view` printed: it has a token", 403)
        await answer(scope, receive, send)

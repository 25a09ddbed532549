"""The routes: the API, its description, and the page."""

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import dprounds
from dprounds.errors import ParameterError
from dprounds.plots.style import LAYERS, METHOD_STYLES, LineStyle
from dprounds.questions.vocabulary import (
    BRACKETED_SAMPLINGS,
    FIELDS,
    GROUPED_SAMPLINGS,
    MECHANISMS,
    METHODS,
    QUESTIONS,
    RELATIONS_OF_SAMPLINGS,
    RUN_QUESTIONS,
    SAMPLINGS,
    WORDS,
    Question,
)
from dprounds.questions.wording import ASSUMPTIONS, RELATIONS_IN_WORDS, SAMPLINGS_IN_WORDS
from dprounds.web.description import operation, responses
from dprounds.web.guard import POLICY_OF_DOCUMENTATION, Guard
from dprounds.web.pool import BusyError, CrashedError, GoneError, Pool, TooLongError
from dprounds.web.reading import given_in_body, given_in_query
from dprounds.web.worker import encoded

if TYPE_CHECKING:
    from dprounds.web.budgets.endpoints import Budgets

__all__ = ["LARGEST_BODY_BYTES", "create_app"]

logger = logging.getLogger("uvicorn.error")

# A question is a dozen numbers; the longest table of Rényi bounds has 512.
LARGEST_BODY_BYTES = 65_536
BODY_SECONDS = 10.0
# Answers are a few kilobytes each: this keeps some thousand of them.
CACHE_BYTES = 16 * 2**20
MOST_WAITING_QUESTIONS = 64
# Scripts are served with their own type whatever the machine's tables say: browsers do not run modules of another.
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
# Where ``make docs`` puts the documentation in a checkout.
BUILT_DOCUMENTATION = Path(dprounds.__file__).parents[2] / "docs" / "_build" / "html"


@dataclass(frozen=True)
class _File:
    """A file of the page."""

    content: bytes
    type: str
    tag: str
    policy: str | None = None

    @classmethod
    def of(cls, name: str, content: bytes, *, policy: str | None = None) -> _File:
        """The file of this name and content."""
        suffix = f".{name.rpartition('.')[2]}"
        kind = TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
        return cls(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"', policy)


def create_app(
    *,
    workers: int = 3,
    seconds: float = 10.0,
    waiting: int = MOST_WAITING_QUESTIONS,
    hosts: Iterable[str] = (),
    documentation: Path = BUILT_DOCUMENTATION,
    ledger: str | None = None,
) -> ASGIApp:
    """The application, to be served by an ASGI server.

    Parameters
    ----------
    workers
        How many processes compute.
    seconds
        How long one computation may take.
    waiting
        How many questions may wait for a worker; more are refused.
    hosts
        Names that the server goes by, in addition to localhost and its numbers.
    documentation
        A folder of HTML to serve at ``/docs/``, if there is one.
    ledger
        The URL of a ledger, to be asked over HTTP by those who have a token; by default there is none.
    """
    pool = Pool(workers=workers, seconds=seconds, waiting=waiting, cache_bytes=CACHE_BYTES)
    budgets = None if ledger is None else _budgets(ledger, pool)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await pool.open()
        if budgets is not None:
            budgets.open()
        try:
            yield
        finally:
            if budgets is not None:
                await asyncio.get_running_loop().run_in_executor(None, budgets.close)
            await pool.close()

    app = FastAPI(
        title="dprounds",
        summary="How many rounds may I train under this privacy budget?",
        version=version("dprounds"),
        openapi_url="/openapi.json",
        docs_url=None,  # it would fetch its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, ParameterError: _unreadable, Exception: _unforeseen},
    )
    for question in QUESTIONS.values():
        for method in ("GET", "POST"):
            app.add_api_route(
                f"/api/{question.name}",
                _endpoint(pool, question, method),
                methods=[method],
                openapi_extra=operation(question, method),
                responses=responses(question.name),
                response_class=Response,
            )
    if budgets is not None:
        budgets.add_to(app)
    documents = _documents(documentation)
    page = _page(has_documentation="/docs/index.html" in documents, has_budgets=budgets is not None)
    for path, file in (page | documents).items():
        app.add_api_route(path, _static(file), methods=["GET", "HEAD"], include_in_schema=False)
    return Guard(app, hosts=hosts)


def _endpoint(pool: Pool, question: Question, method: str) -> Callable[[Request], Awaitable[Response]]:
    """What answers a question."""

    async def ask(request: Request) -> Response:
        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        try:
            if method == "POST":
                given = given_in_body(question.name, await _body(request))
            else:
                given = given_in_query(question.name, request.scope["query_string"])
            # by one method a question is soon answered; by all, or at many points, nothing is
            quick = "method" in given and not question.is_curve
            parts = METHODS if question.name in RUN_QUESTIONS and "method" not in given else ()
            reply = await pool.ask(question.name, given, gone, quick=quick, parts=parts)
        except TooLongError:
            # not 503: to ask the same again would take as long
            advice = " Ask by one method." if parts else ""
            raise HTTPException(
                422, f"This takes longer than {pool.seconds:g} s to compute, and was stopped.{advice}"
            ) from None
        except BusyError:
            raise HTTPException(
                503, "Too many questions at once. Ask again in a moment.", {"retry-after": "1"}
            ) from None
        except CrashedError:
            logger.warning("A worker ended while it answered %s of %.500r.", question.name, given)
            raise HTTPException(500, UNFORESEEN) from None
        except GoneError:
            return Response(status_code=499)  # the client is gone
        return Response(reply.content, reply.status, media_type="application/json")

    return ask


def _budgets(url: str, pool: Pool) -> Budgets:
    from dprounds.web.budgets.endpoints import Budgets  # noqa: PLC0415  (needs the extra `ledger`, as nothing else here)

    return Budgets(url, pool, _body)


async def _body(request: Request, most: int = LARGEST_BODY_BYTES) -> bytes:
    """The body, if it is declared as JSON, small, and there in time."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be JSON, with content-type application/json.", CLOSE)
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise HTTPException(413, f"The body must have at most {most} bytes.", CLOSE)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise HTTPException(413, f"The body must have at most {most} bytes.", CLOSE)
    except ClientDisconnect:
        raise GoneError from None
    except TimeoutError:
        raise HTTPException(408, f"The body must arrive within {BODY_SECONDS:g} s.", CLOSE) from None
    return bytes(body)


# What is left unread of a body would be taken for the next request.
CLOSE = {"connection": "close"}
UNFORESEEN = "Something went wrong here, and nothing was answered. The server's log says more."
PHRASES = {404: "There is nothing at this address.", 405: "This address does not take that method."}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    content = encoded({"error": PHRASES.get(error.status_code, error.detail)})
    headers = dict(error.headers or {})
    if error.status_code == 405 and request.url.path.removeprefix("/api/") in QUESTIONS:
        headers["Allow"] = "GET, POST"  # of all routes at this address, not of the first alone
    return Response(content, error.status_code, headers=headers, media_type="application/json")


async def _unreadable(_: Request, error: Exception) -> Response:
    return Response(encoded({"error": str(error)}), 422, media_type="application/json")


async def _unforeseen(_: Request, error: Exception) -> Response:
    """A neutral sentence; the server logs the error itself."""
    del error
    return Response(encoded({"error": UNFORESEEN}), 500, media_type="application/json")


def _page(*, has_documentation: bool, has_budgets: bool) -> dict[str, _File]:
    """The files of the page by their address, read once: no path of a request ever reaches the disk."""
    found = {}
    for file in files("dprounds.web").joinpath("static").iterdir():
        content = file.read_bytes()
        if file.name == "index.html":
            content = _filled(content.decode(), has_documentation=has_documentation, has_budgets=has_budgets).encode()
        found[f"/static/{file.name}"] = _File.of(file.name, content)
    found["/static/methods.css"] = _File.of("methods.css", _looks().encode())
    found["/static/vocabulary.js"] = _File.of("vocabulary.js", _vocabulary().encode())
    found["/"] = found.pop("/static/index.html")
    del found["/static/budgets.html"]  # a part of the page
    if not has_budgets:
        del found["/static/budgets.js"]
    return found


def _filled(page: str, *, has_documentation: bool, has_budgets: bool) -> str:
    """The page with the library's own words in it, which are those of the command line too."""
    methods = "".join(
        f'<div data-method="{method}" data-layer="{LAYERS.index(method)}">'
        f"<dt>{method}</dt><dd>{html.escape(words)}</dd></div>"
        for method, words in METHODS.items()
    )
    tabs = "".join(
        f'<label><input type="radio" name="question" value="{name}"{"" if number else " checked"}>'
        f"<span>{html.escape(QUESTIONS[name].tab)}</span></label>"
        for number, name in enumerate(RUN_QUESTIONS)
    )
    link = '<a href="/docs/index.html">Documentation</a>'
    view = files("dprounds.web").joinpath("static", "budgets.html").read_text(encoding="utf-8")
    parts = {
        "budgets": view if has_budgets else "",
        "script of budgets": '<script type="module" src="/static/budgets.js"></script>' if has_budgets else "",
        "documentation": link.replace("<a ", '<a id="to-documentation" ') if has_documentation else "",
        "questions": tabs,
        "assumptions": html.escape(ASSUMPTIONS),
        "methods": methods,
        "more": f"{link}: tutorial, theory with proofs, pitfalls."
        if has_documentation
        else "More: the folder <code>docs</code> of the source. After <code>make docs</code> this page links to it.",
    }
    for name, part in parts.items():
        page = page.replace(f"<!-- {name} -->", part)
    return page


def _vocabulary() -> str:
    """The words, mechanisms, questions and methods that the page offers, as a module of JavaScript."""

    def listless(question: str) -> list[str]:
        return [name for name in QUESTIONS[question].mechanisms if not MECHANISMS[name].is_made_of_lists]

    shown = {
        "NUMBERS": {
            name: asdict(field)
            | {"start": f"{field.start:g}".replace("e-0", "e-"), "whole": WORDS[name].kind == "count"}
            for name, field in FIELDS.items()
        },
        "MECHANISMS": {name: asdict(MECHANISMS[name]) for name in listless("rounds")},
        "QUESTIONS": {name: asdict(QUESTIONS[name]) | {"mechanisms": listless(name)} for name in RUN_QUESTIONS},
        "METHODS": list(METHODS),
        "LOADERS": {
            name: {
                "title": SAMPLINGS_IN_WORDS.get(name, "no sampling"),
                "meaning": meaning,
                "relations": RELATIONS_OF_SAMPLINGS[name],
                "is_exact": name not in BRACKETED_SAMPLINGS,
                "has_groups": name in GROUPED_SAMPLINGS,
            }
            for name, meaning in SAMPLINGS.items()
        },
        "RELATIONS": RELATIONS_IN_WORDS,
    }
    return "".join(f"export const {name} = {encoded(value).decode()};\n" for name, value in shown.items())


def _looks() -> str:
    """The look of each method's line, as pictures have it everywhere."""

    def look(style: LineStyle) -> str:
        # Matplotlib counts dashes in widths of the line
        dashes = "none" if isinstance(style.dashes, str) else " ".join(f"{x * style.width:g}" for x in style.dashes[1])
        return f"stroke:{style.color};stroke-width:{style.width:g};stroke-dasharray:{dashes}"

    lines = [f".curve.{method}{{{look(style)}}}\n" for method, style in METHOD_STYLES.items()]
    return "".join([*lines, f".reach{{fill:{METHOD_STYLES['exact'].color}}}\n"])


def _documents(folder: Path) -> dict[str, _File]:
    """The files of the documentation by their address, if it was built; read once, as those of the page."""
    found = {}
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = file.relative_to(folder).as_posix()
        if file.is_file() and not any(part.startswith(".") for part in name.split("/")):
            found[f"/docs/{name}"] = _File.of(file.name, file.read_bytes(), policy=POLICY_OF_DOCUMENTATION)
    return found


def _static(file: _File) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        headers = {"etag": file.tag, "cache-control": "no-cache"}
        if file.policy is not None:
            headers["content-security-policy"] = file.policy
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.type)

    return serve

"""The way of a request to a ledger: admitted, read, and answered in a thread, so that nothing else waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from dprounds.errors import BudgetExceededError, JobStateError, LedgerError, PrivacyError
from dprounds.ledger import Ledger
from dprounds.web.budgets.access import Access, RefusedError
from dprounds.web.budgets.description import SECURITY, operation, responses
from dprounds.web.budgets.prices import InWorkers
from dprounds.web.budgets.routes import ROUTES, Asked, File, Route, given_words
from dprounds.web.pool import BusyError, CrashedError, GoneError, Pool
from dprounds.web.reading import json_object, words_in_query
from dprounds.web.worker import encoded

__all__ = ["LARGEST_BODY_BYTES", "Budgets"]

logger = logging.getLogger("uvicorn.error")

# A job may name thousands of blocks.
LARGEST_BODY_BYTES = 2**20
# How long a writer waits for another one.
WAIT_SECONDS = 10.0
# Threads that wait for the database or for a worker, no more than it has connections; and requests that wait for one.
THREADS = 8
MOST_WAITING = 64
# What is left unread of a body would be taken for the next request.
CLOSE = {"connection": "close"}
BUSY = "The ledger is busy. Ask again in a moment: the same request with the same key is charged once."
NO_DATABASE = "The ledger cannot be read or written now. The server's log says more."
UNFORESEEN = "Something went wrong here. The server's log says more. Ask again: the same key is charged once."

Answer = TypeVar("Answer")
Body = Callable[[Request, int], Awaitable[bytes]]


class Budgets:
    """The routes of one ledger.

    Parameters
    ----------
    url
        The ledger.
    pool
        Whose workers compute costs.
    body
        Reads the body of a request, up to a number of bytes.
    """

    def __init__(self, url: str, pool: Pool, body: Body) -> None:
        self.prices, self.body = InWorkers(pool), body
        self.ledger = Ledger(url, timeout=WAIT_SECONDS, pricing=self.prices)
        self.access = Access(self.ledger)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ledger")
        self._under_way = 0

    def open(self) -> None:
        """Begin, in the loop that serves."""
        self.prices.loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End the threads and the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.ledger.close()

    def add_to(self, app: FastAPI) -> None:
        """Add the routes and their description to an application."""
        for route in ROUTES:
            app.add_api_route(
                route.path,
                self.endpoint(route),
                methods=[route.method],
                openapi_extra=operation(route),
                responses=responses(route),
                response_class=Response,
            )
        without = app.openapi

        def described() -> dict[str, Any]:
            found = without()
            found.setdefault("components", {})["securitySchemes"] = SECURITY
            return found

        app.openapi = described  # type: ignore[method-assign]  # as FastAPI's own documentation extends it

    def endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        """What answers a route."""

        async def serve(request: Request) -> Response:
            try:
                return await self._answered(request, route)
            except RefusedError as refused:
                return _refusal(refused.status, refused.sentence, refused.headers | CLOSE)
            except GoneError:
                return Response(status_code=499)  # the client is gone

        return serve

    async def _answered(self, request: Request, route: Route) -> Response:
        if refused := self.access.refused_at_once(request):
            raise refused
        token = await self._in_thread(lambda: self.access.admitted(request, route.scope, whole=route.whole))
        try:
            if route.method == "POST":
                given = json_object(await self.body(request, LARGEST_BODY_BYTES))
            else:
                given = words_in_query(request.scope["query_string"], numbers=("after", "limit"))
            asked = Asked(self.ledger, token, given_words(route, given))
            answer = await self._in_thread(lambda: self._worked(request, route, asked))
        except HTTPException as error:  # of the body
            raise RefusedError(error.status_code, error.detail, headers=dict(error.headers or {})) from None
        except PrivacyError as error:
            raise RefusedError(422, str(error)) from None
        if isinstance(answer, File):
            headers = {"content-disposition": f'attachment; filename="{answer.name}"'}
            return StreamingResponse(answer.pieces, media_type=answer.media_type, headers=headers)
        return Response(encoded(answer), media_type="application/json")

    def _worked(self, request: Request, route: Route, asked: Asked) -> dict[str, object] | File:
        """The answer of a route; what is refused by who asks, or by the budget, is written down."""
        try:
            return route.work(asked)
        except RefusedError as refused:
            if refused.reason:
                self.access.record(request, asked.token, refused)
            raise
        except BudgetExceededError as error:
            over = RefusedError(409, str(error), reason=f"over budget: {error}")
            self.access.record(request, asked.token, over)
            raise over from None
        except JobStateError as error:
            raise RefusedError(409, str(error)) from None
        except LedgerError as error:
            logger.warning("%s %s: %s", route.method, route.path, error)
            raise RefusedError(503, NO_DATABASE, headers={"retry-after": "1"}) from None
        except BusyError:
            raise RefusedError(503, BUSY, headers={"retry-after": "1"}) from None
        except CrashedError:
            logger.warning("A worker ended while it computed a cost.")
            raise RefusedError(500, UNFORESEEN) from None

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        """What `work` returns, in a thread: the event loop goes on meanwhile."""
        if self._under_way >= THREADS + MOST_WAITING:
            raise RefusedError(503, BUSY, headers={"retry-after": "1"})
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except LedgerError as error:  # of the door; what the work itself meets is said where it is met
            logger.warning("%s", error)
            raise RefusedError(503, NO_DATABASE, headers={"retry-after": "1"}) from None
        finally:
            self._under_way -= 1


def _refusal(status: int, sentence: str, headers: dict[str, str]) -> Response:
    return Response(encoded({"error": sentence}), status, headers=headers, media_type="application/json")

"""``dprounds serve``: the planner in the browser."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    *,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen at; the default only this machine reaches."),
    ] = ("127.0.0.1"),
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="NUMBER", help="Port, 0 for any that is free; by default 8765 or one of the next."
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    workers: Annotated[int, typer.Option("--workers", metavar="NUMBER", help="Processes that compute.")] = 3,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="NUMBER", help="How long one computation may take.")
    ] = 10.0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name that the server goes by, such as that of a proxy; may be repeated.",
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="URL",
            help="A ledger that those with a token may ask over HTTP, and see on the page; none by default.",
        ),
    ] = None,
) -> None:
    """Open the planner as a page on this machine: move the budget, see the rounds.

    Example: dprounds serve --open
    """
    from dprounds.errors import UnsupportedError

    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"The page needs {' and '.join(missing)}. In a checkout of dprounds: pip install '.[web]'"
        )
    from dprounds.web.server import serve as serve_page

    serve_page(
        host=host,
        port=port,
        open_browser=open_browser,
        workers=workers,
        seconds=seconds,
        hosts=allow_host or (),
        ledger=ledger,
    )

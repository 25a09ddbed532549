"""What every request must pass, and every response must carry."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dprounds.web.worker import encoded

__all__ = ["POLICY_OF_DOCUMENTATION", "Guard", "refuse"]

# The page may load its own scripts, styles and pictures and ask its own server; nothing else, and nobody frames it.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# The documentation has small scripts and styles in its pages, as Sphinx writes them; nothing in it is from requests.
POLICY_OF_DOCUMENTATION = (
    POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-inline'")
    .replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace("form-action 'none'", "form-action 'self'")  # its search
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# An address of the page holds a dozen words; 8 kB is the usual limit of servers.
LONGEST_ADDRESS = 8192
# Requests at once, each of which may hold a body of 64 kB.
MOST_REQUESTS_AT_ONCE = 256


class Guard:
    """An application behind checks of host, address and origin, and with security headers on whatever it says.

    Parameters
    ----------
    app
        What is guarded.
    hosts
        Names by which the server may be called, in addition to ``localhost`` and any numeric address. A page of another
        site can reach a server on this machine by a name that resolves to it (DNS rebinding), but not by a number.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(["localhost", *(host.lower() for host in hosts)])
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        if not _is_known(headers.get("host", ""), self.hosts):
            await refuse(send_guarded, 421, "This server does not go by that name.")
        elif len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            await refuse(send_guarded, 414, f"The address must have at most {LONGEST_ADDRESS} characters.")
        elif _is_foreign(headers):
            await refuse(send_guarded, 403, "Pages of other sites may not ask here.")
        elif self.under_way >= MOST_REQUESTS_AT_ONCE:
            await refuse(send_guarded, 503, "Too many questions at once. Ask again in a moment.")
        else:
            self.under_way += 1
            try:
                await self.app(scope, receive, send_guarded)
            finally:
                self.under_way -= 1


async def refuse(send: Send, status: int, sentence: str) -> None:
    """Send a refusal."""
    content = encoded({"error": sentence})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    # what else the client is about to send would be read as the next request
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": content})


def _is_known(host: str, names: Collection[str]) -> bool:
    """Whether a Host header names this server, or gives an address by number."""
    name, _, port = host.lower().rpartition(":")
    if not port.isdecimal() or (host.startswith("[") and not name.endswith("]")):
        name = host.lower()  # without a port
    if name in names:
        return True
    try:
        if name.startswith("[") and name.endswith("]"):
            ipaddress.IPv6Address(name[1:-1])
        else:
            ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _is_foreign(headers: Headers) -> bool:
    """Whether a page of another site asks; a person who follows a link is welcome."""
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate"

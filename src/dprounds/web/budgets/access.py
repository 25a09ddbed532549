"""Who may ask a ledger over HTTP: tokens, scopes, limits, and who was turned away."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from dprounds.errors import LedgerError
from dprounds.ledger import Ledger, Token

__all__ = ["Access", "Buckets", "RefusedError"]

logger = logging.getLogger("uvicorn.error")

# --- Limits. A token is kept safe by its 256 random bits, and not by these: they keep the database from being flooded.

# What a token may ask: this many at once, and then this many a second.
TOKEN_BURST, TOKEN_PER_SECOND = 200, 20.0
# How many failed tokens of one address are looked up, and how soon another is.
FAILED_BURST, FAILED_PER_SECOND = 10, 1 / 6
# How many refusals of one token, or of all requests without one, are written down; others are counted.
RECORDED_BURST, RECORDED_PER_SECOND = 200, 0.2
# Addresses and tokens that are remembered; those not seen for the longest are forgotten.
MOST_REMEMBERED = 4096


class RefusedError(Exception):
    """A request that is turned away, with the status and the sentence that say so.

    `reason` is what is written down about it, if anything is.
    """

    def __init__(self, status: int, sentence: str, *, reason: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.reason, self.headers = status, sentence, reason, headers or {}


class Buckets:
    """How much each name may still do: a bucket that is full at first, and fills again with time."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.burst, self.per_second, self.clock = burst, per_second, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is in it, and when that was so
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """Seconds until it may do something; 0 if it may now."""
        with self._lock:
            level, at = self._levels.get(name, (self.burst, self.clock()))
            return max((1.0 - self._filled(level, at)) / self.per_second, 0.0)

    def take(self, name: str) -> bool:
        """Let it do one thing, if it may."""
        with self._lock:
            level, at = self._levels.pop(name, (self.burst, self.clock()))
            level = self._filled(level, at)
            may = level >= 1.0
            self._levels[name] = (level - may, self.clock())
            if len(self._levels) > MOST_REMEMBERED:
                self._levels.popitem(last=False)
            return may

    def _filled(self, level: float, at: float) -> float:
        return min(level + (self.clock() - at) * self.per_second, self.burst)


class Access:
    """The door of a ledger: lets a token in, or says why not, and writes that down.

    Called from threads that may block, one request each.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._requests = Buckets(TOKEN_BURST, TOKEN_PER_SECOND)
        self._failed = Buckets(FAILED_BURST, FAILED_PER_SECOND)
        self._recorded = Buckets(RECORDED_BURST, RECORDED_PER_SECOND)
        self._unrecorded: Counter[str] = Counter()
        self._seen: OrderedDict[bytes, None] = OrderedDict()  # hashes of tokens that were right before

    def refused_at_once(self, request: Request) -> RefusedError | None:
        """Why a request is turned away before the ledger is asked: too many failures at its address.

        A token that was right before is not held up by the failures of others at the same address, which may be that of
        a proxy.
        """
        text = bearer(request)
        if text is not None and _digest(text) in self._seen:
            return None
        seconds = self._failed.wait(address_of(request))
        return _too_many(seconds, "Too many requests without a valid token.") if seconds else None

    def admitted(self, request: Request, scope: str, *, whole: bool) -> Token:
        """The token of a request, which may ask for this; `whole` if only a token for all budgets may."""
        text = bearer(request)
        token = None if text is None else self.ledger.tokens.find(text)
        if text is None or token is None or token.trouble:
            self._failed.take(address_of(request))
            reason = "no token" if text is None else "unknown token" if token is None else f"{token.trouble} token"
            sentence = (
                "This needs a token, in the header Authorization: Bearer TOKEN."
                if text is None
                else "This token is not valid: it is unknown, expired or revoked."
            )
            refused = RefusedError(401, sentence, reason=reason, headers={"www-authenticate": "Bearer"})
            self.record(request, token, refused)
            raise refused
        self._remember(text)
        if not self._requests.take(token.name):
            refused = _too_many(self._requests.wait(token.name), "Too many requests with this token.")
        elif not token.allows(scope):
            refused = RefusedError(403, f"This needs a token with scope {scope}.", reason=f"scope {scope} is needed")
        elif whole and token.budget is not None:
            refused = RefusedError(403, "This needs a token for all budgets.", reason="a token for all is needed")
        else:
            return token
        self.record(request, token, refused)
        raise refused

    def record(self, request: Request, token: Token | None, refused: RefusedError) -> None:
        """Write down that a request was turned away; after many of one kind, only how many there were."""
        who = "" if token is None else token.name
        if not self._recorded.take(who):
            self._unrecorded[who] += 1
            return
        missing = self._unrecorded.pop(who, 0)
        more = f" ({missing:,} others before it were not written down)" if missing else ""
        route = f"{request.method} {request.url.path}"
        try:
            self.ledger.refusals.record(
                token=who, address=address_of(request), route=route, reason=f"{refused.reason}{more}"
            )
        except LedgerError as error:  # it is refused all the same
            logger.warning("A refusal could not be written down: %s", error)

    def _remember(self, text: str) -> None:
        self._seen[_digest(text)] = None
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)


def bearer(request: Request) -> str | None:
    """The token in a request's header; None if there is none, or more than one."""
    given = request.headers.getlist("authorization")
    if len(given) != 1:
        return None
    scheme, _, text = given[0].partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def address_of(request: Request) -> str:
    """Where a request comes from; of IPv6, the network of which one household has all addresses."""
    host = request.client.host if request.client else ""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return host


def _too_many(seconds: float, sentence: str) -> RefusedError:
    whole = max(math.ceil(seconds), 1)
    return RefusedError(
        429, f"{sentence} Ask again in {whole} s.", reason="too many requests", headers={"retry-after": str(whole)}
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="backslashreplace")).digest()

"""What can be asked of a ledger over HTTP, in which words, and what answers it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dprounds import questions
from dprounds._validate import Interval, choice, count, real, show
from dprounds.accountant import Accountant
from dprounds.errors import JobStateError, LedgerError, ParameterError
from dprounds.ledger import Ledger, Token
from dprounds.ledger.arguments import word
from dprounds.ledger.export import FORMATS, exported, flat
from dprounds.mechanisms import Run
from dprounds.questions import Setting
from dprounds.questions.vocabulary import SETTING
from dprounds.web.asked import value_of
from dprounds.web.budgets.access import RefusedError

__all__ = ["MOST_ENTRIES", "ROUTES", "Asked", "File", "Route", "given_words"]

# Entries and refusals of one answer; a longer history comes in parts, or whole as a file.
MOST_ENTRIES = 1000
DEFAULT_ENTRIES = 100
MOST_POINTS = 400
MOST_ROUNDS = 2**53  # whole numbers in JSON are exact up to here
SHARE = Interval.parse("[0, 1)")
STEP_WORDS = tuple(name for name in SETTING if name not in ("rounds", "epochs"))
MEDIA_TYPES = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True)
class File:
    """A file to be sent piece by piece."""

    name: str
    media_type: str
    pieces: Iterator[bytes]


@dataclass(frozen=True)
class Asked:
    """A request that was let in: the ledger, who asks, and the words that were given."""

    ledger: Ledger
    token: Token
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The budget that is named, if the token may know of it.

        What it may not know of and what is not there are refused in the same words, and as soon.
        """
        name = word("name", self.given.get("name"))
        hidden = RefusedError(404, "There is no such budget for this token.", reason=f"no budget {show(name)} for it")
        if not self.token.is_for(name):
            raise hidden
        try:
            self.ledger.budget(name)
        except ParameterError:
            raise hidden from None
        return name

    @property
    def run(self) -> Run:
        """The job that is described, by a run or by the words of a setting."""
        return questions.run_of(self.setting, self.given_run)

    @property
    def setting(self) -> Setting:
        """The setting among the words."""
        typed: dict[str, Any] = {name: value_of(name, self.given[name]) for name in SETTING if name in self.given}
        return Setting(**typed)

    @property
    def given_run(self) -> Run | None:
        """The run among the words, as `Accountant.to_json` writes it."""
        if "run" not in self.given:
            return None
        if not isinstance(self.given["run"], dict):
            raise ParameterError("{argument} must be a JSON object, as an accountant's file holds it.", argument="run")
        return Accountant.from_json(json.dumps(self.given["run"])).run

    @property
    def blocks(self) -> Sequence[str] | None:
        """The blocks that a job reads."""
        blocks = self.given.get("blocks")
        if blocks is not None and not isinstance(blocks, list):
            raise ParameterError(
                "{argument} must be a list of names, got {value}.", argument="blocks", value=show(blocks)
            )
        return blocks

    @property
    def reveal(self) -> float | None:
        """What a job may reveal of delta."""
        return real("reveal", self.given["reveal"], SHARE) if "reveal" in self.given else None

    def count(self, name: str, default: int, most: int) -> int:
        """A count among the words."""
        return count(name, self.given.get(name, default), most=most)


@dataclass(frozen=True, kw_only=True)
class Route:
    """One thing that can be asked.

    Parameters
    ----------
    name
        Its address is ``/api/ledger/`` and this.
    method
        ``"GET"``, with words in the address, for what changes nothing; ``"POST"``, with words in a JSON object.
    scope
        What the token must be allowed to do.
    title
        What it answers.
    words, needs
        The words that it takes, and those among them that it cannot do without.
    work
        What answers it, in a thread that may block.
    whole
        Whether only a token for all budgets may ask.
    """

    name: str
    method: str
    scope: str
    title: str
    work: Callable[[Asked], dict[str, Any] | File]
    words: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    whole: bool = False

    @property
    def path(self) -> str:
        """Its address."""
        return f"/api/ledger/{self.name}"


def given_words(route: Route, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The words of a request, if all of them are known and none is missing."""
    for name in given:
        if name not in route.words:
            known = f"The words are {', '.join(route.words)}." if route.words else "It takes no words."
            raise ParameterError(f"{show(name)} is not known here. {known}".replace("{", "(").replace("}", ")"))
    for name in route.needs:
        if name not in given:
            raise ParameterError("{argument} must be given.", argument=name)
    return given


def _token(asked: Asked) -> dict[str, Any]:
    token = asked.token
    return {"name": token.name, "budget": token.budget, "scope": token.scope, "expires_at": token.expires_at}


def _status(asked: Asked) -> dict[str, Any]:
    if "name" in asked.given:
        return {"budgets": [asdict(asked.ledger.status(asked.name, block=asked.given.get("block")))]}
    if "block" in asked.given:
        raise ParameterError("{argument} needs {name}.", argument="block")
    names = [name for name in asked.ledger.names() if asked.token.is_for(name)]
    return {"budgets": [asdict(asked.ledger.status(name)) for name in names]}


def _blocks(asked: Asked) -> dict[str, Any]:
    name, limit = asked.name, asked.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES)
    found = asked.ledger.blocks(name)
    shown, others = found[:limit], found[limit:]
    return {
        "name": name,
        "blocks": [one._asdict() for one in shown],
        "others": len(others),
        "share_left_of_others": others[0].share_left if others else 1.0,
    }


def _history(asked: Asked) -> dict[str, Any]:
    name, limit = asked.name, asked.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES)
    found = asked.ledger.history(name, after=asked.count("after", 0, 2**53), limit=limit)
    sums = asked.ledger.budget(name).filter.sums
    return {"name": name, "entries": [flat(entry, sums) for entry in found]}


def _export(asked: Asked) -> File:
    name, kind = asked.name, choice("format", asked.given["format"], tuple(FORMATS))
    return File(f"history.{kind}", MEDIA_TYPES[kind], exported(asked.ledger, name, kind))


def _spending(asked: Asked) -> dict[str, Any]:
    name = asked.name
    return {"name": name, "moments": [moment._asdict() for moment in asked.ledger.spending(name, points=MOST_POINTS)]}


def _cost(asked: Asked) -> dict[str, Any]:
    name = asked.name
    price = asked.ledger.cost(name, asked.run, blocks=asked.blocks, delta=asked.reveal)
    return {
        "name": name,
        "fits": price.fits,
        "share": "inf" if price.share == math.inf else price.share,
        "share_left": price.share_left,
        "cost_units": {sum_of: str(amount) for sum_of, amount in price.cost.items()},
        "refusal": price.refusal,
        "new_blocks": price.new_blocks,
    }


def _remaining(asked: Asked) -> dict[str, Any]:
    name, run, setting = asked.name, asked.given_run, asked.setting
    step = setting.step() if run is None else questions.run_of(setting, run)
    times = asked.ledger.remaining_rounds(name, step, blocks=asked.blocks)
    return {"name": name, "rounds": times * (setting.rounds_of_step if run is None else 1)}


def _open(asked: Asked) -> dict[str, Any]:
    name = word("name", asked.given["name"])
    if not asked.token.is_for(name):
        raise RefusedError(404, "There is no such budget for this token.", reason=f"no budget {show(name)} for it")
    asked.ledger.open(**{**asked.given, "by": asked.token.name})
    return {"budgets": [asdict(asked.ledger.status(name))]}


def _reserve(asked: Asked) -> dict[str, Any]:
    name, key, run = asked.name, asked.given["key"], asked.run
    grant = asked.ledger.reserve(name, run, key=key, by=asked.token.name, blocks=asked.blocks, delta=asked.reveal)
    if grant.state != "reserved":  # whoever goes on would do the work again for one charge
        raise JobStateError(
            f"Job {show(key)} of {show(name)} is {grant.state} already: use another key for another job."
        )
    return {**_job(asked, grant.state), "share_left": asked.ledger.status(name).share_left}


def _begin(asked: Asked) -> dict[str, Any]:
    asked.ledger.begin(asked.name, asked.given["key"], by=asked.token.name)
    return _job(asked, "begun")


def _commit(asked: Asked) -> dict[str, Any]:
    name, key, made = asked.name, asked.given["key"], None
    if "rounds_made" in asked.given:
        made = asked.ledger.grant(name, key).of_rounds(asked.count("rounds_made", 0, MOST_ROUNDS))
    asked.ledger.commit(name, key, made=made, by=asked.token.name)
    return _job(asked, "committed")


def _void(asked: Asked) -> dict[str, Any]:
    asked.ledger.void(asked.name, asked.given["key"], reason=asked.given["reason"], by=asked.token.name)
    return _job(asked, "voided")


def _job(asked: Asked, state: str) -> dict[str, Any]:
    return {"name": asked.given["name"], "key": asked.given["key"], "state": state}


def _verify(asked: Asked) -> dict[str, Any]:
    try:
        asked.ledger.verify()
    except LedgerError as error:  # which is the answer, for one who may know all
        raise RefusedError(409, str(error)) from None
    return {"verified": True, "heads": {name: asked.ledger.status(name).head for name in asked.ledger.names()}}


def _refusals(asked: Asked) -> dict[str, Any]:
    found = asked.ledger.refusals.last(asked.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES))
    return {"refusals": [asdict(refusal) for refusal in found]}


JOB = ("name", "run", "blocks", "reveal", *SETTING)
OPENING = ("name", "epsilon", "delta", "filter", "relation", "note", "blocks", "order", "revealed")

ROUTES = (
    Route(name="token", method="GET", scope="read", title="What this token may do", work=_token),
    Route(
        name="status",
        method="GET",
        scope="read",
        title="What is left of each budget that the token is for, or of one",
        words=("name", "block"),
        work=_status,
    ),
    Route(
        name="blocks",
        method="GET",
        scope="read",
        title="What is left of each block of a budget, the least first",
        words=("name", "limit"),
        needs=("name",),
        work=_blocks,
    ),
    Route(
        name="history",
        method="GET",
        scope="read",
        title="The entries of a budget, oldest first",
        words=("name", "after", "limit"),
        needs=("name",),
        work=_history,
    ),
    Route(
        name="export",
        method="GET",
        scope="read",
        title="The whole history of a budget as a file",
        words=("name", "format"),
        needs=("name", "format"),
        work=_export,
    ),
    Route(
        name="spending",
        method="GET",
        scope="read",
        title="The share of a budget that was spent, over time",
        words=("name",),
        needs=("name",),
        work=_spending,
    ),
    Route(
        name="cost",
        method="POST",
        scope="read",
        title="What a job would cost; nothing is charged",
        words=JOB,
        needs=("name",),
        work=_cost,
    ),
    Route(
        name="remaining-rounds",
        method="POST",
        scope="read",
        title="How many rounds one more job may have",
        words=("name", "run", "blocks", *STEP_WORDS),
        needs=("name",),
        work=_remaining,
    ),
    Route(
        name="open",
        method="POST",
        scope="admin",
        title="Open the budget of a data set, which never changes",
        words=OPENING,
        needs=("name", "epsilon"),
        work=_open,
    ),
    Route(
        name="reserve",
        method="POST",
        scope="spend",
        title="Charge a job before it begins; a retry with the same key is free until it begins",
        words=("key", *JOB),
        needs=("name", "key"),
        work=_reserve,
    ),
    Route(
        name="begin",
        method="POST",
        scope="spend",
        title="Say that the work of a job begins, once",
        words=("name", "key"),
        needs=("name", "key"),
        work=_begin,
    ),
    Route(
        name="commit",
        method="POST",
        scope="spend",
        title="Say that the work of a job was done; rounds that were not made are given back by renyi and pure budgets",
        words=("name", "key", "rounds_made"),
        needs=("name", "key"),
        work=_commit,
    ),
    Route(
        name="void",
        method="POST",
        scope="spend",
        title="Give a reservation back, for work that never looked at the data",
        words=("name", "key", "reason"),
        needs=("name", "key", "reason"),
        work=_void,
    ),
    Route(
        name="verify",
        method="POST",
        scope="admin",
        title="Recompute the chain, every cost and every total",
        whole=True,
        work=_verify,
    ),
    Route(
        name="refusals",
        method="GET",
        scope="admin",
        title="Who was turned away, the newest first",
        words=("limit",),
        whole=True,
        work=_refusals,
    ),
)

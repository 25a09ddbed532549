"""What the ledger's routes take and give, as OpenAPI says it."""

from __future__ import annotations

from typing import Any

from dprounds.ledger.export import FORMATS
from dprounds.ledger.filters import FILTERS
from dprounds.ledger.tables import LONGEST_NAME
from dprounds.ledger.tokens import SCOPES
from dprounds.mechanisms.base import RELATIONS
from dprounds.questions.vocabulary import QUESTIONS, SETTING, WORDS
from dprounds.web.budgets.routes import MEDIA_TYPES, MOST_ENTRIES, MOST_ROUNDS, Route
from dprounds.web.description import REFUSAL, Schema, schema_of
from dprounds.web.description import REFUSALS as REFUSALS_OF_ALL

__all__ = ["SECURITY", "operation", "responses"]

SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "As `dprounds ledger token create` shows it."}}

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
MAYBE_NUMBER: Schema = {"type": ["number", "null"]}

# The words that are not those of a setting, each with its meaning; `open` has some of its own.
OWN_WORDS: dict[str, tuple[Schema, str]] = {
    "name": (NAME, "The budget"),
    "block": (NAME, "One block of it"),
    "after": ({**COUNT, "maximum": 2**53}, "Only entries after this number"),
    "limit": ({**COUNT, "maximum": MOST_ENTRIES}, "At most this many"),
    "format": ({"type": "string", "enum": list(FORMATS)}, "The kind of file"),
    "key": (NAME, "The job"),
    "rounds_made": ({**COUNT, "maximum": MOST_ROUNDS}, "The rounds that were made, if not all that were reserved"),
    "reason": ({"type": "string", "minLength": 1, "maxLength": 2000}, "Why the job never looked at the data"),
    "run": ({"type": "object"}, "All that the job releases, as an accountant's file holds it, in place of a setting"),
    "blocks": ({"type": "array", "items": NAME, "minItems": 1}, "Those that the job reads"),
    "reveal": (
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "What the job may reveal of delta, of a gaussian budget",
    ),
}
WORDS_OF_OPEN: dict[str, tuple[Schema, str]] = {
    "epsilon": (POSITIVE, "The budget"),
    "delta": ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "The budget; none for a pure one"),
    "filter": ({"type": "string", "enum": list(FILTERS)}, "What is added up"),
    "relation": ({"type": "string", "enum": list(RELATIONS)}, "Which data sets are neighbours"),
    "note": ({"type": "string", "maxLength": 2000}, "What to remember"),
    "blocks": ({"type": "boolean"}, "Whether records belong to blocks, each with the whole budget"),
    "order": ({"type": "number", "exclusiveMinimum": 1}, "The Rényi order, of renyi"),
    "revealed": ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "The part of delta that jobs may reveal"),
}


def _object(**properties: Schema) -> Schema:
    """An object that has exactly these."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


STATUS = _object(
    name=NAME,
    epsilon={**POSITIVE, "description": "May be published."},
    delta={**SHARE, "description": "May be published."},
    filter={"type": "string", "enum": list(FILTERS)},
    relation=TEXT,
    note=TEXT,
    order=MAYBE_NUMBER,
    has_blocks={"type": "boolean"},
    blocks=COUNT,
    epsilon_spent={"type": "number", "minimum": 0, "description": "Not for publication."},
    share_left={**SHARE, "description": "Not for publication."},
    reading={
        **MAYBE_NUMBER,
        "description": "The odometer; may be published, with delta; of one block, about its records alone.",
    },
    entries=COUNT,
    reserved=COUNT,
    committed=COUNT,
    voided=COUNT,
    opened_at=TEXT,
    changed_at=TEXT,
    head=TEXT,
)
BUDGETS = _object(budgets=_list(STATUS))
JOB = {"name": NAME, "key": NAME}
ENTRY: Schema = {
    "type": "object",
    "properties": {"number": COUNT},
    "required": ["number", "at", "kind", "key", "by", "run", "blocks", "detail", "version", "hash"],
    "additionalProperties": TEXT,
}
ANSWERS: dict[str, Schema] = {
    "token": _object(
        name=NAME, budget=MAYBE_TEXT, scope={"type": "string", "enum": list(SCOPES)}, expires_at=MAYBE_TEXT
    ),
    "status": BUDGETS,
    "blocks": _object(
        name=NAME,
        blocks=_list(_object(block=NAME, share_left={**SHARE, "description": "Not for publication."})),
        others={**COUNT, "description": "Blocks that were named by jobs and are not listed."},
        share_left_of_others={**SHARE, "description": "Each of the others has this much left, or more."},
    ),
    "history": _object(name=NAME, entries=_list(ENTRY)),
    "spending": _object(name=NAME, moments=_list(_object(at=TEXT, share={"type": "number", "minimum": 0}))),
    "cost": _object(
        name=NAME,
        fits={"type": "boolean"},
        share={"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "enum": ["inf"]}]},
        share_left=SHARE,
        cost_units={"type": "object", "additionalProperties": TEXT, "description": "In units of 2^-60."},
        refusal={**TEXT, "description": "Why it does not fit; empty if it does."},
        new_blocks={**COUNT, "description": "Blocks of the job that no job has named before."},
    ),
    "remaining-rounds": _object(name=NAME, rounds=COUNT),
    "open": BUDGETS,
    "reserve": _object(**JOB, state={"type": "string", "enum": ["reserved"]}, share_left=SHARE),
    "begin": _object(**JOB, state={"type": "string", "enum": ["begun"]}),
    "commit": _object(**JOB, state={"type": "string", "enum": ["committed"]}),
    "void": _object(**JOB, state={"type": "string", "enum": ["voided"]}),
    "verify": _object(verified={"type": "boolean"}, heads={"type": "object", "additionalProperties": TEXT}),
    "refusals": _object(
        refusals=_list(_object(number=COUNT, at=TEXT, token=TEXT, address=TEXT, route=TEXT, reason=TEXT))
    ),
}
REFUSALS = REFUSALS_OF_ALL | {
    401: "There is no token, or it is unknown, expired or revoked.",
    403: "The token's scope does not include this; or asked by a page of another site.",
    404: "There is no such budget for this token.",
    409: "The budget does not allow the job, or its state does not; or what is verified does not fit.",
    429: "Too many requests with this token, or without a valid one from this address.",
    503: "Too busy, or the database does not answer.",
}


def _word(route: Route, name: str) -> Schema:
    """The values of a word, with its meaning."""
    if route.name == "open" and name in WORDS_OF_OPEN:
        schema, meaning = WORDS_OF_OPEN[name]
    elif name in SETTING:
        schema, meaning = schema_of(QUESTIONS["epsilon"], WORDS[name]), WORDS[name].meaning
    else:
        schema, meaning = OWN_WORDS[name]
    return {**schema, "description": f"{meaning}."}


def operation(route: Route) -> Schema:
    """What a route takes."""
    about: Schema = {
        "summary": route.title,
        "description": f"Needs a token with scope {route.scope}{', for all budgets' if route.whole else ''}.",
        "operationId": f"ledger-{route.name}",
        "security": [{"token": []}],
    }
    if route.method == "GET":
        parameters = [
            {"name": name, "in": "query", "required": name in route.needs, "schema": _word(route, name)}
            for name in route.words
        ]
        return {**about, "parameters": parameters}
    schema = {
        "type": "object",
        "properties": {name: _word(route, name) for name in route.words},
        "required": list(route.needs),
        "additionalProperties": False,
    }
    return {**about, "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def responses(route: Route) -> dict[int | str, dict[str, Any]]:
    """What comes back."""
    content: Schema
    if route.name == "export":
        content = {kind: {"schema": {} if kind == "application/json" else TEXT} for kind in MEDIA_TYPES.values()}
    else:
        content = {"application/json": {"schema": ANSWERS[route.name]}}
    refusal = {"application/json": {"schema": REFUSAL}}
    found: dict[int | str, dict[str, Any]] = {200: {"description": "The answer.", "content": content}}
    return found | {status: {"description": text, "content": refusal} for status, text in sorted(REFUSALS.items())}

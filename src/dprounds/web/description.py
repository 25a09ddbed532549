"""What the API takes and gives, as OpenAPI says it."""

from __future__ import annotations

import math
from typing import Any

from dprounds.questions.vocabulary import MECHANISMS, METHODS, WORDS, Question, Word
from dprounds.questions.wording import RELATIONS_IN_WORDS, SAMPLINGS_IN_WORDS
from dprounds.web.asked import MOST_ENTRIES
from dprounds.web.reading import words_of

__all__ = ["REFUSAL", "REFUSALS", "Schema", "operation", "responses", "schema_of"]

Schema = dict[str, Any]

NUMBER: Schema = {"type": "number"}
INFINITY: Schema = {"type": "string", "enum": ["inf"]}
# What a method answered may be infinite; what cannot be said, such as a difference of infinities, is null.
VALUE: Schema = {"anyOf": [NUMBER, {"type": "string", "enum": ["inf", "-inf"]}, {"type": "null"}]}
ROW: Schema = {
    "type": "object",
    "properties": {
        "method": {"type": "string", "enum": list(METHODS)},
        "error": {"type": "string", "description": "Why the method has no answer; then there are no values."},
    },
    "additionalProperties": VALUE,
}
REFUSAL: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "One sentence that says what to change."}},
    "required": ["error"],
    "additionalProperties": False,
}
RUN_TEXT: Schema = {
    "type": "string",
    "description": "All releases of a run of several parts in place of a setting: the text of a file that --run reads.",
}
REFUSALS = {
    403: "Asked by a page of another site.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    414: "The address is too long.",
    415: "The body is not declared as JSON.",
    421: "Asked by a name that is not the server's.",
    422: "Refused, with the library's sentence; or it takes too long to compute.",
    500: "Unforeseen trouble; nothing was answered.",
    503: "Too busy.",
}


def schema_of(question: Question, word: Word) -> Schema:
    """The values of a word."""
    if word.name == "mechanism":
        return {"type": "string", "enum": list(MECHANISMS), "default": "gaussian"}
    if word.choices:
        return {"type": "string", "enum": list(word.choices)}
    if word.name == "method":
        return {"type": "string", "enum": list(question.methods)}
    interval = question.interval(word.name)
    schema: Schema = {
        "type": "integer" if word.kind == "count" else "number",
        "minimum" if interval.with_low else "exclusiveMinimum": int(interval.low),
    }
    if interval.high < math.inf:
        schema["maximum" if interval.with_high else "exclusiveMaximum"] = int(interval.high)
    elif interval.with_high:
        schema = {"anyOf": [schema, INFINITY]}
    if word.kind == "list":
        return {"type": "array", "items": schema, "minItems": 1, "maxItems": MOST_ENTRIES}
    return schema


def operation(question: Question, method: str) -> Schema:
    """What an operation takes: its words in the address for GET, in a JSON object for POST."""
    words = [WORDS[name] for name in question.words]
    run = {"run": RUN_TEXT} if "run" in words_of(question) else {}
    about = {"summary": question.title, "operationId": f"{method.lower()}-{question.name}"}
    if method == "GET":
        parameters = [
            {
                "name": word.name,
                "in": "query",
                "required": word.name in question.needs,
                "description": f"{question.meaning(word)}.",
                "schema": schema_of(question, word),
                **({"style": "form", "explode": False} if word.kind == "list" else {}),
                **({"example": question.example[word.name]} if word.name in question.example else {}),
            }
            for word in words
        ]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in run.items()
        ]
        return {**about, "parameters": parameters}
    schema = {
        "type": "object",
        "properties": {
            word.name: {**schema_of(question, word), "description": f"{question.meaning(word)}."} for word in words
        }
        | run,
        "required": list(question.needs),
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema, "example": dict(question.example)}}
    return {**about, "requestBody": {"required": True, "content": content}}


def responses(question: str) -> dict[int | str, dict[str, Any]]:
    """What comes back."""
    properties: dict[str, Schema] = {
        "question": {"type": "string", "enum": [question]},
        "inputs": {"type": "object", "description": "What was given, and what follows from it."},
        "answers": {"type": "array", "items": ROW},
        "sentence": {"type": "string", "description": "The answer in plain words."},
        "relation": {
            "enum": [*RELATIONS_IN_WORDS, None],
            "description": "Which data sets are neighbours; null where the sensitivity says it all.",
        },
        "sampling": {
            "enum": [*SAMPLINGS_IN_WORDS, None],
            "description": "How a round chooses its records; null where it sees every record.",
        },
        "holds_for": {"type": "string", "description": "Relation and sampling in plain words."},
        "remarks": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What else to know before the answer is used.",
        },
    }
    if question == "trade-off":
        share = {"type": "number", "minimum": 0, "maximum": 1}
        properties |= {"advantage": share, "true_positive_rate_at_one_percent": share}
    if question == "statement":
        properties |= {form: {"type": "string"} for form in ("text", "markdown", "latex", "json")}
    answers = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    found: dict[int | str, dict[str, Any]] = {
        200: {"description": "The answer.", "content": {"application/json": {"schema": answers}}}
    }
    refusal = {"application/json": {"schema": REFUSAL}}
    return found | {status: {"description": text, "content": refusal} for status, text in REFUSALS.items()}

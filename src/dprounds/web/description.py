"""What the API takes and gives, as OpenAPI says it."""

from __future__ import annotations

from typing import Any

from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.questions import MECHANISMS
from dprounds.questions.wording import RELATIONS_IN_WORDS, SAMPLINGS_IN_WORDS
from dprounds.web.asked import INFINITE, LISTS, MOST_ENTRIES, MOST_POINTS, QUESTIONS, WHOLE

__all__ = ["REFUSALS", "TITLES", "operation", "responses"]

Schema = dict[str, Any]

TITLES = {
    "rounds": "How many rounds does a budget allow?",
    "epsilon": "What does a run cost, in epsilon?",
    "delta": "What does a run cost, in delta?",
    "noise": "How much noise does a run need?",
    "rate": "At which rate may a run sample?",
    "convert": "What does a Rényi guarantee mean?",
    "curve": "Epsilon over rounds, by each method",
    "profile": "The privacy profile of a run: delta over epsilon, by each method",
    "trade-off": "What an attacker can do: false negatives over false positives",
}
MEANINGS = {
    "mechanism": "What one round adds to what it releases.",
    "noise_multiplier": "Noise of a gaussian, laplace or discrete-gaussian over its sensitivity.",
    "step_epsilon": "Epsilon of one round of randomized-response, pure-dp or approximate-dp.",
    "step_delta": "Delta of one round of approximate-dp.",
    "rho": "Rho of one round of zcdp.",
    "orders": "Rényi orders of an rdp-curve, increasing.",
    "rdps": "Rényi bounds of an rdp-curve at its orders.",
    "sampling_rate": "Poisson inclusion probability; or else batch_size and dataset_size.",
    "batch_size": "Expected number of records in a round.",
    "dataset_size": "Number of records.",
    "rounds": "Releases composed; or else epochs.",
    "epochs": "How often each record is expected to be sampled.",
    "epsilon": "Privacy loss in nats.",
    "delta": "Failure mass.",
    "order": "Rényi order.",
    "rdp": "Rényi bound at the order, in nats.",
    "method": "The bound to go by; each in turn if it is left out.",
    "last": "The most rounds of the curve; if it is left out, those that rounds or epochs say.",
    "points": "At most how many points.",
}
# The ranges that hold for a word whatever else is asked.
RANGES: dict[str, Schema] = {
    "noise_multiplier": {"exclusiveMinimum": 0},
    "step_epsilon": {"minimum": 0},
    "step_delta": {"minimum": 0, "maximum": 1},
    "rho": {"minimum": 0},
    "sampling_rate": {"minimum": 0, "maximum": 1},
    "batch_size": {"minimum": 1},
    "dataset_size": {"minimum": 1},
    "rounds": {"minimum": 0},
    "epochs": {"exclusiveMinimum": 0},
    "epsilon": {"minimum": 0},
    "delta": {"minimum": 0, "exclusiveMaximum": 1},
    "order": {"exclusiveMinimum": 1},
    "rdp": {"minimum": 0},
    "orders": {"exclusiveMinimum": 1},
    "rdps": {"minimum": 0},
    "last": {"minimum": 1, "maximum": 2**53},
    "points": {"minimum": 3, "maximum": MOST_POINTS},
}
# Without these a question has no answer; that a setting be whole depends on the mechanism, and is the library's to say.
REQUIRED = {
    "rounds": ("epsilon", "delta"),
    "epsilon": ("delta",),
    "delta": ("epsilon",),
    "noise": ("epsilon", "delta"),
    "rate": ("epsilon", "delta"),
    "convert": ("order",),
    "curve": ("delta",),
}
# A question about a budget wants a finite one, and no order is infinite in a table.
FINITE = {("rounds", "epsilon"), ("noise", "epsilon"), ("rate", "epsilon")}
EXAMPLES: dict[str, Schema] = {
    "rounds": {"epsilon": 6, "delta": 1e-5, "noise_multiplier": 20},
    "epsilon": {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60000, "epochs": 60, "delta": 1e-5},
    "delta": {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60000, "epochs": 60, "epsilon": 3},
    "noise": {"epsilon": 3, "delta": 1e-5, "sampling_rate": 0.01, "rounds": 10000},
    "rate": {"epsilon": 3, "delta": 1e-5, "noise_multiplier": 1, "rounds": 10000},
    "convert": {"order": 8, "rdp": 0.5, "delta": 1e-5},
    "curve": {"noise_multiplier": 20, "delta": 1e-5, "last": 1000},
    "profile": {"noise_multiplier": 20, "rounds": 685},
    "trade-off": {"noise_multiplier": 20, "rounds": 685},
}

NUMBER: Schema = {"type": "number"}
INFINITY: Schema = {"type": "string", "enum": ["inf"]}
# What a method answered may be infinite; what cannot be said, such as a difference of infinities, is null.
VALUE: Schema = {"anyOf": [NUMBER, {"type": "string", "enum": ["inf", "-inf"]}, {"type": "null"}]}
ROW: Schema = {
    "type": "object",
    "properties": {
        "method": {"type": "string", "enum": list(RUN_METHODS)},
        "error": {"type": "string", "description": "Why the method has no answer; then there are no values."},
    },
    "additionalProperties": VALUE,
}
REFUSAL: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "One sentence that says what to mend."}},
    "required": ["error"],
    "additionalProperties": False,
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


def _schema(question: str, name: str) -> Schema:
    """The values of a word."""
    if name == "mechanism":
        return {"type": "string", "enum": list(MECHANISMS), "default": "gaussian"}
    if name == "method":
        known = RUN_METHODS[:-1] if question == "convert" else RUN_METHODS
        return {"type": "string", "enum": list(known)}
    schema = {"type": "integer" if name in WHOLE else "number", **RANGES[name]}
    if name in INFINITE and (question, name) not in FINITE:
        schema = {"anyOf": [schema, INFINITY]}
    return {"type": "array", "items": schema, "minItems": 1, "maxItems": MOST_ENTRIES} if name in LISTS else schema


def operation(question: str, method: str) -> Schema:
    """What an operation takes: its words in the address for GET, in a JSON object for POST."""
    words, required = QUESTIONS[question], REQUIRED.get(question, ())
    about = {"summary": TITLES[question], "operationId": f"{method.lower()}-{question}"}
    if method == "GET":
        parameters = [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "description": MEANINGS[name],
                "schema": _schema(question, name),
                **({"style": "form", "explode": False} if name in LISTS else {}),
                **({"example": EXAMPLES[question][name]} if name in EXAMPLES[question] else {}),
            }
            for name in words
        ]
        return {**about, "parameters": parameters}
    schema = {
        "type": "object",
        "properties": {name: {**_schema(question, name), "description": MEANINGS[name]} for name in words},
        "required": list(required),
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema, "example": EXAMPLES[question]}}
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

"""The library's sentences as one reads them on the command line: flags for arguments, no Python."""

from __future__ import annotations

import re

__all__ = ["ASKED_FOR", "with_flags", "without_python"]

# What each command answers with, by the flags that would say it already.
ASKED_FOR = {
    "rounds": ("--rounds", "--epochs"),
    "epsilon": ("--epsilon",),
    "delta": ("--delta",),
    "noise": ("--noise-multiplier",),
    "rate": ("--sampling-rate", "--batch-size"),
}

# Classes by the words of --mechanism; a Gaussian is one in both tongues.
MECHANISMS = {
    "DiscreteGaussian": "discrete-gaussian",
    "RandomizedResponse": "randomized-response",
    "PureDP": "pure-dp",
    "ApproximateDP": "approximate-dp",
    "ZCDP": "zcdp",
}
# Python that the library's sentences hold, and what a person calls it. A run is what was just asked about, and its
# expression may be long, or cut.
SPOKEN = (
    (re.compile(r"(No exact accounting) of .*: a part of it"), r"\1: a part of the run"),
    (re.compile(r"\b(The profile|The loss|The moment function) of .* is (outside|beyond)"), r"\1 of this run is \2"),
    (re.compile(r"\b(A sampled part) of .* has too little"), r"\1 of this run has too little"),
    (re.compile(r"\b(carries the loss) of .*\."), r"\1 of this run."),
    (re.compile(r"\b(rounds) of .* still meet"), r"\1 of this step still meet"),
    (re.compile(r"\bmethod='([a-z-]+)'"), r"--method \1"),
    (re.compile(r"\bepsilon=(?=[0-9])"), "ε = "),
    (re.compile(r"\bdelta=(?=[0-9])"), "δ = "),
    (re.compile(r"\bepsilon\b"), "ε"),
    (re.compile(r"\bdelta\b"), "δ"),
    (re.compile(r"\bnoise_multiplier\b"), "noise multiplier"),
    (re.compile(r"\bsampling_rate\b"), "sampling rate"),
    *((re.compile(rf"\b{name}\b(?!\()"), word) for name, word in MECHANISMS.items()),
)


def with_flags(sentence: str) -> str:
    """A sentence about a question's arguments as one about flags."""
    from dataclasses import fields

    from dprounds.questions.setting import Setting

    names = {*(field.name for field in fields(Setting)), "epsilon", "delta", "order", "rdp", "workers"}
    flag = re.compile(r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\b")
    return flag.sub(lambda match: "--" + match[0].replace("_", "-"), sentence)


def without_python(sentence: str) -> str:
    """A sentence about a run that has no answer, without the expressions of Python."""
    for pattern, spoken in SPOKEN:
        sentence = pattern.sub(spoken, sentence)
    return sentence

"""The library's sentences as one reads them on the command line: flags for arguments, no Python."""

from __future__ import annotations

import re

__all__ = ["ASKED_FOR", "SLIPS", "with_first_flag", "with_flags", "without_python"]

# What people call the same thing elsewhere, without its dashes, and the flag that it is here.
SLIPS = {
    **dict.fromkeys(
        ("sigma", "s", "noise", "noise-scale", "noise-level", "noise-std", "z", "scale", "b"), "--noise-multiplier"
    ),
    **dict.fromkeys(("lot", "lot-size", "batch", "bs", "b-size", "expected-batch-size"), "--batch-size"),
    **dict.fromkeys(("eps", "e", "target-epsilon", "target-eps", "max-epsilon", "budget"), "--epsilon"),
    **dict.fromkeys(("d", "target-delta", "del"), "--delta"),
    **dict.fromkeys(("q", "sample-rate", "sampling-prob", "sampling-probability", "rate", "p"), "--sampling-rate"),
    **dict.fromkeys(
        ("n", "dataset", "data-size", "num-examples", "num-samples", "number-of-examples", "examples", "records"),
        "--dataset-size",
    ),
    **dict.fromkeys(("t", "steps", "num-steps", "max-steps", "iterations", "iters", "round", "releases"), "--rounds"),
    **dict.fromkeys(("epoch", "num-epochs", "passes"), "--epochs"),
    **dict.fromkeys(("alpha", "a", "renyi-order"), "--order"),
    **dict.fromkeys(("gamma", "rdp-epsilon"), "--rdp"),
    **dict.fromkeys(("mech", "type", "noise-type"), "--mechanism"),
    **dict.fromkeys(("accountant", "by"), "--method"),
    **dict.fromkeys(("eps0", "step-eps", "epsilon0"), "--step-epsilon"),
    **dict.fromkeys(("delta0",), "--step-delta"),
    **dict.fromkeys(("figure", "save", "picture"), "--plot"),
    **dict.fromkeys(("output", "o"), "--out"),
}

# What each command answers with, by the flags that would say it already.
ASKED_FOR = {
    "rounds": ("--rounds", "--epochs"),
    "epsilon": ("--epsilon",),
    "delta": ("--delta",),
    "noise": ("--noise-multiplier",),
    "rate": ("--sampling-rate", "--batch-size"),
}

# Arguments that are no words of English.
COMPOUND = re.compile(r"\b[a-z]+_[a-z]+\b")

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
    (re.compile(r"\b(known for so few rounds) of .*?\.(?= Use|$)"), r"\1 of this kind."),
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


def with_first_flag(sentence: str) -> str:
    """A sentence about an argument that is out of range as one about its flag; a word in its middle is but a word."""
    name, _, rest = sentence.partition(" ")
    return f"{with_flags(name)} {COMPOUND.sub(lambda match: with_flags(match[0]), rest)}" if rest else sentence


def without_python(sentence: str) -> str:
    """A sentence about a run that has no answer, without the expressions of Python."""
    for pattern, spoken in SPOKEN:
        sentence = pattern.sub(spoken, sentence)
    return sentence

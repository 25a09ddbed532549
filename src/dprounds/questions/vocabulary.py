"""Each question, word, mechanism and method, once: the command line, the API, sweeps and the page are made of these.

Plain data: nothing here loads NumPy, so that ``dprounds --help`` may use it. A new question is written here, with its
answer in `dprounds.questions.ask`; a new mechanism here, with its class in `dprounds.mechanisms`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dprounds._intervals import (
    DELTA,
    EPSILON,
    FAILURE_MASS,
    FINITE_EPSILON,
    NOISE_MULTIPLIER,
    ORDER,
    RDP,
    SAMPLING_RATE,
    Interval,
)
from dprounds.questions import wording

__all__ = [
    "ALIASES",
    "BRACKETED_SAMPLINGS",
    "CONVERSION_METHODS",
    "FIELDS",
    "FROM_OTHERS",
    "GROUPED_SAMPLINGS",
    "MECHANISMS",
    "METHODS",
    "NOISY_MECHANISMS",
    "QUESTIONS",
    "RELATIONS_OF_SAMPLINGS",
    "RUN_QUESTIONS",
    "SAMPLED_MECHANISMS",
    "SAMPLINGS",
    "SETTING",
    "SWEPT_QUESTIONS",
    "WORDS",
    "Field",
    "MechanismWord",
    "Question",
    "Word",
    "listed",
]

ANY, FROM_ONE = Interval.parse("[-inf, inf]"), Interval.parse("[1, inf)")
NOT_NEGATIVE, POSITIVE = Interval.parse("[0, inf)"), Interval.parse("(0, inf)")
# As many rounds as doubles count one by one, and no more points than a screen has room for.
CURVE_ROUNDS, CURVE_POINTS = Interval.parse(f"[1, {2**53}]"), Interval.parse("[3, 400]")


@dataclass(frozen=True)
class Field:
    """How the page offers a word: its label, its unit, and usual values, between which its slider runs."""

    label: str
    unit: str
    low: float
    start: float
    high: float


@dataclass(frozen=True)
class Word:
    """What can be given to a question."""

    name: str  # in Python and JSON; with dashes, its flag
    meaning: str  # in one line, without a full stop
    interval: Interval = ANY  # where its numbers must be
    kind: Literal["number", "count", "list", "choice"] = "number"
    panel: str | None = None  # the part of the command line's help in which it stands
    choices: tuple[str, ...] = ()  # what a choice may be, where that does not depend on the question

    @property
    def may_be_infinite(self) -> bool:
        """Whether infinity is a value of it."""
        return self.kind != "choice" and self.interval.with_high and self.interval.high == math.inf


BUDGET, ROUND, DATA, ANSWER = "Budget", "What a round releases", "Sampling and rounds", "Answer"
EPOCHS = "Passes over the data instead of rounds; one takes as many batches as hold all records, rounded up"
RATE = "Chance that a round takes a record (Poisson sampling), such as 256/60000"

# How a loader may choose the batch of a round; the words of `Guarantee.sampling`, and one for no choice at all.
SAMPLINGS: Mapping[str, str] = {
    "poisson": "each record is in a batch by a chance of its own",
    "allocation": "each record joins one random step of every epoch",
    "truncated": "each record is drawn by a chance of its own, and a random so many are kept at most",
    "fixed-size": "a fixed number of records is drawn for each round",
    "shuffled": "all records are shuffled and cut into batches: the usual loader",
    "none": "every round sees every record",
}
# Which data sets may be neighbours for each of them: the first if none is named.
RELATIONS_OF_SAMPLINGS: Mapping[str, tuple[str, ...]] = {
    "poisson": ("add-remove", "zero-out", "replace-one"),
    "allocation": ("add-remove", "zero-out"),
    "truncated": ("add-remove", "zero-out", "replace-one"),
    "fixed-size": ("replace-one", "zero-out"),
    "shuffled": ("zero-out", "replace-one"),
    "none": (),
}
# Those for which only a bracket is proven.
BRACKETED_SAMPLINGS = ("truncated", "fixed-size", "shuffled")
# Those for which it is known what several records of one person cost together.
GROUPED_SAMPLINGS = ("poisson", "allocation", "fixed-size", "shuffled")
LOADER = "How the loader chooses a batch; by default poisson if there is a rate or a batch size"
LARGEST = "Records that a batch holds at most, where a random so many of a Poisson sample are kept"
GROUP = "Records of one person that are protected together, where batches are sampled"
NEIGHBOURS = "Which data sets are neighbours, where there is a choice"

WORDS: Mapping[str, Word] = {
    word.name: word
    for word in (
        Word("mechanism", "The mechanism of a round", kind="choice", panel=ROUND),
        Word("noise_multiplier", "Noise over sensitivity", NOISE_MULTIPLIER, panel=ROUND),
        Word("step_epsilon", "ε of one round", FINITE_EPSILON, panel=ROUND),
        Word("step_delta", "δ of one round", FAILURE_MASS, panel=ROUND),
        Word("rho", "ρ of one round", NOT_NEGATIVE, panel=ROUND),
        Word("orders", "Rényi orders, increasing", ORDER, "list"),
        Word("rdps", "Rényi bounds at the orders, in nats", RDP, "list"),
        Word("sampling", LOADER, kind="choice", panel=DATA, choices=tuple(SAMPLINGS)),
        Word("sampling_rate", RATE, SAMPLING_RATE, panel=DATA),
        Word("batch_size", "Expected records in a round (Poisson sampling)", FROM_ONE, "count", DATA),
        Word("dataset_size", "Records in all", FROM_ONE, "count", DATA),
        Word("largest_batch", LARGEST, FROM_ONE, "count", DATA),
        Word("group_size", GROUP, FROM_ONE, "count", DATA),
        Word("relation", NEIGHBOURS, kind="choice", panel=DATA, choices=("add-remove", "replace-one", "zero-out")),
        Word("rounds", "Rounds, the steps of training", NOT_NEGATIVE, "count", DATA),
        Word("epochs", EPOCHS, POSITIVE, panel=DATA),
        Word("examples", "Gradients of single records that training may take", FROM_ONE, "count", DATA),
        Word("habit", "The batch size in use today, to compare with", FROM_ONE, "count", DATA),
        Word("min_rounds", "Plans of fewer rounds are not considered; 125 by default", FROM_ONE, "count", ANSWER),
        Word("within", "What part above the floor counts as near it; 0.1 by default", POSITIVE, panel=ANSWER),
        Word("order", "Rényi order α > 1; inf is one", ORDER),
        Word("rdp", "Rényi bound γ, in nats", RDP),
        Word("epsilon", "Privacy loss ε, in nats", EPSILON, panel=BUDGET),
        Word("delta", "Failure mass δ, below one over the number of records", FAILURE_MASS, panel=BUDGET),
        Word("last", "The most rounds of the curve; by default those that rounds or epochs say", CURVE_ROUNDS, "count"),
        Word("points", "At most how many points", CURVE_POINTS, "count"),
        Word("method", "Answer by one method only", kind="choice", panel=ANSWER),
    )
}
FIELDS: Mapping[str, Field] = {
    "epsilon": Field("Budget ε", "nats", 0.05, 3, 50),
    "delta": Field("Failure mass δ", "below 1 / records", 1e-12, 1e-5, 0.1),
    "noise_multiplier": Field("Noise multiplier", "noise ÷ sensitivity", 0.3, 1.1, 300),
    "step_epsilon": Field("ε of one round", "nats", 1e-4, 0.1, 10),
    "step_delta": Field("δ of one round", "failure mass", 1e-15, 1e-9, 1e-3),
    "rho": Field("ρ of one round", "zCDP, nats", 1e-7, 0.001, 1),
    "batch_size": Field("Batch", "expected records a round", 1, 256, 10**6),
    "dataset_size": Field("Data set", "records", 100, 60_000, 10**9),
    "sampling_rate": Field("Sampling rate", "share of records a round", 1e-6, 0.004, 1),
    "largest_batch": Field("Largest batch", "records kept at most", 1, 320, 10**6),
    "group_size": Field("Group", "records of one person", 1, 2, 100),
    "epochs": Field("Epochs", "passes over the data", 1, 60, 1000),
    "rounds": Field("Rounds", "releases", 1, 14_062, 10**7),
}
# What people call the same thing elsewhere.
ALIASES: Mapping[str, str] = {
    "mechanism": "mech type noise-type",
    "noise_multiplier": "sigma s noise noise-scale noise-level noise-std z scale b",
    "step_epsilon": "eps0 step-eps epsilon0",
    "step_delta": "delta0",
    "sampling": "loader sampler batching",
    "largest_batch": "max-batch max-batch-size truncated-batch-size",
    "group_size": "group records-per-person records-per-user",
    "relation": "neighbours neighbors adjacency neighboring-relation",
    "sampling_rate": "q sample-rate sampling-prob sampling-probability rate p",
    "batch_size": "lot lot-size batch bs b-size expected-batch-size",
    "dataset_size": "n dataset data-size num-examples num-samples number-of-examples examples records",
    "rounds": "t steps num-steps max-steps iterations iters round releases",
    "epochs": "epoch num-epochs passes",
    "order": "alpha a renyi-order",
    "rdp": "gamma rdp-epsilon",
    "epsilon": "eps e target-epsilon target-eps max-epsilon budget",
    "delta": "d target-delta del",
    "method": "accountant by",
    "plot": "figure save picture",
    "out": "output o",
}

# What each method is, in one line, from the loosest to the tightest.
METHODS: Mapping[str, str] = {
    "moments": "the moments accountant of 2016: one Rényi order, by the simplest conversion; the loosest",
    "balle": "one Rényi order, by the conversion of Balle et al. (2020), which Opacus and other Rényi accountants use",
    "closed-form": "one Rényi order, by the formula of Asoodeh et al. (2020), close to optimal",
    "optimal": "the best that one Rényi order can prove (Asoodeh et al., 2020)",
    "exact": "the privacy loss itself, added up over all rounds, with a proven error; the tightest",
}
CONVERSION_METHODS = tuple(method for method in METHODS if method != "exact")


@dataclass(frozen=True)
class MechanismWord:
    """What a round may release its records through."""

    name: str  # on the command line, in JSON and in files
    makes: str  # its class in `dprounds`
    parameters: tuple[str, ...]  # the words that it is made of, in the order of the class's arguments
    title: str  # on the page
    can_be_sampled: bool = True  # whether its cost under Poisson sampling is known
    is_exact: bool = True  # whether the exact method answers for it

    @property
    def is_made_of_lists(self) -> bool:
        """Whether only a file or JSON describes it: flags and fields hold no lists."""
        return any(WORDS[name].kind == "list" for name in self.parameters)


MECHANISMS: Mapping[str, MechanismWord] = {
    mechanism.name: mechanism
    for mechanism in (
        MechanismWord("gaussian", "Gaussian", ("noise_multiplier",), "Gaussian noise (DP-SGD)"),
        MechanismWord("laplace", "Laplace", ("noise_multiplier",), "Laplace noise"),
        MechanismWord("discrete-gaussian", "DiscreteGaussian", ("noise_multiplier",), "Discrete Gaussian noise"),
        MechanismWord("discrete-laplace", "DiscreteLaplace", ("noise_multiplier",), "Discrete Laplace noise"),
        MechanismWord("randomized-response", "RandomizedResponse", ("step_epsilon",), "Randomized response"),
        MechanismWord("pure-dp", "PureDP", ("step_epsilon",), "Any ε-DP mechanism"),
        MechanismWord(
            "exponential",
            "ExponentialMechanism",
            ("step_epsilon",),
            "Exponential mechanism",
            can_be_sampled=False,
        ),
        MechanismWord(
            "approximate-dp",
            "ApproximateDP",
            ("step_epsilon", "step_delta"),
            "Any (ε, δ)-DP mechanism",
            can_be_sampled=False,
        ),
        MechanismWord("zcdp", "ZCDP", ("rho",), "Any ρ-zCDP mechanism", can_be_sampled=False, is_exact=False),
        MechanismWord(
            "rdp-curve", "RdpCurve", ("orders", "rdps"), "Rényi bounds", can_be_sampled=False, is_exact=False
        ),
    )
}
NOISY_MECHANISMS = tuple(each.name for each in MECHANISMS.values() if each.parameters == ("noise_multiplier",))
SAMPLED_MECHANISMS = tuple(each.name for each in MECHANISMS.values() if each.can_be_sampled)

PARAMETERS = tuple(dict.fromkeys(name for each in MECHANISMS.values() for name in each.parameters))
# What describes one kind of round and how often, the fields of `dprounds.questions.Setting`.
SETTING = (
    *("mechanism", *PARAMETERS, "sampling", "sampling_rate", "batch_size", "dataset_size"),
    *("largest_batch", "group_size", "relation", "rounds", "epochs"),
)
# What an answer holds in addition if one of these is given.
FROM_OTHERS = {"epochs": ("sampling_rate", "batch_size"), "batch_size": ("dataset_size",), "rounds": ("epochs",)}

MNIST = {"batch_size": 256, "dataset_size": 60_000}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What can be asked."""

    name: str  # on the command line, in JSON and in files
    title: str  # as a person asks it
    tab: str = ""  # the same in few words, on the page
    note: str = ""  # what else to know on the command line; names in braces are flags
    needs: tuple[str, ...] = ()  # the words without which it has no answer
    takes: tuple[str, ...] = ("method",)  # other words, in addition to those of a setting
    answers: tuple[str, ...] = ()  # the words that it answers, which therefore cannot be given
    chooses: Mapping[str, str] = field(default_factory=dict)  # words that it finds itself, and what to type instead
    columns: tuple[str, ...] = ()  # the values of an answer that a table keeps
    quantity: wording.Quantity | None = None  # what it answers, and the side to which that is rounded
    has_setting: bool = True  # whether it is about a setting
    is_text: bool = False  # whether it is answered by a text; the command line has a command of its own for it
    noisy_only: bool = False  # whether it varies what only mechanisms with a noise multiplier have
    example: Mapping[str, float] = field(default_factory=dict)  # values that it may be asked with

    @property
    def words(self) -> tuple[str, ...]:
        """All words that it knows, those among them for which it has no place: the library says why."""
        return (*(SETTING if self.has_setting else ()), *self.needs, *self.takes)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words that can be given to it in flags, in the order of the help."""
        known = [MECHANISMS[name] for name in self.mechanisms if not MECHANISMS[name].is_made_of_lists]
        parameters = {name for each in known for name in each.parameters}
        unfit = {*self.answers, *(name for name in PARAMETERS if name not in parameters)}
        setting = [name for name in SETTING if name not in unfit] if self.has_setting else []
        return (*self.needs, *setting, *self.takes)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that it takes."""
        return NOISY_MECHANISMS if self.noisy_only else tuple(MECHANISMS)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that answer it."""
        if "method" not in (*self.needs, *self.takes):  # the tightest alone
            return ("exact",)
        return tuple(METHODS) if self.has_setting else CONVERSION_METHODS

    @property
    def is_plan(self) -> bool:
        """Whether the answer is a plan that keeps a budget; what was spent before may be counted in it."""
        return {"epsilon", "delta"} <= set(self.needs)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it takes: a run in place of a setting, and what was spent before."""
        run = self.has_setting and not self.noisy_only
        return (*(["run"] if run else []), *(["spent"] if self.is_plan and self.has_setting else []))

    @property
    def is_curve(self) -> bool:
        """Whether it is answered at many points, for a picture, or by a text: then no method has one row."""
        return "points" in self.takes or self.is_text

    def interval(self, name: str) -> Interval:
        """Where the value of a word must be here: the budget of a plan is finite, that of Gaussian noise positive."""
        if self.is_plan and name in ("epsilon", "delta"):
            of_setting = {"epsilon": FINITE_EPSILON, "delta": FAILURE_MASS}
            return (of_setting if self.has_setting else {"epsilon": POSITIVE, "delta": DELTA})[name]
        return WORDS[name].interval

    def meaning(self, word: Word) -> str:
        """What a word means in this question, in one line."""
        is_pure = word.name == "delta" and self.interval("delta").with_low
        return f"{word.meaning}; 0 for pure DP" if is_pure else word.meaning


QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question(
            name="rounds",
            title="How many rounds may I train within (ε, δ)?",
            tab="How many rounds?",
            note="With {run} FILE one round makes all of the file's releases; {spent} FILE counts what was released "
            "before.",
            needs=("epsilon", "delta"),
            answers=("rounds", "epochs"),
            columns=("rounds", "epochs", "epsilon"),
            quantity=wording.ROUNDS,
            example={"epsilon": 3, "delta": 1e-5, "noise_multiplier": 1.1, **MNIST},
        ),
        Question(
            name="epsilon",
            title="What does this run cost: its ε at δ?",
            tab="What ε does it cost?",
            needs=("delta",),
            answers=("epsilon",),
            columns=("epsilon", "order", "lower"),
            quantity=wording.EPSILON,
            example={"delta": 1e-5, "noise_multiplier": 1.1, **MNIST, "epochs": 60},
        ),
        Question(
            name="delta",
            title="What is the failure mass δ of this run at ε?",
            tab="What δ?",
            needs=("epsilon",),
            answers=("delta",),
            columns=("delta",),
            quantity=wording.DELTA,
            example={"epsilon": 3, "noise_multiplier": 1.1, **MNIST, "epochs": 60},
        ),
        Question(
            name="noise",
            title="How much noise do I need to stay within (ε, δ)?",
            tab="How much noise?",
            needs=("epsilon", "delta"),
            answers=("noise_multiplier",),
            columns=("noise_multiplier", "epsilon"),
            quantity=wording.NOISE,
            noisy_only=True,
            example={"epsilon": 3, "delta": 1e-5, **MNIST, "epochs": 60},
        ),
        Question(
            name="rate",
            title="How large a sampling rate, and so a batch, may I use within (ε, δ)?",
            tab="What rate?",
            needs=("epsilon", "delta"),
            answers=("sampling_rate", "batch_size"),
            columns=("sampling_rate", "batch_size", "rounds", "epsilon"),
            quantity=wording.RATE,
            noisy_only=True,
            example={"epsilon": 3, "delta": 1e-5, "noise_multiplier": 1.1, "dataset_size": 60_000, "rounds": 10_000},
        ),
        Question(
            name="plan",
            title="Which batch size and how many epochs make most of (ε, δ)?",
            note="Give one of {epochs}, {rounds} and {examples}: how long training may take.",
            needs=("dataset_size", "epsilon", "delta"),
            takes=("epochs", "rounds", "examples", "habit", "sampling", "min_rounds", "within"),
            chooses={"batch_size": "Type {habit} for the batch size in use today.", "noise_multiplier": ""},
            columns=("batch_size", "rounds", "epochs", "noise_multiplier", "epsilon", "excess", "renyi_excess"),
            quantity=wording.EXCESS,
            has_setting=False,
            example={"dataset_size": 60_000, "epsilon": 3, "delta": 1e-5, "epochs": 60, "habit": 256},
        ),
        Question(
            name="convert",
            title="What does a Rényi guarantee mean in (ε, δ)?",
            note="Give two of {rdp}, {epsilon} and {delta}.",
            needs=("order",),
            takes=("rdp", "epsilon", "delta", "method"),
            has_setting=False,
            example={"order": 8, "rdp": 0.5, "delta": 1e-5},
        ),
        Question(
            name="plan-curve",
            title="The noise above the floor over epochs, for several batch sizes",
            needs=("dataset_size", "epsilon", "delta", "epochs"),
            takes=("batch_size", "habit", "sampling", "points"),
            has_setting=False,
            example={"dataset_size": 4_000, "epsilon": 1, "delta": 1e-5, "epochs": 10, "habit": 64},
        ),
        Question(
            name="curve",
            title="Epsilon over rounds, by each method",
            needs=("delta",),
            takes=("last", "points", "method"),
            example={"noise_multiplier": 20, "delta": 1e-5, "last": 1000},
        ),
        Question(
            name="profile",
            title="The privacy profile of a run: delta over epsilon, by each method",
            takes=("points", "method"),
            example={"noise_multiplier": 20, "rounds": 685},
        ),
        Question(
            name="trade-off",
            title="What an attacker can do: false negatives over false positives",
            takes=("points",),
            example={"noise_multiplier": 20, "rounds": 685},
        ),
        Question(
            name="statement",
            title="What may be published about this run, as text, Markdown, LaTeX and JSON",
            needs=("delta",),
            is_text=True,
            example={"delta": 1e-5, "noise_multiplier": 1.1, **MNIST, "epochs": 60},
        ),
    )
}
# Those that a setting answers with a row for each method: a command, a tab of the page and a kind of sweep each.
RUN_QUESTIONS = tuple(each.name for each in QUESTIONS.values() if each.has_setting and not each.is_curve)

# Those that a sweep may ask: of each answer it keeps some columns.
SWEPT_QUESTIONS = tuple(each.name for each in QUESTIONS.values() if each.columns)


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names as a sentence lists them.

    Examples
    --------
    >>> listed(["gaussian", "laplace", "zcdp"]), listed(["zcdp"])
    ('gaussian, laplace and zcdp', 'zcdp')
    """
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

"""What a question is about, in the words of the command line: one kind of round, and how often.

>>> setting = Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=60)
>>> setting.run()
PoissonSampled(Gaussian(1.1), sampling_rate=0.004266666666666667) * 14100
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from dprounds import _validate, mechanisms
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms import (
    FixedSizeSampled,
    Mechanism,
    PoissonSampled,
    RandomAllocation,
    Run,
    Shuffled,
    TruncatedPoissonSampled,
)
from dprounds.mechanisms.base import REPLACE_ONE
from dprounds.mechanisms.random_allocation import MOST_STEPS
from dprounds.questions import vocabulary
from dprounds.questions.vocabulary import GROUPED_SAMPLINGS, PARAMETERS, SAMPLED_MECHANISMS, SAMPLINGS, WORDS, listed

__all__ = ["MECHANISMS", "QuestionError", "Setting"]


class QuestionError(ParameterError):
    """A question lacks something, or contradicts itself, though each of its arguments may be in range."""


# What each word makes, and of which arguments.
MECHANISMS: dict[str, tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    word.name: (getattr(mechanisms, word.makes), word.parameters) for word in vocabulary.MECHANISMS.values()
}

# Loaders in which every record joins one round of an epoch.
BY_EPOCHS: dict[str, Callable[..., Mechanism]] = {"allocation": RandomAllocation, "shuffled": Shuffled}

# Relative error that the rounding of a rate and of the epochs can leave in their quotient.
RELATIVE_QUOTIENT_ERROR = Fraction(4, 2**53)
# A larger sum is not taken for one of decimals that a person wrote.
LARGEST_DECIMAL_SUM = 10**15


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of round, and how often, each part optional until a question needs it.

    Parameters
    ----------
    mechanism
        A word of `MECHANISMS`.
    noise_multiplier
        Noise of a gaussian, laplace, discrete-gaussian or discrete-laplace over its sensitivity, in (0, inf).
    step_epsilon, step_delta
        The guarantee of one round of randomized-response, pure-dp, exponential or approximate-dp.
    rho
        That of zcdp.
    orders, rdps
        That of rdp-curve.
    sampling
        How the loader chooses a batch, a word of `SAMPLINGS <dprounds.questions.vocabulary.SAMPLINGS>`: by default
        ``"poisson"`` if there is a rate.
    sampling_rate
        Poisson inclusion probability, in [0, 1]; or else
    batch_size, dataset_size
        whose ratio it is. Without any of them a round sees every record.
    largest_batch
        Records that a batch holds at most: of more that are drawn by Poisson sampling a random so many are kept.
    group_size
        Records of one person that are protected together; with Poisson samples and random allocation only.
    relation
        Which data sets are neighbours, where there is a choice: ``"add-remove"``, ``"replace-one"`` or ``"zero-out"``.
    rounds
        Releases composed; or else
    epochs
        passes over the data, as a training loop makes them: one takes as many batches as hold all records, the last
        of them perhaps not full. 60 epochs of 60,000 records in batches of 256 are 60 times 235, 14,100 rounds; part
        of an epoch is rounded up to whole rounds.
    """

    mechanism: str = "gaussian"
    noise_multiplier: float | None = None
    step_epsilon: float | None = None
    step_delta: float | None = None
    rho: float | None = None
    orders: tuple[float, ...] | None = None
    rdps: tuple[float, ...] | None = None
    sampling: str | None = None
    sampling_rate: float | None = None
    batch_size: float | None = None  # whole
    dataset_size: float | None = None  # whole
    largest_batch: float | None = None  # whole
    group_size: float | None = None  # whole
    relation: str | None = None
    rounds: float | None = None  # whole
    epochs: float | None = None

    def given(self) -> dict[str, object]:
        """The arguments that were given, and the mechanism."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def refuse(self, *names: str, because: str) -> None:
        """Raise if any of these was given."""
        for name in names:
            if getattr(self, name) is not None:
                raise QuestionError(f"{{argument}} has no place here: {because}.", argument=name)

    def bare_mechanism(self) -> Mechanism:
        """What one round releases of the records that it sees."""
        word = _validate.choice("mechanism", self.mechanism, tuple(MECHANISMS))
        make, needs = MECHANISMS[word]
        made_of = f"a {word} is made of {listed([f'{{{name}}}' for name in needs])}"
        self.refuse(*(name for name in PARAMETERS if name not in needs), because=made_of)
        for name in needs:
            if getattr(self, name) is None:
                raise QuestionError(f"{{argument}} is missing: {made_of}.", argument=name)
            if WORDS[name].kind == "number":  # named as it is here: the class may call it by another name
                _validate.real(name, getattr(self, name), WORDS[name].interval)
        return make(*(getattr(self, name) for name in needs))

    def rate(self) -> float | None:
        """The sampling rate, or None if every round sees every record."""
        exact = self.exact_rate()
        return None if exact is None else float(exact)

    def exact_rate(self) -> Fraction | None:
        """The sampling rate as it was written, free of rounding."""
        return self._exact_rate

    @cached_property
    def _exact_rate(self) -> Fraction | None:
        dataset = None if self.dataset_size is None else _validate.count("dataset_size", self.dataset_size, least=1)
        if self.sampling_rate is not None:
            self.refuse("batch_size", because="the {sampling_rate} is given already")
            return _as_written(_validate.real("sampling_rate", self.sampling_rate, _validate.SAMPLING_RATE))
        if self.batch_size is None:
            if dataset is not None:  # without a batch size this would be a full batch, which is not what was meant
                raise QuestionError(
                    "{argument} is missing: the sampling rate is {batch_size} / {dataset_size}.",
                    argument="batch_size",
                    advice="Leave out {dataset_size} if every round sees every record.",
                )
            return None
        batch = _validate.count("batch_size", self.batch_size, least=1)
        if dataset is None:
            raise QuestionError(
                "{argument} is missing: the sampling rate is {batch_size} / {dataset_size}.", argument="dataset_size"
            )
        if batch > dataset:
            raise QuestionError(
                "{argument} must be at most the {dataset_size} {most}, got {value}.",
                argument="batch_size",
                most=dataset,
                value=batch,
            )
        return Fraction(batch, dataset)

    @property
    def loader(self) -> str:
        """How a batch is chosen: what was said, or what a rate and a largest batch mean."""
        if self.sampling is not None:
            return _validate.choice("sampling", self.sampling, tuple(SAMPLINGS))
        if self.rate() is None:
            return "none"
        return "poisson" if self.largest_batch is None else "truncated"

    @property
    def rounds_of_step(self) -> int:
        """How many rounds `step` stands for: an epoch of them, where a record joins one round of each epoch."""
        return (self.batches_per_epoch() or 1) if self.loader in BY_EPOCHS else 1

    def step(self) -> Mechanism:
        """One round; or one epoch, where every record joins one round of it."""
        loader, rate = self.loader, self.rate()
        mechanism = self.bare_mechanism()
        if loader not in GROUPED_SAMPLINGS:
            groups = listed(GROUPED_SAMPLINGS)
            self.refuse("group_size", because=f"what a group costs is known for {groups} {{sampling}} only")
        if loader != "truncated":
            self.refuse("largest_batch", because="only {sampling} truncated keeps so many records at most")
        if loader == "none":
            self.refuse("sampling_rate", "batch_size", because="with {sampling} none every round sees every record")
            self.refuse("relation", because="without a rate the sensitivity says which data sets are neighbours")
            return mechanism
        if rate is None:
            raise QuestionError(
                "{argument} is missing: {sampling} {value} needs {batch_size} and {dataset_size}.",
                argument="batch_size",
                value=loader,
            )
        chosen: dict[str, Any] = {} if self.relation is None else {"relation": self.relation}
        if self.group_size is not None:
            chosen["group_size"] = _validate.count("group_size", self.group_size, least=1)
        if loader == "truncated":
            return self._truncated(mechanism, rate, **chosen)
        if loader == "fixed-size":
            self.refuse("sampling_rate", because="batches of fixed size are drawn by {batch_size} and {dataset_size}")
            batch, records = self._sizes()
            return FixedSizeSampled(mechanism, batch, records, **{"relation": REPLACE_ONE, **chosen})
        if loader in BY_EPOCHS:
            if not rate:
                raise QuestionError("{argument} must be above 0 here, got 0.", argument="sampling_rate")
            batches = self.batches_per_epoch() or 1
            if not batches <= MOST_STEPS:
                most = f"{MOST_STEPS:,} batches"
                raise QuestionError(
                    f"{{argument}} is too small: an epoch of {{sampling}} {{value}} has at most {most}.",
                    argument="batch_size" if self.sampling_rate is None else "sampling_rate",
                    value=loader,
                )
            return BY_EPOCHS[loader](mechanism, batches, **chosen)
        if self.mechanism not in SAMPLED_MECHANISMS:
            raise UnsupportedError(
                f"It is not known here what a Poisson-sampled {self.mechanism} costs: "
                f"sample a {listed(SAMPLED_MECHANISMS, 'or')}."
            )
        return PoissonSampled(mechanism, rate, **chosen)

    def _truncated(self, mechanism: Mechanism, rate: float, **chosen: str) -> Mechanism:
        """One round of a Poisson sample of which so many records are kept at most."""
        sizes = {"largest_batch": self.largest_batch, "dataset_size": self.dataset_size}
        for name, size in sizes.items():
            if size is None:
                raise QuestionError(
                    "{argument} is missing: with {sampling} truncated the cost depends on how often records are left "
                    "out.",
                    argument=name,
                )
        most, records = (_validate.count(name, cast(float, size), least=1) for name, size in sizes.items())
        return TruncatedPoissonSampled(mechanism, rate, most, records, **chosen)

    def _sizes(self) -> tuple[int, int]:
        """Records of a batch, and in all."""
        return int(cast(float, self.batch_size)), int(cast(float, self.dataset_size))

    def total_rounds(self) -> int:
        """How many rounds are meant."""
        if self.rounds is not None:
            self.refuse("epochs", because="the {rounds} are given already")
            return _validate.count("rounds", self.rounds)
        if self.epochs is None:
            raise QuestionError(
                "{argument} are missing: give {rounds}, or {epochs} with a sampling rate.", argument="rounds"
            )
        epochs = _as_written(_validate.real("epochs", self.epochs, WORDS["epochs"].interval))
        batches = self.batches_per_epoch()
        if batches is None:
            raise QuestionError(
                "{argument} need a sampling rate: give {batch_size} and {dataset_size}, or {sampling_rate}.",
                argument="epochs",
            )
        return _whole_up(epochs * batches)

    def batches_per_epoch(self) -> int | None:
        """How many batches hold all records once, the last perhaps not full; None if rounds do not sample.

        Examples
        --------
        >>> Setting(batch_size=1024, dataset_size=10_000).batches_per_epoch()
        10
        """
        rate = self.exact_rate()
        return _whole_up(1 / rate) if rate else None

    def epochs_of(self, rounds: int) -> float | None:
        """The epochs whose `total_rounds` are `rounds`, or None if these do not sample."""
        batches = self.batches_per_epoch()
        return None if batches is None else rounds / batches

    def pure_epsilon(self) -> float | None:
        """The double nearest to the sum of the rounds' largest losses as written; None if it is not that of decimals.

        Examples
        --------
        >>> Setting(mechanism="pure-dp", step_epsilon=0.1, rounds=10).pure_epsilon(), sum([0.1] * 10)
        (1.0, 0.9999999999999999)
        """
        if self.rate() not in (None, 1.0) or self.step_delta:
            return None
        if self.mechanism == "laplace" and self.noise_multiplier:
            loss = 1 / _as_written(float(self.noise_multiplier))
        elif self.step_epsilon is not None:
            loss = _as_written(float(self.step_epsilon))
        else:
            return None
        total = self.total_rounds() * loss
        return float(total) if total < LARGEST_DECIMAL_SUM else None

    def run(self) -> Run:
        """All rounds; where a step is an epoch, all epochs, of which the last is counted whole."""
        return self.step() * -(-self.total_rounds() // self.rounds_of_step)

    def resolved(self) -> Setting:
        """The same with its sampling rate and its rounds in place of what they follow from."""
        rate, rounds = self.rate(), self.total_rounds()
        if self.loader not in ("poisson", "none"):  # these are made of the sizes themselves
            return replace(self, rounds=rounds, epochs=None)
        return replace(self, sampling_rate=rate, batch_size=None, dataset_size=None, rounds=rounds, epochs=None)

    def with_noise(self, noise_multiplier: float) -> Setting:
        """The same with this noise."""
        return replace(self, noise_multiplier=noise_multiplier)

    def with_rate(self, sampling_rate: float) -> Setting:
        """The same at this sampling rate."""
        return replace(self, sampling_rate=sampling_rate, batch_size=None)


def _as_written(value: float) -> Fraction:
    """The decimal that a person wrote for this double: 0.1 is a tenth, so that 3 epochs of it are 30 rounds."""
    return Fraction(repr(value))


def _whole_up(quotient: Fraction) -> int:
    """The quotient rounded up; an excess over an integer that is no more than the rounding of a rate does not count."""
    nearest = round(quotient)
    return nearest if abs(quotient - nearest) <= RELATIVE_QUOTIENT_ERROR * quotient else math.ceil(quotient)

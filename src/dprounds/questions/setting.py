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

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.mechanisms import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    Run,
)

__all__ = ["MECHANISMS", "NOISY_MECHANISMS", "QuestionError", "Setting"]


class QuestionError(ParameterError):
    """A question lacks something, or contradicts itself; its arguments may each be in range."""


# What each word makes, and of which arguments.
MECHANISMS: dict[str, tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    "gaussian": (Gaussian, ("noise_multiplier",)),
    "laplace": (Laplace, ("noise_multiplier",)),
    "discrete-gaussian": (DiscreteGaussian, ("noise_multiplier",)),
    "randomized-response": (RandomizedResponse, ("step_epsilon",)),
    "pure-dp": (PureDP, ("step_epsilon",)),
    "approximate-dp": (ApproximateDP, ("step_epsilon", "step_delta")),
    "zcdp": (ZCDP, ("rho",)),
    "rdp-curve": (RdpCurve, ("orders", "rdps")),
}
NOISY_MECHANISMS = tuple(word for word, (_, needs) in MECHANISMS.items() if needs == ("noise_multiplier",))
PARAMETERS = tuple(dict.fromkeys(name for _, needs in MECHANISMS.values() for name in needs))

# What the rounding of a rate and of the epochs can do to their quotient.
QUOTIENT_ERROR = Fraction(4, 2**53)
# Above this no sum is one of decimals that anybody wrote.
LARGEST_SUM = 10**15
POSITIVE = _validate.Interval.parse("(0, inf)")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of round, and how often, each part optional until a question needs it.

    Parameters
    ----------
    mechanism
        A word of `MECHANISMS`.
    noise_multiplier
        Noise of a gaussian, laplace or discrete-gaussian over its sensitivity, in (0, inf).
    step_epsilon, step_delta
        The guarantee of one round of randomized-response, pure-dp or approximate-dp.
    rho
        That of zcdp.
    orders, rdps
        That of rdp-curve.
    sampling_rate
        Poisson inclusion probability, in [0, 1]; or else
    batch_size, dataset_size
        whose ratio it is. Without any of them a round sees every record.
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
    sampling_rate: float | None = None
    batch_size: float | None = None  # whole
    dataset_size: float | None = None  # whole
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
                raise QuestionError(f"{name} has no place here: {because}.")

    def bare_mechanism(self) -> Mechanism:
        """What one round releases of the records that it sees."""
        word = _validate.choice("mechanism", self.mechanism, tuple(MECHANISMS))
        make, needs = MECHANISMS[word]
        self.refuse(
            *(name for name in PARAMETERS if name not in needs), because=f"a {word} is made of {' and '.join(needs)}"
        )
        for name in needs:
            if getattr(self, name) is None:
                raise QuestionError(f"{name} is missing: a {word} is made of {' and '.join(needs)}.")
        return make(*(getattr(self, name) for name in needs))

    def rate(self) -> float | None:
        """The sampling rate, or None if every round sees every record."""
        exact = self.exact_rate()
        return None if exact is None else float(exact)

    def exact_rate(self) -> Fraction | None:
        """The sampling rate as it was written, free of rounding."""
        dataset = None if self.dataset_size is None else _validate.count("dataset_size", self.dataset_size, least=1)
        if self.sampling_rate is not None:
            self.refuse("batch_size", because="the sampling_rate is given already")
            return _as_written(_validate.real("sampling_rate", self.sampling_rate, _validate.SAMPLING_RATE))
        if self.batch_size is None:
            if dataset is not None:  # a full batch, which nobody meant who names the size of the data
                raise QuestionError(
                    "batch_size is missing: the sampling rate is batch_size / dataset_size. "
                    "Leave out dataset_size if every round sees every record."
                )
            return None
        batch = _validate.count("batch_size", self.batch_size, least=1)
        if dataset is None:
            raise QuestionError("dataset_size is missing: the sampling rate is batch_size / dataset_size.")
        if batch > dataset:
            raise QuestionError(f"batch_size must be at most the dataset_size {dataset}, got {batch}.")
        return Fraction(batch, dataset)

    def step(self) -> Mechanism:
        """One round."""
        rate = self.rate()
        mechanism = self.bare_mechanism()
        return mechanism if rate is None else PoissonSampled(mechanism, rate)

    def total_rounds(self) -> int:
        """How many rounds are meant."""
        if self.rounds is not None:
            self.refuse("epochs", because="the rounds are given already")
            return _validate.count("rounds", self.rounds)
        if self.epochs is None:
            raise QuestionError("rounds are missing: give rounds, or epochs with a sampling rate.")
        epochs = _as_written(_validate.real("epochs", self.epochs, POSITIVE))
        batches = self.batches_per_epoch()
        if batches is None:
            raise QuestionError("epochs need a sampling rate: give batch_size and dataset_size, or sampling_rate.")
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
        return float(total) if total < LARGEST_SUM else None

    def run(self) -> Run:
        """All rounds."""
        return self.step() * self.total_rounds()

    def resolved(self) -> Setting:
        """The same with its sampling rate and its rounds in place of what they follow from."""
        rate, rounds = self.rate(), self.total_rounds()
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
    """The least whole number from a quotient on; one that only the rounding of a rate such as 1/15 exceeds is meant."""
    nearest = round(quotient)
    return nearest if abs(quotient - nearest) <= QUOTIENT_ERROR * quotient else math.ceil(quotient)

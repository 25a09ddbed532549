"""Noisy SGD in NumPy alone, accounted as it runs: Algorithm 1 of [ACGMMTZ16], the loop that the paper accounts for.

>>> import numpy as np
>>> from dprounds.integrations.noisy_sgd import LogisticGradients, NoisySGD
>>> features = np.random.default_rng(0).normal(size=(500, 3))
>>> labels = (features[:, 0] > 0).astype(int)
>>> training = NoisySGD(
...     LogisticGradients(features, labels), np.zeros(4), records=len(features), public_records=500, sampling_rate=0.1,
...     noise_multiplier=4.0, clip_norm=1.0, learning_rate=0.5, epsilon=1.0, delta=1e-5,
... )
>>> training.run()          # until one more round would exceed the budget
103
>>> training.remaining, training.accountant.epsilon(delta=1e-5) <= 1.0
(0, True)

What is promised, and what is not. The guarantee is for adding or removing one record. It covers every noisy gradient,
so every checkpoint and the final weights; none of them holds the number of records. Noise and lots come from NumPy's
generator, which is not cryptographic, in doubles, whose gaps can reveal more than real numbers do (Mironov, CCS 2012).
Time, memory and error messages are outside the promise. Everything else that is passed, `public_records`, the
sampling rate, the number of rounds, learning rate, clipping norm and the choice of features, must be chosen without
looking at the records, or the choice must be accounted for.

The noisy sum is divided by ``sampling_rate * public_records``. A divisor that is computed from the number of records
scales the noise with that number, and many weights then show which of two numbers it was, whatever epsilon is. If the
number of records is public, it may be `public_records`; the guarantee is then for replacing one record by an empty one,
with the number fixed (zero-out), and not for adding or removing one.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dprounds import _validate
from dprounds.accountant import Accountant, checked_accountant
from dprounds.errors import NumericalError, ParameterError
from dprounds.integrations.checkpoints import REAL, Saved, joined, locked, read, resolved, sync_folder, write
from dprounds.integrations.gradients import GradientSum, LogisticGradients, PerExampleGradients, clip_factors
from dprounds.mechanisms import Gaussian, Mechanism, PoissonSampled, Run
from dprounds.planning import max_rounds

if TYPE_CHECKING:  # a ledger needs SQLAlchemy, and this file does not
    from dprounds.ledger import Grant

__all__ = ["GradientSum", "LogisticGradients", "NoisySGD", "PerExampleGradients", "clip_factors"]

RATE = _validate.Interval.parse("(0, 1]", _validate.SAMPLING_RATE.hint)
POSITIVE = _validate.Interval.parse("(0, inf)")
# Far outside this range, squares of gradients that must be clipped would underflow or overflow.
CLIP_NORM = _validate.Interval.parse("[1e-100, 1e100]")
# Chosen without looking at any data. It suits some hundreds to some thousands of records.
DEFAULT_PUBLIC_RECORDS = 1000.0
# The upper end is above the size of every data set.
PUBLIC_RECORDS = _validate.Interval.parse("[1, 1e18]", "It is a public number of records, near the true one.")
# The plan and the record depend on these, so they cannot change: noise, lots, budget, and where the record is.
FIXED = {
    "records",
    "public_records",
    "step",
    "sampling_rate",
    "noise_multiplier",
    "clip_norm",
    "epsilon",
    "delta",
    "method",
    "accountant",
    "checkpoint",
    "reserve",
    "grant",
}


class NoisySGD:
    """A training run that stops before the round that would exceed its budget, and survives being killed.

    Every round draws a lot: each record is in it with probability `sampling_rate`, independently of the others. (An
    empty lot is noised and recorded too.) The round sums the clipped gradients, adds Gaussian noise of standard
    deviation ``noise_multiplier * clip_norm``, divides by ``sampling_rate * public_records`` and takes a step.

    With a `checkpoint` rounds are recorded on disk, `reserve` at a time, *before* the first of them is computed; the
    weights are saved with the next reservation. What a killed run had reserved counts as spent when it resumes, whether
    or not those rounds took place: they may have been seen, and the next ones draw new noise. So the record never lags
    behind a release, and a kill costs at most `reserve` rounds. A run that ends by itself gives back what it did not
    use.

    What the plan depends on is fixed. To train with other noise, another clipping norm or another budget, make another
    run with the same accountant. Runs in several threads may share one accountant, and keep to the budget together.

    Parameters
    ----------
    gradient_sum
        The clipped sum for a lot: `LogisticGradients`, or `PerExampleGradients` around any function. Its promise to
        clip is what the guarantee rests on.
    weights
        First weights, one axis; they must not depend on the records.
    records
        Number of records to draw lots from. It may be secret: the weights depend on it through the lots alone, and a
        checkpoint does not hold it.
    public_records
        A public number of records, near the true one, in [1, 1e18]; the noisy sum is divided by ``sampling_rate *
        public_records``. It acts as the learning rate does: half of it doubles every step. Do not compute it from the
        records, not even by counting them: the guarantee is then only for replacing a record by an empty one. By
        default 1,000, whatever the records are.
    sampling_rate
        Probability that a record is in a lot, in (0, 1]; public, so not computed from the number of records either.
    noise_multiplier
        Standard deviation of the noise over `clip_norm`, in (0, inf).
    clip_norm
        Largest norm of one record's gradient, in [1e-100, 1e100].
    learning_rate
        A positive number, or a function from the number of rounds so far to one.
    epsilon, delta
        The budget for all that `accountant` holds. delta must be below ``1 / public_records``: publishing one record of
        n in the clear has a delta of 1/n.
    method
        The bound to account by; exact by default.
    accountant
        What was spent before on the same records; new by default. It records every round before the round is computed.
        A copy of an accountant, or one from another process, is refused. On resuming, leave it out, or pass one of
        these: an empty one; the very object that has recorded this training; one restored by `Accountant.from_json` as
        it was when the training began or when it was saved. It is brought up to what the checkpoint holds. Any other
        accountant counts as spent in addition to that, even if it holds the same total, since other rounds may cost as
        much. Everything that the checkpoint holds is added to it: nothing is forgotten, and what is in both counts
        twice.
    checkpoint
        A file to resume from if it exists, and to keep the run in; a link is followed to its file. An older copy put in
        its place undoes the record.
    reserve
        Rounds recorded on disk at a time, at least 1. A larger number takes less time, and loses more rounds to a kill.
    grant
        A `Grant <dprounds.ledger.Grant>` of a ledger: leave to make rounds of this step. The run makes no more of them
        than were granted, whatever `epsilon` allows, and begins the work of the grant once: after a crash it goes on
        from its `checkpoint` or not at all. The ledger adds up all jobs, so `accountant` is left out; so is
        `random_state`, since a run under another grant would share the noise of its seed. Committing is up to you.
    random_state
        None, for noise that nobody can know: use it wherever privacy counts. A seed makes the run repeatable, and
        **void of privacy against whoever knows it**: the noise can be computed and subtracted. Two runs with one seed
        and different accountants **share their lots and noise**. On the same or overlapping records the sum of their
        epsilons does not cover both together, since a combination of them may have no noise at all. Runs that share an
        accountant, and a run that resumes, draw from streams of their own.

    Theorem
    -------
    [ACGMMTZ16, Algorithm 1]; composed as `PoissonSampled(Gaussian(noise_multiplier), sampling_rate)`.
    """

    def __init__(
        self,
        gradient_sum: GradientSum,
        weights: ArrayLike,
        *,
        records: int,
        public_records: float = DEFAULT_PUBLIC_RECORDS,
        sampling_rate: float,
        noise_multiplier: float,
        clip_norm: float,
        learning_rate: float | Callable[[int], float],
        epsilon: float,
        delta: float,
        method: str | None = None,
        accountant: Accountant | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        reserve: int = 1,
        grant: Grant | None = None,
        random_state: int | None = None,
    ) -> None:
        self.gradient_sum = gradient_sum
        self.weights = _validate.real_array("weights", weights, REAL).copy()
        if self.weights.ndim != 1:
            raise ParameterError(f"weights must have one axis, got shape {self.weights.shape}.")
        self.records = _validate.count("records", records, least=1)
        self.public_records = _validate.real("public_records", public_records, PUBLIC_RECORDS)
        rate = _validate.real("sampling_rate", sampling_rate, RATE)
        self.step: Mechanism = PoissonSampled(Gaussian(noise_multiplier), rate)
        self.sampling_rate, self.noise_multiplier = rate, float(noise_multiplier)
        self.clip_norm = _validate.real("clip_norm", clip_norm, CLIP_NORM)
        self.learning_rate = (
            learning_rate if callable(learning_rate) else _validate.real("learning_rate", learning_rate, POSITIVE)
        )
        self.epsilon, self.delta, self.method = epsilon, checked_delta(delta, self.public_records), method
        self.accountant = Accountant() if accountant is None else checked_accountant("accountant", accountant)
        self.checkpoint: Path | None = None if checkpoint is None else resolved(checkpoint)
        self.reserve = _validate.count("reserve", reserve, least=1)
        if grant is not None:
            check_grant(grant, self.step, accountant=accountant, random_state=random_state)
        self.grant, self._has_grant = grant, False
        self.rounds = 0
        self._seed = None if random_state is None else _validate.count("random_state", random_state)
        self._streams: list[np.random.Generator] = []
        self._start = copy.copy(self.accountant)
        # `_left` rounds are left while the accountant's stamp is `_seen`; `_planned` is what was spent when the plan
        # was made, and how many rounds the plan allowed
        self._seen, self._left = "", 0
        self._planned = (Run(), 0)
        self._on_disk = None if self.checkpoint is None else read(self.checkpoint)
        if self._on_disk is not None:
            self._resume(self._on_disk)
        self._plan()

    def __setattr__(self, name: str, value: object) -> None:
        if name in FIXED and name in self.__dict__:
            raise AttributeError(
                f"{name} is fixed, since this run was planned by it: make another run with the same accountant."
            )
        super().__setattr__(name, value)

    @property
    def remaining(self) -> int:
        """Rounds that the budget still allows, in addition to everything that the accountant holds."""
        stamp = self.accountant.stamp
        if stamp != self._seen:  # someone else has recorded in it
            now, (before, allowed) = self.accountant.run, self._planned
            since = max(dict(now.parts).get(self.step, 0) - dict(before.parts).get(self.step, 0), 0)
            if now == before + self.step * since:  # rounds of the same step: the plan still holds
                self._left = max(allowed - since, 0)
                self._seen = stamp
            else:
                self._plan()
        return self._left

    def run(self, rounds: int | None = None, *, after_round: Callable[[NoisySGD], None] | None = None) -> int:
        """Number of rounds run: all that the budget allows, or `rounds` if that is fewer.

        Guarantee
        ---------
        Raises, or has recorded every round before it was computed, and none beyond the budget.

        Parameters
        ----------
        rounds
            The most rounds to run; by default as many as the budget allows.
        after_round
            Called with this object after each round. What it shows of the weights is covered by the guarantee. What it
            shows of the records is not, unless it records that in the accountant first. What it records is in the
            checkpoint as soon as it returns or raises, and before the next round; a kill while it runs may lose that.
            The same holds for what `gradient_sum` and `learning_rate` record.
        """
        most = None if rounds is None else _validate.count("rounds", rounds)
        checked_accountant("accountant", self.accountant)  # a copy of this run has a copy of it, and the same noise
        done = 0
        with locked(self.checkpoint):
            self._check_disk()
            if self.grant is not None and not self._has_grant:
                self.grant.take(resumes=self._on_disk is not None)
                self._has_grant = True
            while left := self.remaining if most is None else min(self.remaining, most - done):
                block = left if self.checkpoint is None else min(self.reserve, left)
                self._save(ahead=block)
                for ahead in reversed(range(block)):
                    stamp = self.accountant.record_if(self.step, self._seen)
                    if stamp is None:  # another thread has recorded since the plan
                        break
                    self._left -= 1
                    self._seen = stamp  # last, so that after an interrupt before it the rest is counted again
                    try:
                        self._round()
                        done += 1
                        if after_round is not None:
                            after_round(self)
                    finally:
                        # Checked after every round: any function that it called may have recorded. That goes to disk
                        # before anything else.
                        others = self.accountant.stamp != stamp
                        if others:
                            self._save(ahead=ahead)
                    if others:
                        break
            self._save(ahead=0)
        return done

    def _round(self) -> None:
        """One release: the step that was just recorded."""
        if not self._streams:
            # Two rounds with the same noise would let it be subtracted. So the streams are made after the first round
            # is recorded: no other round has that total, in any run on this accountant and in any thread.
            spent, allowed = self._planned
            self._streams = _generator(self._seed, spent + self.step * (allowed - self._left)).spawn(2)
        (lots, noise), shape = self._streams, self.weights.shape
        # a binomial number of distinct records has the same law as one coin per record, without n coins
        size = int(lots.binomial(self.records, self.sampling_rate))
        lot = lots.choice(self.records, size, replace=False, shuffle=False)
        total = np.asarray(self.gradient_sum(self.weights, lot, self.clip_norm), dtype=np.float64)
        if total.shape != shape or not np.isfinite(total).all():
            raise NumericalError(f"gradient_sum must return {shape[0]} finite numbers, got shape {total.shape}.")
        noisy = total + noise.normal(scale=self.noise_multiplier * self.clip_norm, size=shape)
        rate = self.learning_rate(self.rounds) if callable(self.learning_rate) else self.learning_rate
        # public numbers alone: with a divisor that counts the records, the size of the noise would reveal their number
        weights = self.weights - rate / (self.sampling_rate * self.public_records) * noisy
        if not np.isfinite(weights).all():
            raise NumericalError("The weights are not finite. Lower learning_rate.")
        self.weights, self.rounds = weights, self.rounds + 1

    def _plan(self) -> None:
        """Compute once how many rounds are left; after this every round takes one off."""
        stamp = self.accountant.stamp  # first, so that whatever is recorded after it is noticed before the next round
        spent = self.accountant.run
        allowed = max_rounds(self.step, epsilon=self.epsilon, delta=self.delta, method=self.method, spent=spent)
        if self.grant is not None:
            allowed = min(allowed, granted_rounds(self.grant, self.step, spent))
        self._seen = ""
        self._planned, self._left = (spent, allowed), allowed
        self._seen = stamp  # last, so that after an interrupt before it all is planned again

    def _resume(self, saved: Saved) -> None:
        if saved.weights.shape != self.weights.shape or saved.public_records != self.public_records:
            raise ParameterError(
                f"checkpoint must be of {self.weights.size} weights and public_records={self.public_records:.15g}, got "
                f"one of {saved.weights.size} and {saved.public_records:.15g}: it belongs to another training."
            )
        while True:
            stamp = self.accountant.stamp
            self._start, total = joined(saved, self.accountant)
            if self.accountant.replace_if(total, stamp):
                break  # otherwise another thread has recorded meanwhile: join again
        self.weights, self.rounds = saved.weights, saved.rounds

    def _save(self, *, ahead: int) -> None:
        """Write to disk the weights, everything recorded, and `ahead` more rounds."""
        if self.checkpoint is None:
            return
        total = Accountant.from_json(self.accountant.to_json())  # raises for what could not be read again
        if ahead:
            total.record(self.step, rounds=ahead)
        saved = Saved(self.weights, self.rounds, self.public_records, self._start, total)
        write(self.checkpoint, saved, self.accountant, self._on_disk)
        self._on_disk = saved  # only after it is written: a full disk may have room later
        sync_folder(self.checkpoint)

    def _check_disk(self) -> None:
        """Refuse a checkpoint that another run has changed: writing over it would forget what that run has spent."""
        if self.checkpoint is None:
            return
        found, known = read(self.checkpoint), self._on_disk
        if (found and found.stamp) != (known and known.stamp):
            raise ParameterError(
                f"checkpoint {self.checkpoint.name!r} is not as this run left it: another run has used it, or it was "
                "removed. Start again from what it holds now."
            )


def check_grant(grant: Grant, step: Mechanism, *, accountant: object, random_state: object) -> None:
    """Raise where a grant does not cover a round of `step`, or what is given with it contradicts it."""
    if accountant is not None:
        raise ParameterError("accountant must be left out where there is a grant: the ledger adds up all jobs.")
    if random_state is not None:
        raise ParameterError(
            "random_state must be left out where there is a grant: runs under two grants would share their noise."
        )
    if not grant.covers(step):
        raise ParameterError(f"grant must cover rounds of {step!r}, got one of {_validate.show(grant.run)}.")


def granted_rounds(grant: Grant, step: Mechanism, spent: Run) -> int:
    """Rounds of `step` that a grant still covers, in addition to what is spent of it; 0 where more was spent."""
    return dict(grant.run.parts).get(step, 0) - dict(spent.parts).get(step, 0) if grant.covers(spent) else 0


def checked_delta(delta: float, public_records: float) -> float:
    """`delta`, or `ParameterError` where it promises nothing: publishing one record of n is (0, 1/n)-DP."""
    most = 1.0 / public_records
    hint = f"From 1 / public_records on it would allow one record in the clear: take, say, {most / 10.0:.1g}."
    return _validate.real("delta", delta, _validate.Interval(f"(0, {most:.4g})", 0.0, most, False, False, hint))


def _generator(seed: int | None, total: Run) -> np.random.Generator:
    """The source of lots and noise, from the seed and everything recorded; unpredictable without a seed."""
    if seed is None:
        return np.random.default_rng()
    name = hashlib.sha256(f"{seed} {total!r}".encode()).digest()
    return np.random.default_rng(int.from_bytes(name, "big"))

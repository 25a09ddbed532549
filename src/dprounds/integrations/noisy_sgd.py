"""Noisy SGD in NumPy alone, accounted as it runs: Algorithm 1 of [ACGMMTZ16], the loop that the paper accounts for.

>>> import numpy as np
>>> from dprounds.integrations.noisy_sgd import LogisticGradients, NoisySGD
>>> features = np.random.default_rng(0).normal(size=(500, 3))
>>> labels = (features[:, 0] > 0).astype(int)
>>> training = NoisySGD(
...     LogisticGradients(features, labels), np.zeros(4), records=500, sampling_rate=0.1, noise_multiplier=4.0,
...     clip_norm=1.0, learning_rate=0.5, epsilon=1.0, delta=1e-5,
... )
>>> training.run()          # until one more round would exceed the budget
103
>>> training.remaining, training.accountant.epsilon(delta=1e-5) <= 1.0
(0, True)

What is promised, and what is not. The guarantee is for adding or removing one record, their number being public, and
covers every noisy gradient, hence every checkpoint and the final weights. Noise and lots come from NumPy's generator,
which is not cryptographic, in doubles, whose gaps can tell more than real numbers would (Mironov, CCS 2012). Time,
memory and error messages are outside of the promise. Learning rate, clipping norm and features must be chosen without
looking at the records, or their choice be accounted for.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.accountant import Accountant
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms import Gaussian, Mechanism, PoissonSampled
from dprounds.mechanisms.composition import Run

__all__ = ["GradientSum", "LogisticGradients", "NoisySGD", "PerExampleGradients", "clip_factors"]

Array: TypeAlias = NDArray[np.float64]
Lot: TypeAlias = NDArray[np.intp]

RATE = _validate.Interval.parse("(0, 1]", _validate.SAMPLING_RATE.hint)
POSITIVE = _validate.Interval.parse("(0, inf)")
# Far outside of this, squares of gradients that ought to be clipped would underflow or overflow.
CLIP_NORM = _validate.Interval.parse("[1e-100, 1e100]")
REAL = _validate.Interval.parse("(-inf, inf)")
FORMAT = "dprounds.noisy_sgd"
VERSION = 2
# All that reading bytes that are no whole archive of arrays was seen or is documented to raise.
UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class GradientSum(Protocol):
    """The sum over a lot of per-example gradients, each scaled to norm at most `clip_norm` (one number a weight)."""

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the clipped gradients at `weights` of the records whose positions are in `lot`, which may be empty."""
        ...


def clip_factors(norms: Array, clip_norm: float, *, terms: int) -> Array:
    """Factors in (0, 1] that bring gradients of these norms to at most `clip_norm`.

    Guarantee
    ---------
    Raises, or scales every gradient to a norm of at most `clip_norm` in real numbers, though `norms` were rounded as
    sums of `terms` squares: the bound is lowered by what that may have hidden.

    Parameters
    ----------
    norms
        Norms of the gradients, one an example.
    clip_norm
        The bound, in [1e-100, 1e100].
    terms
        Numbers in a gradient.
    """
    if not np.isfinite(norms).all():
        # a bound on the sensitivity cannot be kept, so there is no release
        raise NumericalError("A per-example gradient is not finite: no noise covers it. Lower learning_rate.")
    # a sum of n squares, its root, the quotient and the product round by less than (n + 4) 2^-53 of the norm together
    lowered = clip_norm * (1.0 - (terms + 8) * 2.0**-53)
    return np.minimum(1.0, lowered / np.maximum(norms, np.finfo(np.float64).tiny))


class PerExampleGradients:
    """Clipped sums of gradients from a function that returns a row for every record of a lot."""

    def __init__(self, gradients: Callable[[Array, Lot], ArrayLike]) -> None:
        self.gradients = gradients

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the rows for `lot`, each scaled to norm at most `clip_norm`."""
        if not lot.size:
            return np.zeros_like(weights)
        rows = np.asarray(self.gradients(weights, lot), dtype=np.float64)
        if rows.shape != (lot.size, weights.size):
            raise ParameterError(
                f"gradients must return a row of {weights.size} numbers for each of the {lot.size} records in the lot, "
                f"got shape {rows.shape}. A sum over the lot cannot be clipped by example."
            )
        total: Array = clip_factors(np.sqrt(np.einsum("ij,ij->i", rows, rows)), clip_norm, terms=weights.size) @ rows
        return total


class LogisticGradients:
    """Clipped sums of the gradients of logistic regression, by example but without a matrix of them.

    A gradient is the outer product of a record's features (and a 1 for the intercept) with its residuals, so its norm
    is the product of theirs.

    Parameters
    ----------
    features
        One row a record; finite.
    labels
        Class of each record, an integer in [0, classes).
    classes
        Number of classes; for 2 there is one column of weights, else one for each.
    """

    def __init__(self, features: ArrayLike, labels: ArrayLike, *, classes: int = 2) -> None:
        given = np.asarray(features, dtype=np.float64)
        if given.ndim != 2 or not np.isfinite(given).all():
            raise ParameterError(f"features must be a matrix of finite numbers, got shape {given.shape}.")
        self.classes = _validate.count("classes", classes, least=2)
        self.labels = np.asarray(labels)
        if self.labels.shape != given.shape[:1] or self.labels.dtype.kind not in "iu":
            raise ParameterError(f"labels must be {len(given)} integers, got shape {self.labels.shape}.")
        if self.labels.size and not (self.labels.min() >= 0 and self.labels.max() < self.classes):
            raise ParameterError(
                f"labels must be in [0, {self.classes}), got {self.labels.min()}..{self.labels.max()}."
            )
        self.features = np.hstack([given, np.ones((len(given), 1))])
        with np.errstate(over="ignore"):
            self.norms = np.sqrt(np.einsum("ij,ij->i", self.features, self.features))
        if not np.isfinite(self.norms).all():
            raise ParameterError("features must have finite norms, got a row whose squares overflow.")

    @property
    def columns(self) -> int:
        """Columns of weights: one for two classes."""
        return 1 if self.classes == 2 else self.classes

    @property
    def size(self) -> int:
        """Number of weights: features and intercept, for every column."""
        return int(self.features.shape[1]) * self.columns

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the gradients of `lot`, each scaled to norm at most `clip_norm`."""
        rows = self.features[lot]
        with np.errstate(over="ignore", invalid="ignore"):  # a score beyond the floats is refused below, by its norm
            scores = rows @ weights.reshape(rows.shape[1], self.columns)
            residuals = probabilities(scores)[:, -self.columns :]
        if self.columns == 1:
            residuals[:, 0] -= self.labels[lot]
        else:
            residuals[np.arange(lot.size), self.labels[lot]] -= 1.0
        norms = self.norms[lot] * np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        factors = clip_factors(norms, clip_norm, terms=weights.size)
        total: Array = (rows.T @ (residuals * factors[:, None])).ravel()
        return total


def probabilities(scores: Array) -> Array:
    """Probability of each class, from one score a class, or from one score a record for two classes."""
    full = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
    shifted = np.exp(full - full.max(axis=1, keepdims=True))
    result: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class _Saved:
    """What a checkpoint holds. No state of a random generator: whoever reads it could subtract the noise.

    `start` is what the accountant held when the training began, `accountant` all that is spent, `start` and reserved
    rounds included, and `stamp` a name that no other save has.
    """

    weights: Array
    rounds: int
    records: int
    start: Accountant
    accountant: Accountant
    stamp: str


# The accountants of this process that have recorded all that a checkpoint of this stamp says was computed. Equal totals
# would not tell: two trainings with one budget end at the same.
_holders: WeakValueDictionary[str, Accountant] = WeakValueDictionary()


class NoisySGD:
    """A training run that stops before the round that would exceed its budget, and survives being killed.

    Every round draws a lot in which each record is with probability `sampling_rate` on its own (it may be empty, and
    is noised and recorded all the same), sums the clipped gradients, adds Gaussian noise of standard deviation
    ``noise_multiplier * clip_norm``, divides by the expected size of a lot and takes a step.

    With a `checkpoint` rounds are recorded on disk, `reserve` at a time, *before* the first of them is computed; the
    weights are saved with the next reservation. What a killed run had reserved counts as spent when it resumes, whether
    or not those rounds took place: they may have been seen, and the next ones draw new noise. So the record never lags
    behind a release, and a kill costs at most `reserve` rounds. A run that ends by itself gives back what it did not
    use.

    Parameters
    ----------
    gradient_sum
        The clipped sum for a lot: `LogisticGradients`, or `PerExampleGradients` around any function. Its promise to
        clip is what the guarantee rests on.
    weights
        First weights, one axis; they must not depend on the records.
    records
        Number of records, public.
    sampling_rate
        Probability that a record is in a lot, in (0, 1].
    noise_multiplier
        Standard deviation of the noise over `clip_norm`, in (0, inf).
    clip_norm
        Largest norm of one record's gradient, in [1e-100, 1e100].
    learning_rate
        A positive number, or a function from the number of rounds so far to one.
    epsilon, delta
        The budget for all that `accountant` holds.
    method
        The bound to account by; exact by default.
    accountant
        What was spent before on the same records; new by default. It records every round before that is computed.
        On resuming leave it out, or pass it as it was when the training began, or the very object that has recorded
        this training: it is brought up to what the checkpoint holds. Any other one is taken for spent beside that, and
        all that the checkpoint holds is added to it: nothing is forgotten, and what is in both counts twice.
    checkpoint
        A file to resume from if it is there, and to keep the run in. An older copy put in its place undoes the record.
    reserve
        Rounds recorded on disk at a time, at least 1: more cost less time, and more rounds when killed.
    random_state
        None, for noise that nobody can know: use it wherever privacy counts. A seed makes the run repeatable, and
        **void of privacy against whoever knows it**: the noise can be computed and subtracted. Two runs with one seed
        and an `accountant` each **share their lots and noise**; on the same or overlapping records the two together are
        not covered by the sum of their epsilons, since a combination of them may have no noise at all. Runs that share
        an accountant, and a run that resumes, draw from streams of their own.

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
        random_state: int | None = None,
    ) -> None:
        self.gradient_sum = gradient_sum
        self.weights = _validate.real_array("weights", weights, REAL).copy()
        if self.weights.ndim != 1:
            raise ParameterError(f"weights must have one axis, got shape {self.weights.shape}.")
        self.records = _validate.count("records", records, least=1)
        rate = _validate.real("sampling_rate", sampling_rate, RATE)
        self.step: Mechanism = PoissonSampled(Gaussian(noise_multiplier), rate)
        self.sampling_rate, self.noise_multiplier = rate, float(noise_multiplier)
        self.clip_norm = _validate.real("clip_norm", clip_norm, CLIP_NORM)
        self.learning_rate = (
            learning_rate if callable(learning_rate) else _validate.real("learning_rate", learning_rate, POSITIVE)
        )
        self.epsilon, self.delta, self.method = epsilon, delta, method
        self.accountant = Accountant() if accountant is None else accountant
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.reserve = _validate.count("reserve", reserve, least=1)
        self.rounds = 0
        self._seed = None if random_state is None else _validate.count("random_state", random_state)
        self._generator: np.random.Generator | None = None
        self._start = self.accountant.run
        self._on_disk = None if self.checkpoint is None else _read(self.checkpoint)
        if self._on_disk is not None:
            self._resume(self._on_disk)
        self._plan()

    @property
    def remaining(self) -> int:
        """Rounds that the budget still allows, beside all that the accountant holds."""
        if self.accountant.run != self._planned_at + self.step * self._since:  # someone else has spent from it
            self._plan()
        return self._allowed - self._since

    def run(self, rounds: int | None = None, *, after_round: Callable[[NoisySGD], None] | None = None) -> int:
        """Number of rounds run: all that the budget allows, or `rounds` if that is fewer.

        Guarantee
        ---------
        Raises, or has recorded every round before it was computed, and none beyond the budget.

        Parameters
        ----------
        rounds
            At most so many; as many as the budget allows by default.
        after_round
            Called with this object after each round. What it shows of the weights is covered by the guarantee; what it
            shows of the records is not, unless it records that in the accountant first. That is in the checkpoint as
            soon as it returns or raises, and before the next round; a kill while it runs may lose it.
        """
        most = None if rounds is None else _validate.count("rounds", rounds)
        done = 0
        with _locked(self.checkpoint):
            self._check_disk()
            while left := self.remaining if most is None else min(self.remaining, most - done):
                block = left if self.checkpoint is None else min(self.reserve, left)
                self._save(ahead=block)
                reserved = self.accountant.run + self.step * block
                for ahead in reversed(range(block)):
                    self.accountant.record(self.step)
                    self._since += 1
                    self._round()
                    done += 1
                    if after_round is not None and self._others_spent(after_round, reserved, ahead):
                        break
            self._save(ahead=0)
        return done

    def _others_spent(self, after_round: Callable[[NoisySGD], None], reserved: Run, ahead: int) -> bool:
        """Whether `after_round` recorded something; if so it is on disk, beside the `ahead` rounds still reserved."""
        try:
            after_round(self)
        finally:
            others = self.accountant.run + self.step * ahead != reserved
            if others:
                self._save(ahead=ahead)
        return others

    def _round(self) -> None:
        """One release: the step that was just recorded."""
        if self._generator is None:
            # Two rounds with the same noise would let it be subtracted. So not before the first round is recorded: then
            # the total is one that no round before it had, by whichever run on this accountant.
            self._generator = _generator(self._seed, self.accountant)
        generator, shape = self._generator, self.weights.shape
        # a binomial number of distinct records is the same law as a coin for each, without n coins
        size = int(generator.binomial(self.records, self.sampling_rate))
        lot = generator.choice(self.records, size, replace=False, shuffle=False)
        total = np.asarray(self.gradient_sum(self.weights, lot, self.clip_norm), dtype=np.float64)
        if total.shape != shape or not np.isfinite(total).all():
            raise NumericalError(f"gradient_sum must return {shape[0]} finite numbers, got shape {total.shape}.")
        noisy = total + generator.normal(scale=self.noise_multiplier * self.clip_norm, size=shape)
        rate = self.learning_rate(self.rounds) if callable(self.learning_rate) else self.learning_rate
        weights = self.weights - rate / (self.sampling_rate * self.records) * noisy
        if not np.isfinite(weights).all():
            raise NumericalError("The weights have left the floats. Lower learning_rate.")
        self.weights, self.rounds = weights, self.rounds + 1

    def _plan(self) -> None:
        """Ask once how many rounds are left; from here on every round takes one off."""
        self._planned_at, self._since = self.accountant.run, 0
        self._allowed = self.accountant.remaining_rounds(
            self.step, epsilon=self.epsilon, delta=self.delta, method=self.method
        )

    def _resume(self, saved: _Saved) -> None:
        if saved.weights.shape != self.weights.shape or saved.records != self.records:
            raise ParameterError(
                f"checkpoint must be of {self.weights.size} weights and {self.records} records, got one of "
                f"{saved.weights.size} and {saved.records}: it belongs to another training."
            )
        self._start, total = _joined(saved, self.accountant)
        held = dict(self.accountant.run.parts)
        for step, rounds in total.parts:
            self.accountant.record(step, rounds=rounds - held.get(step, 0))
        self.weights, self.rounds = saved.weights, saved.rounds

    def _save(self, *, ahead: int) -> None:
        """Put the weights, and everything recorded and `ahead` more rounds, on disk."""
        if self.checkpoint is None:
            return
        start, total = Accountant(), Accountant.from_json(self.accountant.to_json())  # refuses what could not be read
        start.record(self._start)
        total.record(self.step, rounds=ahead)
        previous = self._on_disk
        self._on_disk = _Saved(self.weights, self.rounds, self.records, start, total, secrets.token_hex(16))
        _write(self.checkpoint, self._on_disk)
        if previous is not None:
            _holders.pop(previous.stamp, None)
        _holders[self._on_disk.stamp] = self.accountant

    def _check_disk(self) -> None:
        """Refuse a checkpoint that has moved on: writing over it would forget what another run has spent."""
        if self.checkpoint is None:
            return
        found, known = _read(self.checkpoint), self._on_disk
        if (found and found.stamp) != (known and known.stamp):
            raise ParameterError(
                f"checkpoint {self.checkpoint.name!r} is not as this run left it: another run has used it, or it was "
                "removed. Start again from what it holds now."
            )


def planned_beside(checkpoint: str | os.PathLike[str] | None, accountant: Accountant) -> Run:
    """What was spent when the training in `checkpoint` began, or by now if there is none."""
    saved = None if checkpoint is None else _read(Path(checkpoint))
    return accountant.run if saved is None else _joined(saved, accountant)[0]


def _joined(saved: _Saved, accountant: Accountant) -> tuple[Run, Run]:
    """What counts as spent before the training, and all that is spent, if it goes on with this accountant."""
    start, total, given = saved.start.run, saved.accountant.run, accountant.run
    if given.parts and given != start and _holders.get(saved.stamp) is not accountant:
        return given, given + total
    # what is in both is the same
    held, kept = dict(given.parts), dict(total.parts)
    return start, Run(tuple((step, max(held.get(step, 0), kept.get(step, 0))) for step in {**held, **kept}))


def _generator(seed: int | None, accountant: Accountant) -> np.random.Generator:
    """The source of lots and noise: of a stream named by the seed and all that is recorded, or of one nobody knows."""
    if seed is None:
        return np.random.default_rng()
    name = hashlib.sha256(f"{seed} {accountant.to_json()}".encode()).digest()
    return np.random.default_rng(int.from_bytes(name, "big"))


def _write(path: Path, saved: _Saved) -> None:
    """Replace the checkpoint: whoever reads it sees all of the old or all of the new one, also after a power cut."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        np.savez(
            file,
            format=np.array(f"{FORMAT} {VERSION}"),
            weights=saved.weights,
            rounds=np.array(saved.rounds),
            records=np.array(saved.records),
            start=np.array(saved.start.to_json()),
            accountant=np.array(saved.accountant.to_json()),
            stamp=np.array(saved.stamp),
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)  # the new name must be on disk too, before the rounds it reserves
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> _Saved | None:
    """The checkpoint, None if there is none, or `ParameterError`: a damaged record is never taken for an empty one."""
    if not path.parent.is_dir():
        raise ParameterError(f"checkpoint {path.name!r} must be in a folder that exists.")
    unreadable = ParameterError(f"checkpoint {path.name!r} cannot be read: it is damaged, or no checkpoint.")
    try:
        # every member is compared with its checksum before NumPy looks at it
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        form = _text(members["format.npy"])
    except FileNotFoundError:
        return None
    except UNREADABLE:
        raise unreadable from None
    if form != f"{FORMAT} {VERSION}":
        raise ParameterError(f"checkpoint {path.name!r} must have format '{FORMAT} {VERSION}', got {form!r:.60}.")
    try:
        return _Saved(
            _validate.real_array("weights", _array(members["weights.npy"]), REAL),
            _validate.count("rounds", _array(members["rounds.npy"]).item()),
            _validate.count("records", _array(members["records.npy"]).item(), least=1),
            Accountant.from_json(_text(members["start.npy"])),
            Accountant.from_json(_text(members["accountant.npy"])),
            _text(members["stamp.npy"]),
        )
    except UNREADABLE:  # a `ParameterError` is a `ValueError`
        raise unreadable from None


def _array(member: bytes) -> NDArray[np.generic]:
    """One array of a checkpoint."""
    array: NDArray[np.generic] = np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)
    return array


def _text(member: bytes) -> str:
    """One text of a checkpoint."""
    text = _array(member).item()
    if not isinstance(text, str):
        raise TypeError
    return text


@contextmanager
def _locked(checkpoint: Path | None) -> Iterator[None]:
    """One run at a time may spend from a checkpoint; the lock goes when its process does."""
    if checkpoint is None:
        yield
        return
    try:
        import fcntl  # noqa: PLC0415  (POSIX only, and only checkpoints need it)
    except ImportError:
        raise UnsupportedError(
            "Checkpoints need the file locks of a POSIX system: two runs of one would under-count."
        ) from None
    try:
        lock = os.open(checkpoint.with_name(checkpoint.name + ".lock"), os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise ParameterError(f"checkpoint {checkpoint.name!r} cannot be locked: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(f"checkpoint {checkpoint.name!r} is in use by another run.") from None
        yield
    finally:
        os.close(lock)

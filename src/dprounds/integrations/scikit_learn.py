"""A classifier for scikit-learn that trains privately and stops at its budget (the extra ``scikit-learn``)::

    from sklearn.datasets import load_digits
    from dprounds.integrations.scikit_learn import PrivateLogisticRegression

    X, y = load_digits(return_X_y=True)
    model = PrivateLogisticRegression(epsilon=3.0, delta=1e-5, classes=range(10), public_records=2000)
    model.fit(X / 16.0, y)
    model.score(X / 16.0, y), model.n_iter_, model.epsilon_

The guarantee is for adding or removing one record. It holds if every parameter was chosen without the records, their
number included: do not compute `public_records`, `sampling_rate` or `rounds` from ``len(X)``. If the number of records
is public, it may be `public_records`, and the guarantee is for replacing one record by an empty one (zero-out).

Each `fit` is a release of its own: a grid search over twenty candidates in five folds makes a hundred, and one more for
the best. Pass one `Accountant` to every `fit` on the same records and the number of them as `fits`, and all of them
together keep to the budget::

    search = GridSearchCV(PrivateLogisticRegression(classes=range(10), fits=101), grid, cv=5)
    search.fit(X, y, accountant=Accountant())

The accountant covers the weights of every fit. It does not cover the scores by which a search chooses: they are
computed from held-out records without noise. And folds are cut by the number of records, so that for a search the
guarantee is for replacing a record by an empty one. With ``n_jobs`` let joblib use threads
(``joblib.parallel_config(backend="threading")``): another process would record in a copy, and `fit` refuses that. Leave
`random_state` out: fits with one seed share their noise, and no sum of epsilons covers them together. Scale features by
constants, not by what the records say: a `StandardScaler` before this in a pipeline releases means and variances
without noise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.accountant import Accountant, checked_accountant
from dprounds.errors import InfeasibleError, ParameterError
from dprounds.integrations.checkpoints import spent_before
from dprounds.integrations.gradients import LogisticGradients, probabilities
from dprounds.integrations.noisy_sgd import DEFAULT_PUBLIC_RECORDS, PUBLIC_RECORDS, RATE, NoisySGD, checked_delta
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.mechanisms.base import Run
from dprounds.planning import min_noise_multiplier

if TYPE_CHECKING:  # a ledger needs SQLAlchemy, and this file does not
    from dprounds.ledger import Grant

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as missing:
    raise ImportError(
        "dprounds.integrations.scikit_learn needs scikit-learn. "
        "In a checkout of dprounds: pip install '.[scikit-learn]'"
    ) from missing

__all__ = ["PrivateLogisticRegression"]

Array = NDArray[np.float64]

# Where something was spent before, noise is planned up to this multiple of the noise that the whole budget needs. The
# part of a budget that rounds use falls with the square of their noise. Beyond this ratio less than a ten-thousandth of
# the budget is left, too little to learn anything.
LARGEST_NOISE_RATIO = 100


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression by noisy SGD, within (`epsilon`, `delta`) for adding or removing one record.

    The guarantee needs `classes`, and parameters that were chosen without the records and without their number. Where
    `classes` are read from the records, `read_from_records_` says so, and the guarantee takes them for public.

    Either `noise_multiplier` is given, and training goes on until one more round would exceed the budget (or for
    `rounds`, if that is sooner); or it is left to be the least noise with which `rounds` rounds keep to the budget.

    Parameters
    ----------
    epsilon, delta
        The budget. delta must be below ``1 / public_records``, and should be well below: publishing one record of n
        in the clear has a delta of 1/n.
    public_records
        A public number of records, near the true one, in [1, 1e18]. Noisy sums are divided by ``sampling_rate *
        public_records``, so it acts as the learning rate does: with a tenth of the true number, steps are ten times as
        long. The default does not look at the records, and suits some hundreds to some thousands of them. If you pass
        ``len(X)``, the number of records is released, and the guarantee is for replacing one by an empty one.
    sampling_rate
        Probability that a record is in a round's lot, in (0, 1]; not computed from the number of records.
    rounds
        Rounds to train; None for as many as the budget allows, which needs a `noise_multiplier`.
    noise_multiplier
        Standard deviation of the noise over `clip_norm`, in (0, inf); planned from `rounds` and `fits` by default.
    fits
        Number of fits, of this size, that are to share the budget of one `accountant`, at least 1. For a grid search:
        candidates times folds, and one for the best. With 1, the noise is planned in addition to everything that the
        accountant holds. With more, it is planned as if the budget were theirs alone, so that all of them have the same
        noise; what was spent before takes rounds from the last ones.
    clip_norm
        Largest norm of one record's gradient, in [1e-100, 1e100].
    learning_rate
        In (0, inf).
    method
        The bound to account by; exact by default.
    classes
        The labels that may occur. By default those in `y`, which reveals that each occurs: no noise covers that.
    reserve
        Rounds recorded on disk at a time, where `fit` has a `checkpoint`.
    random_state
        None, for noise that nobody can know: use it wherever privacy counts. A seed makes `fit` repeatable, and void of
        privacy against whoever knows the seed. Fits with one seed (of clones, in a grid search or a cross-validation,
        or simply again) **share their lots and noise**; on the same or overlapping records the sum of their epsilons
        does not cover them together. Only fits that are passed the same `accountant` draw noise of their own.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        As in scikit-learn's own linear classifiers.
    n_iter_
        Rounds that the weights have seen.
    noise_multiplier_
        The noise that was used.
    accountant_
        All that was recorded, `accountant` and reserved rounds included.
    epsilon_
        What that costs at `delta`, by `method`.
    read_from_records_
        What was read from the records without noise, and is covered only if it is public: ``("classes",)``, or ``()``
        where `classes` were given.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        public_records: float = DEFAULT_PUBLIC_RECORDS,
        sampling_rate: float = 0.1,
        rounds: int | None = 300,
        noise_multiplier: float | None = None,
        fits: int = 1,
        clip_norm: float = 1.0,
        learning_rate: float = 1.0,
        method: str | None = None,
        classes: Sequence[Any] | None = None,
        reserve: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.public_records = public_records
        self.sampling_rate = sampling_rate
        self.rounds = rounds
        self.noise_multiplier = noise_multiplier
        self.fits = fits
        self.clip_norm = clip_norm
        self.learning_rate = learning_rate
        self.method = method
        self.classes = classes
        self.reserve = reserve
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        accountant: Accountant | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        grant: Grant | None = None,
    ) -> Self:
        """This classifier, trained until its rounds or its budget are spent.

        Guarantee
        ---------
        Raises, or everything that `accountant_` holds, this training included, is within the budget. Where it raises,
        the classifier is as it was.

        Parameters
        ----------
        X, y
            Records and their labels.
        accountant
            What was spent on the same records before; it records this training too. A copy of an accountant, or one
            from another process, is refused. Where a `checkpoint` goes on, leave it out, or pass one of these: an empty
            one; the very object that has recorded the training; one restored by `Accountant.from_json` as it was when
            the training began or when it was saved. It is brought up to what the checkpoint holds. Any other accountant
            counts as spent in addition to that, even if it holds the same total. Everything that the checkpoint holds
            is added to it: nothing is forgotten, and what is in both counts twice.
        checkpoint
            A file to keep the training in. If it exists, its training goes on: the same records must be given. The file
            does not hold their number. It is not a parameter of the classifier, so that clones never share one.
        grant
            A `Grant <dprounds.ledger.Grant>` of a ledger, for one fit: training makes no more rounds than were granted,
            with the noise of the grant where `noise_multiplier` is left out. `accountant` and `random_state` are left
            out then. Committing is up to you.
        """
        before = None if accountant is None else checked_accountant("accountant", accountant)
        kept = dict(self.__dict__)
        try:
            return self._fit(X, y, before, checkpoint, grant)
        except BaseException:
            # so that the classifier is not half of this training and half of the last one
            self.__dict__ = kept
            raise

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        before: Accountant | None,
        checkpoint: str | os.PathLike[str] | None,
        grant: Grant | None,
    ) -> Self:
        """`fit`, which leaves a classifier half trained where it raises."""
        features, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        codes = self._encode(labels)
        gradients = LogisticGradients(features, codes, classes=len(self.classes_))
        seed = self.random_state
        if seed is not None and not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        if grant is None:
            before = Accountant() if before is None else before
            self.noise_multiplier_ = self._noise(spent_before(checkpoint, before))
        else:
            self.noise_multiplier_ = self._granted_noise(grant)
        training = NoisySGD(
            gradients,
            np.zeros(gradients.size),
            records=len(features),
            public_records=self.public_records,
            sampling_rate=self.sampling_rate,
            noise_multiplier=self.noise_multiplier_,
            clip_norm=self.clip_norm,
            learning_rate=self.learning_rate,
            epsilon=self.epsilon,
            delta=self.delta,
            method=self.method,
            accountant=before,
            checkpoint=checkpoint,
            reserve=self.reserve,
            grant=grant,
            random_state=seed,
        )
        wanted = None if self.rounds is None else max(_validate.count("rounds", self.rounds) - training.rounds, 0)
        training.run(wanted)
        if not training.rounds:
            raise InfeasibleError(
                f"No round is within epsilon={self.epsilon:g} at delta={self.delta:g}, in addition to what was spent. "
                "Raise epsilon or noise_multiplier, or lower sampling_rate."
            )
        self.epsilon_ = training.accountant.epsilon(delta=self.delta, method=self.method)
        if not self.epsilon_ <= self.epsilon:
            raise InfeasibleError(
                f"What was spent before costs epsilon={self.epsilon_:.4g} at delta={self.delta:g}, more than "
                f"epsilon={self.epsilon:g}. Raise epsilon, or start again with other records."
            )
        weights = training.weights.reshape(features.shape[1] + 1, gradients.columns).T
        self.coef_: Array = weights[:, :-1]
        self.intercept_: Array = weights[:, -1]
        self.n_iter_ = training.rounds
        self.accountant_ = training.accountant
        self.read_from_records_ = ("classes",) if self.classes is None else ()
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores of the classes, one column each; for two classes one number per record, positive for the second."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class for each record."""
        return probabilities(self._scores(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of each record."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[likeliest]
        return predicted

    def _scores(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        features: Array = validate_data(self, X, dtype=np.float64, reset=False)
        return features @ self.coef_.T + self.intercept_

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Positions of the labels among the classes."""
        if not (self.classes is None or isinstance(self.classes, Iterable)):
            raise ParameterError(f"classes must be the labels that may occur, got {_validate.show(self.classes)}.")
        self.classes_ = np.unique(labels) if self.classes is None else np.unique(np.asarray(list(self.classes)))
        if len(self.classes_) < 2:
            raise ParameterError(f"classes must be at least two, got {len(self.classes_)} class.")
        if not np.isin(labels, self.classes_).all():
            raise ParameterError("classes must hold every label in y, got a label that it lacks.")
        codes: NDArray[np.intp] = np.searchsorted(self.classes_, labels)
        return codes

    def _granted_noise(self, grant: Grant) -> float:
        """The noise multiplier that was given, or that of the rounds that were granted."""
        if self.noise_multiplier is not None:
            return _validate.real("noise_multiplier", self.noise_multiplier, _validate.NOISE_MULTIPLIER)
        for part in grant.run.mechanisms:
            if (
                isinstance(part, PoissonSampled)
                and isinstance(part.mechanism, Gaussian)
                and part.sampling_rate == self.sampling_rate
            ):
                return part.mechanism.noise_multiplier
        raise ParameterError(
            f"grant must cover sampled Gaussian rounds at sampling_rate={self.sampling_rate!r}, got one of "
            f"{_validate.show(grant.run)}."
        )

    def _noise(self, spent: Run) -> float:
        """The noise multiplier that was given, or the least one with which all rounds keep to the budget."""
        fits = _validate.count("fits", self.fits, least=1)
        if self.noise_multiplier is not None:
            return _validate.real("noise_multiplier", self.noise_multiplier, _validate.NOISE_MULTIPLIER)
        if self.rounds is None:
            raise ParameterError("rounds must be an integer in [1, inf), got None. Or pass noise_multiplier.")
        rounds = _validate.count("rounds", self.rounds, least=1)
        rate = _validate.real("sampling_rate", self.sampling_rate, RATE)
        public_records = _validate.real("public_records", self.public_records, PUBLIC_RECORDS)
        delta = checked_delta(self.delta, public_records)

        def least(before: Run) -> float:
            return min_noise_multiplier(
                lambda s: before + PoissonSampled(Gaussian(s), rate) * (rounds * fits),
                epsilon=self.epsilon,
                delta=delta,
                method=self.method,
            )

        noise = least(Run())
        if fits > 1 or not spent.parts:
            return noise
        most = PoissonSampled(Gaussian(LARGEST_NOISE_RATIO * noise), rate) * rounds
        if not (spent + most).epsilon(delta=delta, method=self.method) <= self.epsilon:
            raise InfeasibleError(
                f"What the accountant holds leaves too little of epsilon={self.epsilon:g} at delta={delta:g} for "
                f"{rounds} more rounds. If earlier fits with planned noise have used it, plan for all of them: give "
                "each of them fits=N, their number. Or raise epsilon."
            )
        return least(spent)

"""The questions that a release answers: what it costs, and what an attacker can make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import EPSILON, FAILURE_MASS, Interval, real, real_array
from dprounds.accounting.answers import RUN_METHODS, Account
from dprounds.guarantee import GaussianSummary, Guarantee

__all__ = ["RUN_METHODS", "Accounted"]

Array = NDArray[np.float64]

RATE = Interval.parse("[0, 1]")


class Accounted:
    """What answers the questions about a release, given its `account`.

    Runs do, and every mechanism but those that have an epsilon of their own: ask ``RandomizedResponse(1.0) * 1``.

    `method` is ``"moments"``, ``"balle"``, ``"closed-form"``, ``"optimal"`` or ``"exact"``. Without it the answer is
    exact where every part has a moment function, and else by the best Rényi order; the guarantee says which.
    """

    if TYPE_CHECKING:  # what the class that answers has as well

        @property
        def account(self) -> Account:
            """The release as accounting sees it."""

        @property
        def relation(self) -> str | None:
            """Which data sets are neighbours."""

        @property
        def sampling(self) -> str | None:
            """How a round chooses its records."""

    def epsilon(self, *, delta: float, method: str | None = None) -> float:
        """Epsilon at `delta`.

        Guarantee
        ---------
        Raises, or returns an epsilon at which every pair of neighbours is (epsilon, delta)-close; `inf` where none is
        proven. Errs upward: exactly by less than 1e-9 of itself for Gaussian and sampled Gaussian runs.

        Parameters
        ----------
        delta
            Failure mass, in [0, 1). At 0 the answer is the largest privacy loss, `inf` where there is none.
        method
            The bound; exact where there is a moment function by default.
        """
        return self.guarantee(delta=delta, method=method).epsilon

    def delta(self, *, epsilon: float, method: str | None = None) -> float:
        """Delta at `epsilon`.

        Guarantee
        ---------
        Raises, or returns a delta at which every pair of neighbours is (epsilon, delta)-close. Errs upward.

        Parameters
        ----------
        epsilon
            Privacy loss in nats, in [0, inf].
        method
            The bound; exact where there is a moment function by default.
        """
        return self.account.delta(real("epsilon", epsilon, EPSILON), method)

    def guarantee(self, *, delta: float, method: str | None = None) -> Guarantee:
        """What may be said at `delta`: epsilon, its proven bracket, and the method or order that proves it.

        Where the exact accountant cannot keep its promise and was not asked for by name, or where its bracket is wide
        and the best Rényi order proves less than its upper end, that order answers and `method` says ``"optimal"``.
        Where its bracket is wider than a millionth of epsilon, `method` says ``"bound"``, by name or not.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> guarantee = (Gaussian(20.0) * 500).guarantee(delta=1e-5, method="optimal")
        >>> round(guarantee.epsilon, 4), round(guarantee.order, 2)
        (5.3777, 4.98)
        >>> round((Gaussian(20.0) * 500).guarantee(delta=1e-5).epsilon, 4)
        4.9833

        It also says for which neighbours and which sampling it holds:

        >>> from dprounds import PoissonSampled
        >>> guarantee = (PoissonSampled(Gaussian(1.1), 0.004) * 500).guarantee(delta=1e-5)
        >>> guarantee.relation, guarantee.sampling
        ('add-remove', 'poisson')
        """
        found = self.account.guarantee(real("delta", delta, FAILURE_MASS), method)
        return replace(found, relation=self.relation, sampling=self.sampling)

    def profile(self, epsilons: ArrayLike, *, method: str | None = None) -> float | Array:
        """Delta at every epsilon, the privacy profile. Errs upward.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> (Gaussian(1.0) * 1).profile([0.0, 1.0, 2.0]).round(6).tolist()
        [0.382925, 0.126937, 0.020924]
        """
        given = real_array("epsilons", epsilons, EPSILON)
        deltas = self.account.deltas(given.ravel(), method)
        return deltas.reshape(given.shape) if given.ndim else float(deltas[0])

    def gaussian(self, *, delta: float) -> GaussianSummary:
        """The Gaussian noise that is as bad as this at every epsilon: the least `mu`, if `delta` may be revealed.

        Guarantee
        ---------
        Raises, or returns two numbers that bound every pair of neighbours at every epsilon, in both directions. `mu`
        errs upward, by less than 1e-5 of itself where the profile is exact; it is `inf` where none is proven. Gaussian
        noise needs no `delta`, and the summary says 0 then.

        Parameters
        ----------
        delta
            What may be revealed, in [0, 1). At 0 only Gaussian noise and bounded losses have a finite `mu`.

        Theorem
        -------
        docs/theory/filters.md.

        Examples
        --------
        >>> from dprounds import Gaussian, PoissonSampled
        >>> round((Gaussian(20.0) * 400).gaussian(delta=0.0).mu, 9)
        1.0
        >>> run = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062
        >>> round(run.gaussian(delta=1e-9).mu, 5)
        0.59067
        """
        return self.account.gaussian(real("delta", delta, FAILURE_MASS))

    def trade_off(self, false_positive_rates: ArrayLike) -> float | Array:
        """Least false-negative rate of any attacker who tells neighbours apart, at each false-positive rate.

        Guarantee
        ---------
        Errs downward: no attacker does better. Exact from the profile where both directions have the same one.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> (Gaussian(1.0) * 1).trade_off([0.01, 0.1, 0.5]).round(4).tolist()
        [0.9076, 0.6109, 0.1587]
        """
        rates = real_array("false_positive_rates", false_positive_rates, RATE)
        found = self.account.trade_off(rates.ravel())
        return found.reshape(rates.shape) if rates.ndim else float(found[0])

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Greatest share of members that an attacker finds with this share of false alarms. Errs upward."""
        return 1.0 - float(self.trade_off(real("false_positive_rate", false_positive_rate, RATE)))

    def attack_advantage(self) -> float:
        """Greatest true-positive less false-positive rate of any attacker: delta at epsilon 0. Errs upward."""
        return self.delta(epsilon=0.0)

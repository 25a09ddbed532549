"""The questions that a release answers: what it costs, and what an attacker can make of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import EPSILON, FAILURE_MASS, Interval, real, real_array
from dprounds.accounting.answers import RUN_METHODS, Account
from dprounds.errors import InfeasibleError, NumericalError, ParameterError, UnsupportedError
from dprounds.guarantee import GaussianSummary, Guarantee
from dprounds.statement import FALSE_ALARMS, Certificate, Statement, as_decimal, rounded_down, rounded_up

if TYPE_CHECKING:
    from dprounds.mechanisms.base import Run

__all__ = ["RUN_METHODS", "Accounted"]

Array = NDArray[np.float64]

RATE = Interval.parse("[0, 1]")
# Of a mechanism in a statement.
MOST_LETTERS = 300


class Accounted:
    """What answers the questions about a release, given its `account`.

    Runs do, and every mechanism but those that have an epsilon of their own: ask ``RandomizedResponse(1.0) * 1``.

    `method` is ``"moments"``, ``"balle"``, ``"closed-form"``, ``"optimal"`` or ``"exact"``. Without it the answer is
    exact where every part has a moment function, and else by the best Rényi order; the guarantee says which.
    """

    if TYPE_CHECKING:  # what the class that answers has as well

        def as_run(self) -> Run:
            """All rounds."""

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
        proven. Errs upward: `guarantee` says by how much at most. For sampled Gaussian runs with a noise multiplier of
        0.3 or more that is less than 1e-9 of itself, as a rule.

        Parameters
        ----------
        delta
            Failure mass, in [0, 1). At 0 the answer is the largest privacy loss, `inf` where there is none.
        method
            The bound; exact where there is a moment function by default.
        """
        return self.account.guarantee(real("delta", delta, FAILURE_MASS), method, from_above=True).epsilon

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
        rate = real("false_positive_rate", false_positive_rate, RATE)
        if not self.as_run().parts:  # nothing was released: the attacker guesses, and no rounding is shown above that
            return rate
        return 1.0 - float(self.trade_off(rate))

    def statement(
        self, *, delta: float | None = None, method: str | None = None, certificate: Certificate | None = None
    ) -> Statement:
        """What may be published: mechanism, neighbours, guarantee, attacker, accounting, assumptions and version.

        Guarantee
        ---------
        Raises, or every sentence is true of the releases described, if what the statement says to be assumed is.

        Parameters
        ----------
        delta
            Failure mass, in [0, 1); that of the certificate if there is one.
        method
            The bound; exact where there is a moment function by default. Not with a certificate.
        certificate
            A claim of `dprounds.certificates` about this run: its epsilon and delta are stated, with its SHA-256.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> print((Gaussian(20.0) * 500).statement(delta=1e-5).clauses["Guarantee"])
        (ε, δ)-differential privacy with ε = 4.9834 and δ = 1e-05.
        """
        run = self.as_run()
        claimed: Mapping[str, str] = {}
        if certificate is not None:
            if not certificate.is_about(run):
                raise ParameterError("certificate must be one of (ε, δ) about this run.")
            if method is not None:
                raise ParameterError("method must be left out where a certificate is given: its epsilon is stated.")
            claimed = {name: as_decimal(certificate.claimed[name]) for name in ("epsilon", "delta")}
            if delta is not None and certificate.delta != delta:
                raise ParameterError(f"delta must be that of the certificate, {claimed['delta']}, got {delta}.")
            delta = certificate.delta
        if delta is None:
            raise ParameterError("delta is missing: a statement needs it, or a certificate.")
        found = run.guarantee(delta=delta, method=method)
        if found.epsilon == math.inf:
            raise InfeasibleError(f"No finite epsilon is proven at delta {delta:g}, so there is nothing to state.")
        sizes = {int(getattr(part, "group_size", 1)) for part in run.mechanisms if hasattr(part, "group_size")} or {1}
        if len(sizes) > 1:
            raise UnsupportedError("Parts of this run protect groups of different sizes: state them apart.")
        inner = [getattr(part, "mechanism", part) for part in run.mechanisms]
        # what (ε, δ) alone says [DRS22]; Rényi orders take a second to say more
        tests = (
            delta + math.exp(min(found.epsilon, 700.0)) * FALSE_ALARMS,
            1.0 - math.exp(-found.epsilon) * (1.0 - delta - FALSE_ALARMS),
        )
        detected, mu = min(1.0, *tests), None
        if run.has_moment_function:
            with suppress(NumericalError):
                detected = min(detected, run.true_positive_rate(FALSE_ALARMS))
            with suppress(NumericalError):
                mu = run.gaussian(delta=delta)
        is_known = mu is not None and mu.mu < math.inf
        return Statement(
            releases=tuple(f"{rounds} × {_called(part)}" for part, rounds in run.parts) or ("nothing",),
            epsilon=claimed.get("epsilon", rounded_up(found.epsilon)),
            delta=claimed.get("delta", repr(delta)),
            relation=run.relation,
            sampling=run.sampling,
            group_size=sizes.pop(),
            detected=rounded_up(min(100.0 * detected * (1.0 + 1e-12), 100.0), 3),
            mu=rounded_up(mu.mu) if mu is not None and is_known else None,
            mu_delta=rounded_up(mu.delta) if mu is not None and is_known else None,
            # a certificate bounds privacy losses, also where the library has a Rényi bound alone
            method=found.method if certificate is None or found.method == "exact" else "bound",
            order=None if found.order is None or certificate is not None else f"{found.order:.5g}",
            lower=rounded_down(found.lower),
            has_noise=any(hasattr(each, "noise_multiplier") and not hasattr(each, "shifts") for each in inner),
            has_shifts=any(hasattr(each, "shifts") for each in inner),
            has_guarantees=any(not hasattr(each, "noise_multiplier") for each in inner),
            is_partly_related=run.relation is not None and any(part.relation is None for part in run.mechanisms),
            version=version("dprounds"),
            certificate=None if certificate is None else certificate.sha256,
        )

    def attack_advantage(self) -> float:
        """Greatest true-positive less false-positive rate of any attacker: delta at epsilon 0. Errs upward."""
        return self.delta(epsilon=0.0)


def _called(mechanism: object) -> str:
    """The call that makes a mechanism; lists of thousands of masses are named, not printed."""
    text = " ".join(repr(mechanism).split())  # on one line, whatever a mechanism of one's own is called
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… (shortened)"

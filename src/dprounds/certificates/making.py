"""Claims made of a run: a number rounded up to a short decimal, with evidence that proves it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from dprounds._validate import DELTA, FINITE_EPSILON, Interval, count, real
from dprounds.accounting.profile import Profile
from dprounds.certificates.claim import ALLOCATED, Claim, checked, described, require_limits
from dprounds.certificates.evidence import (
    conversion_evidence,
    directions_of,
    is_long,
    lower_line,
    moment_evidence,
    upper_lines,
)
from dprounds.conversions import epsilon_from_rdp
from dprounds.errors import CertificateError, InfeasibleError, NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms import Release, Run

__all__ = ["certify", "certify_conversion", "certify_rdp"]

FINITE_ORDER = Interval.parse("(1, inf)")
# Digits of the quoted number, and decimals that an epsilon has at least: two neighbours are then within 1e-4.
DIGITS = 5
DECIMALS = 4
MOST_DIGITS = 15
# A number is raised by this many units of its last digit, one after the other, and each with more effort, until the
# check succeeds.
TRIED_UNITS = (0, 1, 2, 10)
# So many times what a bound is said to exceed the truth by are tried in that way; the first where it is not close.
LESS_EXCESS, MORE_EXCESS = 0.65, (1.0, 1.3, 2.0)
# Where this many units are a millionth of the number or less, they are tried too: next to an atom of a loss a virtual
# Gaussian costs that much.
MANY_UNITS, MILLIONTH = 200, Fraction(1, 10**6)
# A smaller epsilon that is claimed not to be enough is tried down to this much below.
LOWER = Decimal("1e-4")
EFFORTS: tuple[int, ...] = (0, 3)
# Bounds that exceed epsilon by more than this part of it are worth more effort.
CLOSE = 5e-7
# Numbers are found to the safe side of what they are. The decimal below is tried too where this part is all it lacks.
SHRUNK = Fraction(1, 10**12)


def _written(number: Decimal) -> str:
    """A decimal as people write it, and as the checker reads it."""
    plain = f"{number.normalize():f}"
    return plain if len(plain) <= 2 * MOST_DIGITS else str(number.normalize()).lower()


def _digits(digits: int) -> int:
    if not 1 <= count("digits", digits) <= MOST_DIGITS:
        raise ParameterError(f"digits must be in [1, {MOST_DIGITS}], got {digits}.")
    return digits


def _unit(value: float, digits: int, decimals: int = 0) -> Decimal:
    """One unit of the last of a number's significant digits, and not more than of its last decimal, if there is one."""
    exponent = (math.floor(math.log10(value)) if value else 0) + 1 - digits
    return Decimal(10) ** (min(exponent, -decimals) if decimals else exponent)


def _above(value: float, unit: Decimal) -> list[Decimal]:
    """Multiples of a unit that are about at a number and above it, the nearest first."""
    least = math.ceil(Fraction(value) * (1 - SHRUNK) / Fraction(unit))
    more = (MANY_UNITS,) if Fraction(unit) * MANY_UNITS <= MILLIONTH * Fraction(value) else ()
    return [(least + units) * unit for units in TRIED_UNITS + more]


def certify(
    run: Release,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    digits: int = DIGITS,
    two_sided: bool = False,
) -> Claim:
    """A proven claim about a run: epsilon at `delta`, or delta at `epsilon`, rounded up to a short decimal.

    The parameters of the run are written as their shortest decimals, and the claim is about those numbers exactly.

    Guarantee
    ---------
    Raises, or returns a claim that the checker has proven, in every direction.

    Parameters
    ----------
    run
        A run, or a mechanism for one round, of Gaussian, Poisson-sampled Gaussian, Laplace, randomized response, pure
        and approximate DP parts, and of epochs of random allocation of one participation.
    delta, epsilon
        One of the two: delta in (0, 1), or epsilon in [0, inf).
    digits
        Significant digits of the number that is claimed, in [1, 15]. An epsilon has at least four decimals.
    two_sided
        Claim also that an epsilon which is smaller by 1e-4 at most, by as few units of the last digit as can be
        proven, is not enough: for a mechanism that attains the bounds of the parts. Only with `delta`.

    Theorem
    -------
    docs/theory/certificates.md

    Examples
    --------
    >>> from dprounds import Gaussian, PoissonSampled
    >>> claim = certify(PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062, delta=1e-5, two_sided=True)
    >>> claim.claimed["epsilon"], claim.claimed["delta"], claim.claimed["lower_epsilon"]
    ('2.3816', '1e-05', '2.3815')
    """
    if (delta is None) == (epsilon is None):
        raise ParameterError("certify takes either delta or epsilon.")
    digits = _digits(digits)
    if two_sided and delta is None:
        raise ParameterError("two_sided needs delta: the smaller epsilon is claimed not to be enough for it.")
    release, about = described(run)
    require_limits(about)
    if delta is not None:
        given = real("delta", delta, DELTA)
        known = release.guarantee(delta=given)
        found = known.epsilon
        if found == math.inf:
            raise InfeasibleError(f"No finite epsilon meets delta {given:g}.")
        unit = _unit(found, digits, DECIMALS)
        efforts, excess, _ = _efforts(release, found, given, CLOSE * found)
        # A wide bracket has room for what a bound exceeds the truth by, if that is at its lower end. Where that is more
        # than units of the last digit, parts of it are tried, and not units.
        least = LESS_EXCESS if excess > CLOSE * found else 1.0
        starts = [max(found, known.lower + least * excess), *(found + excess * more for more in MORE_EXCESS)]
        if excess > TRIED_UNITS[-1] * unit:
            values = [_above(start, unit)[0] for start in starts]
        else:
            values = _above(starts[0], unit)
        claims = [{"epsilon": _written(value), "delta": repr(given)} for value in values]
    else:
        given = real("epsilon", cast(float, epsilon), FINITE_EPSILON)
        found = release.delta(epsilon=given)
        unit = _unit(found, digits)
        efforts, _, excess = _efforts(release, given, found, math.inf)
        raised = found * math.exp(excess)
        claims = [{"epsilon": repr(given), "delta": _written(value)} for value in _above(raised, unit)]

    def lines(claim: Mapping[str, Any], effort: int) -> dict[str, Any]:
        found = upper_lines(release, float(claim["epsilon"]), float(claim["delta"]), effort)
        return {direction: each.evidence for direction, each in found.items()}

    proven = _first_proven(
        ({"kind": "approximate-dp", **about, **claim, "lower_epsilon": None} for claim in claims),
        lambda claim, effort: {**lines(claim, effort), "lower": None},
        efforts,
    )
    return _two_sided(release, proven, unit) if two_sided else proven


def _efforts(run: Run, epsilon: float, delta: float, close: float) -> tuple[tuple[int, ...], float, float]:
    """Efforts to be tried, from the one whose bound is closest; by how much that exceeds epsilon, and log delta."""
    best: tuple[tuple[int, ...], float, float] = EFFORTS, math.inf, math.inf
    for tried, effort in enumerate(EFFORTS):
        found = upper_lines(run, epsilon, delta, effort).values()
        epsilon_excess, log_excess = max(each.epsilon_excess for each in found), max(each.log_excess for each in found)
        if not tried or epsilon_excess < best[1]:
            best = EFFORTS[tried:], epsilon_excess, log_excess
        if best[1] <= close:
            break
    return best


def _first_proven(
    claims: Iterable[Mapping[str, Any]],
    evidence: Callable[[Mapping[str, Any], int], object],
    efforts: Iterable[int] = EFFORTS,
) -> Claim:
    """The first of the claims that the checker accepts, with as little effort as does."""
    trouble: CertificateError | None = None
    for claim in claims:
        tried: object = None
        for effort in efforts:
            found = evidence(claim, effort)
            if found == tried:
                continue
            tried = found
            try:
                return checked(claim, found)
            except CertificateError as failed:
                trouble = trouble or failed
    raise NumericalError(f"No certificate was found. {trouble}")


def _two_sided(run: Run, proven: Claim, unit: Decimal) -> Claim:
    """The claim, and that a smaller epsilon is not enough."""
    epsilon, delta = Decimal(proven.claimed["epsilon"]), proven.delta
    steps = [units * unit for units in TRIED_UNITS if units]
    while steps[-1] * 10 <= LOWER:
        steps.append(steps[-1] * 10)
    lowers = [epsilon - step for step in steps if step <= epsilon]
    if not lowers:
        raise UnsupportedError("No epsilon is smaller than 0: this claim has one side only.")
    upper = json.loads(proven.text)["evidence"]

    def evidence(claim: Mapping[str, Any], effort: int) -> dict[str, Any]:
        lower = float(claim["lower_epsilon"])
        deltas = {each: Profile({each: run.law(each)}).delta(lower).lower for each in directions_of(run)}
        direction = max(deltas, key=deltas.__getitem__)
        return {**upper, "lower": {"direction": direction, **lower_line(run, direction, lower, delta, effort)}}

    claims = [{**proven.claimed, "lower_epsilon": _written(lower)} for lower in lowers]
    if is_long(evidence(claims[-1], 0)["lower"]):  # then no smaller difference is shown in reasonable time
        claims = [claim for claim in claims if epsilon - Decimal(claim["lower_epsilon"]) >= LOWER] or claims[-1:]
    return _first_proven(claims, evidence)


def certify_rdp(run: Release, *, order: float, digits: int = DIGITS) -> Claim:
    """A proven claim about a run: its Rényi bound at an order, rounded up to a short decimal.

    Guarantee
    ---------
    Raises, or returns a claim that the checker has proven, in every direction.

    Parameters
    ----------
    run
        As for `certify`, without approximate DP, whose Rényi bounds are infinite, and without random allocation.
    order
        Rényi order, in (1, inf).
    digits
        Significant digits of the number that is claimed, in [1, 15].

    Examples
    --------
    >>> from dprounds import Gaussian
    >>> certify_rdp(Gaussian(20.0) * 500, order=8.0).claimed["rdp"]
    '5'
    """
    digits = _digits(digits)
    given = real("order", order, FINITE_ORDER)
    release, about = described(run)
    require_limits(about)
    if any(part["mechanism"] == ALLOCATED for part in about["run"]):
        raise UnsupportedError("No certificate covers Rényi bounds of random allocation: certify its epsilon instead.")
    found = release.rdp(given)
    if found == math.inf:
        raise InfeasibleError(f"No Rényi bound of order {given:g} is finite.")
    about = {"kind": "renyi", **about, "order": repr(given)}
    return _first_proven(
        ({**about, "rdp": _written(value)} for value in _above(found, _unit(found, digits))),
        lambda _, effort: {each: moment_evidence(release, each, given, effort) for each in directions_of(release)},
    )


def certify_conversion(rdp: float, *, order: float, delta: float, digits: int = DIGITS) -> Claim:
    """A proven claim about all mechanisms of a Rényi bound: epsilon at `delta`, rounded up to a short decimal.

    Guarantee
    ---------
    Raises, or returns a claim that the checker has proven.

    Parameters
    ----------
    rdp
        Rényi bound in nats, in [0, inf).
    order
        Rényi order, in (1, inf).
    delta
        Failure mass, in (0, 1).
    digits
        Significant digits of the epsilon that is claimed, in [1, 15]; it has at least four decimals.

    Theorem
    -------
    [ALCKS20, Theorem 3], by the dual certificate of docs/theory/conversions.md.

    Examples
    --------
    >>> certify_conversion(0.5, order=8.0, delta=1e-5).claimed["epsilon"]
    '1.7098'
    """
    digits = _digits(digits)
    given = {"order": real("order", order, FINITE_ORDER), "rdp": real("rdp", rdp, FINITE_EPSILON)}
    at = real("delta", delta, DELTA)
    found = float(epsilon_from_rdp(given["rdp"], order=given["order"], delta=at))
    about = {"kind": "conversion", "order": repr(given["order"]), "rdp": repr(given["rdp"]), "delta": repr(at)}
    return _first_proven(
        ({**about, "epsilon": _written(value)} for value in _above(found, _unit(found, digits, DECIMALS))),
        lambda claim, effort: conversion_evidence(given["order"], found, float(claim["epsilon"]), at, effort),
    )

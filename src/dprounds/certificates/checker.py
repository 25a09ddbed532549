"""The check of a certificate: whether what it claims about privacy is proven, in ball arithmetic.

``python checker.py claim.json`` needs python-flint and the standard library. Numbers of a certificate are rational, and
what is computed from them are balls (the Arb library): intervals that contain the truth. Evidence says where to look,
and a wrong one can only fail. Delta is bounded by a sum along Re z = tau of M(z) = E_P[exp(z L); L < ∞], L = log dP/dQ,
(P, Q) the worst pair of a run in one direction, or on a lattice of losses. [n] is in docs/theory/certificates.md.
"""

from __future__ import annotations

import json
import math
import re
import sys
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from flint import acb, acb_mat, arb, arb_poly, ctx, fmpq, fmpz_poly

__all__ = ["FORMAT", "MOST_BYTES", "PARAMETERS", "VERSION", "RefusedError", "check", "main"]

Ball = Any  # a real or complex ball; python-flint has no types
Values = dict[str, Any]  # an object of the certificate, its numbers read
FORMAT, VERSION, REMOVE, ADD = "dprounds certificate", 1, "remove", "add"
# Limits, so that every certificate is answered within 20 seconds and a gigabyte; what goes beyond them is refused.
MOST_BYTES, MOST_PARTS, MOST_ROUNDS, MOST_BITS = 10**6, 1000, 10**15, 2000
# Work in units of 0.3 µs, and as much again for every 128 bits, and terms that are turned at once, to spare memory.
MOST_WORK, FORMULA, NODE, MASS, CHUNK = 24_000_000, 24, 50, 32, 500
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[1-9][0-9]{0,39}", re.ASCII)
# Kinds of what stands in a certificate, for `_read`: numbers that are not negative, and positive ones by the largest.
ZERO, POSITIVE, SOME, LARGE = "not negative", math.inf, range(1, MOST_WORK + 1), 10**9
NOISE, LOSS = {"noise_multiplier": 10**9}, {"epsilon": 1000}
LETTERS = {"order": "order", "rdp": "rdp", "epsilon": "ε", "delta": "δ"}
PARAMETERS: Values = {"gaussian": NOISE, "laplace": NOISE, "randomized-response": LOSS, "pure-dp": LOSS}
PARAMETERS |= {"poisson-sampled-gaussian": {**NOISE, "sampling_rate": 1}, "approximate-dp": {**LOSS, "delta": 1}}
PARAMETERS |= {"allocated-gaussian": {**NOISE, "steps": range(1, LARGE), "repeats": range(1, MOST_ROUNDS + 1)}}
PART = {"mechanism": None, "rounds": range(1, MOST_ROUNDS + 1)}
ABOUT_A_RUN, RELATIONS = {"kind": None, "run": None, "relation": None}, ("add-remove", "zero-out")
BITS, GRID = {"precision": range(2, MOST_BITS + 1)}, {"first": range(-LARGE, LARGE), "nodes": SOME}
NODES = {"step": POSITIVE, "strip": Fraction(31, 10), "first": range(-LARGE, 1), "last": range(1, LARGE + 1)}
OVER_X, OVER_Y = {**NODES, "angle": ZERO, "angle_strip": ZERO}, {**NODES, "reach": range(200, LARGE)}
LINE = {**BITS, "tau": POSITIVE, "step": POSITIVE, "nodes": SOME, "smoothing": ZERO, "above": ZERO}
LATTICE = {**BITS, "step": POSITIVE, "points": range(1, 2**19), "shift": ZERO}


class RefusedError(Exception):
    """The certificate proves nothing, and why, in one sentence."""


def _require(holds: object, sentence: str) -> None:
    """Raise unless something certainly holds: comparisons of balls are true only if they hold for all of both."""
    if holds is not True:
        raise RefusedError(sentence)


def _read(name: str, found: Any, kind: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    """What has this name, read by its kind: those of fields, of items in a list, words, a range, a number, or None."""
    if isinstance(kind, dict):
        _require(isinstance(found, dict) and set(found) == set(kind), f"{name} must have the fields {', '.join(kind)}.")
        return {each: _read(each, found[each], kind[each]) for each in kind}
    if isinstance(kind, list):
        _require(isinstance(found, list) and len(found) == len(kind), f"{name} must be a list of {len(kind)}.")
        return [_read(f"Each of {name}", *each) for each in zip(found, kind, strict=True)]
    if isinstance(kind, tuple):
        _require(found in kind, f"{name} must be one of {json.dumps(kind)}.")
    elif isinstance(kind, range):  # True and False are no whole numbers
        _require(type(found) is int and found in kind, f"{name} must be a whole number from {kind[0]} to {kind[-1]}.")
    elif kind is not None:
        fits = isinstance(found, str) and NUMBER.fullmatch(found) is not None
        _require(fits, f'{name} must be a number written as text, such as "0.01", "1e-5" or "256/60000".')
        found = Fraction(found)
        _require(kind == ZERO or 0 < found <= kind, f"{name} must be in (0, {kind}].")
    return found


def _run(claim: Values) -> tuple[list[Values], list[str]]:
    """The parts, and the directions to be checked: only the pairs of random batches are not symmetric."""
    run, parts = claim["run"], []
    _require(isinstance(run, list) and 0 < len(run) <= MOST_PARTS, f"run must be a list of 1 to {MOST_PARTS} parts.")
    for found in run:
        mechanism = _read("mechanism", found.get("mechanism") if isinstance(found, dict) else None, tuple(PARAMETERS))
        part = _read("A part of the run", found, {**PART, **PARAMETERS[mechanism]})
        part["sum"] = OVER_Y if "steps" in part else OVER_X if part.get("sampling_rate", 1) != 1 else None
        is_gaussian = "gaussian" in mechanism and part["sum"] is None  # as it is at rate 1
        part["variance"] = 1 / part["noise_multiplier"] ** 2 if is_gaussian else Fraction(0)  # of the loss
        bounded = part.get("epsilon") or 1 / part["noise_multiplier"]  # the largest loss of Laplace noise
        parts.append({**part, "largest_loss": math.inf if "gaussian" in mechanism else bounded})
    is_random = any("-gaussian" in part["mechanism"] for part in parts)
    _read("relation", claim["relation"], RELATIONS if is_random else (None,))
    return parts, [REMOVE, ADD] if any(part["sum"] for part in parts) else [REMOVE]


def _lines(parts: list[Values], found: Values, kinds: Values) -> Values:
    """The evidence of every name, if all of it takes no longer than a check may."""
    lines, total = {name: _read(name, found[name], kind) for name, kind in kinds.items()}, 0
    for line in filter(None, lines.values()):
        if "grids" in line:
            nodes = [grid["nodes"] for grid in line["grids"]]
            work = sum((2 * part["rounds"].bit_length() + 1) * max(line["points"], *nodes) for part in parts)
            work += MASS * sum(nodes)
        else:
            x = sum(q["last"] - q["first"] + 2 * q.get("reach", 0) for q in line["quadratures"])
            nodes = line.get("nodes", 0) + 1
            work = nodes * (x // 8 + FORMULA * (1 + len(parts))) + (NODE + 4 * math.isqrt(nodes)) * x
        total += work * (128 + line["precision"]) // 128
    _require(total <= MOST_WORK, f"The check would take the work of more than {MOST_WORK} products of balls.")
    return lines


def _ball(number: Fraction | int) -> Ball:
    return arb(fmpq(number.numerator, number.denominator))


def _formula(part: Values, z: Ball, height: Ball = 0) -> Ball:
    """M of a mechanism other than a Gaussian that has a closed form [4]; at a real z, a bound of |M| above it [6]."""
    if "steps" in part:
        return z.rgamma()  # the rest of it is a sum
    half, y = _ball(part["largest_loss"] / 2), (2 * z + 1) * _ball(part["largest_loss"] / 2)
    if part["mechanism"] != "laplace":
        return _ball(1 - part.get("delta", Fraction(0))) * y.cosh() / half.cosh()
    between = y.sinh() / (2 * z + 1)
    return (-half).exp() * (y.cosh() + (between.min(y.cosh() / (2 * height)) if height > 0 else between))


class _Sum:
    """M of a part with random batches on Re z = tau, up to a height: a trapezoid sum, and its errors [5, 15]."""

    def __init__(self, part: Values, direction: str, tau: Fraction, q: Values, height: Ball) -> None:
        self.q, self.height, self.step, self.steps = q, height, _ball(q["step"]), part.get("steps")
        self.variance = _ball(part["noise_multiplier"] ** 2 / part.get("repeats", 1))
        self.rate = _ball(part["sampling_rate"] if self.steps is None else Fraction(1, self.steps))
        self.power, sign = (_ball(tau + 1), 1) if direction == REMOVE else (_ball(-tau), -1)
        reach, scale = q.get("reach", 0), self.step / (2 * arb.pi() * self.variance).sqrt()
        x = [self.step * j for j in range(q["first"] - reach, q["last"] + reach + 1)]
        around = [self.step * j for j in range(-reach, reach + 1)] if reach else x
        self.normal = [(-each * each / (2 * self.variance)).exp() * scale for each in around]
        self.odds = [((2 * each - 1) / (2 * self.variance)).exp() * self.rate for each in x]
        if self.steps is None:
            factors, logs = self.normal, [(1 - self.rate + odds).log() for odds in self.odds]
        else:  # Gamma(z) M(z), over y = x / variance, by means of exp(-e^y X / t); in fixed point, by a 1 with an error
            one, logs = arb(1, arb(2) ** -ctx.prec), [-each / self.variance for each in x[reach:-reach]]
            means = arb_poly([one + n - 1 for n in self.normal]) * arb_poly([one + (-o).exp() - 1 for o in self.odds])
            box = arb(0, 2 * self.normal[0] / (self.normal[1] / self.normal[0] - 1) + 2 * self._growth(q["strip"]))
            factors = [self.step / self.variance * (means[2 * reach + n] + box) ** self.steps for n in range(len(logs))]
        self.weights = [factor * (self.power * u).exp() for factor, u in zip(factors, logs, strict=True)]
        self.terms = [(weight, sign * u) for weight, u in zip(self.weights, logs, strict=True)]
        # Beyond the first and the last node terms fall at least as fast as these do there [5b].
        left, right = self.weights[1] / self.weights[0], self.weights[-2] / self.weights[-1]
        if direction == REMOVE:
            left, right = self.normal[1] / self.normal[0], self.normal[-2] / self.normal[-1]
            right *= (self.odds[-2] / self.odds[-1]) ** self.power
        # The error of the trapezoid rule is relative to M(tau), which the sum itself bounds [5a].
        growth = self._growth(q["strip"]) * self._turned(q["strip"])
        _require(left > 1 and right > 1 and 2 * growth < 1, "A quadrature must reach further or have a shorter step.")
        self.outside = self.weights[0] / (left - 1) + self.weights[-1] / (right - 1)
        self.top = ((sum(self.weights) + self.outside) / (1 - 2 * growth)).upper()
        self.error = self.outside + growth * (1 + (self.height * _ball(q["strip"])).exp()) * self.top

    def _growth(self, strip: Fraction) -> Ball:
        """How much larger a normal law is at `strip` off the axis, over what an integral is divided by there."""
        wide = self.variance * _ball(strip)
        return (wide * _ball(strip) / 2).exp() / (2 * arb.pi() * wide / self.step).expm1()

    def _turned(self, angle: Fraction) -> Ball:
        """A bound of (|w| / w)^power, for w turned by at most `angle` < pi: |w| is between cos(angle/2) w and w."""
        return (_ball(angle if self.steps else angle / 2).cos().log() * self.power).exp() if self.power < 0 else arb(1)

    def values(self, points: list[Ball]) -> list[Ball]:
        """The sum at evenly spaced points from the height 0 on, each of which is at the sum of two heights."""
        block, box = math.isqrt(len(points)) + 1, acb(arb(0, self.error), arb(0, self.error))
        total = acb_mat(len(points[::block]), block)
        for terms in (self.terms[k : k + CHUNK] for k in range(0, len(self.terms), CHUNK)):
            low = [[acb(0, z.imag * turn).exp() for z in points[:block]] for _, turn in terms]
            total += acb_mat([[w * acb(0, z.imag * u).exp() for w, u in terms] for z in points[::block]]) * acb_mat(low)
        return [value + box for value in total.entries()]

    def ceiling(self) -> Ball:
        """A bound of |M| from the height on, by a contour moved by the angle [6], or of its numerator [16]."""
        if self.steps is not None:
            return self.top * (-(self.height**2) / (2 * self.steps * self.variance)).exp()
        angle, strip = self.q["angle"], self.q["angle_strip"]
        theta, both, turn = _ball(angle), _ball(angle + strip), acb(0, _ball(angle)).exp()
        fits = strip > 0 and ((strip <= angle and both < arb.pi()) or 2 * both <= arb.pi())
        _require(fits, "angle_strip must be positive, and such that turning never raises the modulus.")
        logs = [acb(self.power, self.height) * (1 - self.rate + turn * odds).log() for odds in self.odds]
        total = sum(normal * log.real.exp() for normal, log in zip(self.normal, logs, strict=True))
        total += self.outside * self._turned(angle) + 2 * self._growth(strip) * self._turned(angle + strip) * self.top
        return (total * (self.variance * theta * theta / 2).exp()).upper()


class _Moments:
    """M of a run in one direction on Re z = tau, up to a height; Gaussians without sampling are one [4]."""

    def __init__(self, parts: list[Values], direction: str, tau: Fraction, line: Values) -> None:
        self.tau, self.height = _ball(tau), _ball(line.get("step", Fraction(0)) * line.get("nodes", 0))
        self.half = _ball((sum(part["rounds"] * part["variance"] for part in parts) + line.get("smoothing", 0)) / 2)
        self.others = [part for part in parts if "steps" in part or "gaussian" not in part["mechanism"]]
        sums = zip((part for part in parts if part["sum"]), line["quadratures"], strict=True)
        self.sums = [(part["rounds"], _Sum(part, direction, tau, q, self.height)) for part, q in sums]

    def log_bound(self, *, beyond: bool) -> Ball:
        """A bound of log |M| on the line, or only beyond the height, where it has fallen [6]."""
        height = self.height if beyond else arb(0)
        total = self.half * (self.tau * (self.tau + 1) - height**2)
        total += sum(each["rounds"] * _formula(each, self.tau, height).log() for each in self.others)
        return total + sum(n * (each.ceiling() if beyond else each.top).log() for n, each in self.sums)

    def values(self, points: list[Ball]) -> list[Ball]:
        """M at evenly spaced points of the line from the axis on."""
        values = [(self.half * z * (z + 1)).exp() for z in points]
        for part in self.others:
            values = [value * _formula(part, z) ** part["rounds"] for value, z in zip(values, points, strict=True)]
        for rounds, each in self.sums:
            values = [value * moment**rounds for value, moment in zip(values, each.values(points), strict=False)]
        return values


def _infinite_mass(parts: list[Values]) -> Ball:
    return 1 - math.prod((_ball(1 - part.get("delta", Fraction(0))) ** part["rounds"] for part in parts), start=arb(1))


def _delta(parts: list[Values], direction: str, epsilon: Fraction, line: Values, from_below: bool) -> Ball:
    """A ball whose upper end is not below delta [1, 2, 3, 7], or one whose lower end is not above it [9]."""
    if direction == REMOVE and any("steps" in part for part in parts):  # by the other direction [17]
        return 1 - (1 - _delta(parts, ADD, -epsilon, line, from_below)) * _ball(epsilon).exp()
    moments = _Moments(parts, direction, line["tau"], line)
    e, v, h, tau = map(_ball, (epsilon, line["smoothing"], line["step"], line["tau"]))
    points = [acb(tau, _ball(line["step"] * n)) for n in range(line["nodes"] + 1)]
    values = [h / arb.pi() * m * (-e * z).exp() for z, m in zip(points, moments.values(points), strict=True)]
    values[0] /= 2  # each of the others comes with its conjugate
    total = sum((value / (z * (z + 1))).real for z, value in zip(points, values, strict=True))
    truncation = (moments.log_bound(beyond=True) - tau * e).exp() / (arb.pi() * moments.height)
    if not from_below:
        return total + truncation + _infinite_mass(parts)
    _require(line["above"] > line["tau"], "above must be larger than tau.")
    r, period = _ball(line["above"]), 2 * arb.pi() / h
    bound = _Moments(parts, direction, line["above"], line).log_bound(beyond=False)
    aliases = (r * (r / (1 + r)).log() - (1 + r).log() + bound - r * e).exp() / ((r - tau) * period).expm1()
    aliases += 1 / (tau * period).expm1()
    smoothed = v * (v / 8).exp() * (sum(value.real for value in values) + truncation / v) if line["smoothing"] else 0
    return total - truncation - aliases - smoothed + _infinite_mass(parts)


def _profile(part: Values, direction: str, x: Ball) -> tuple[Ball, Ball]:
    """Delta of one round at a loss of any sign, and the chance under Q of a larger one, in closed form [12]."""
    y = x.exp()
    if "gaussian" not in part["mechanism"]:
        a, finite = _ball(part["largest_loss"]), _ball(1 - part.get("delta", Fraction(0)))
        least = ((x - a) / 2).exp() if part["mechanism"] == "laplace" else (1 + y) / (1 + a.exp())
        between = least / (2 * y if part["mechanism"] == "laplace" else 1 + y)
        tail = between if abs(x) < a else arb(1) if x < -a else arb(0) if x > a else arb.nan()  # at an atom not known
        return 1 - finite * least.min(y).min(1), finite * tail
    sigma, rate = _ball(part["noise_multiplier"]), _ball(part.get("sampling_rate", Fraction(1)))
    c, half, root = ((y if direction == REMOVE else 1 / y) - 1 + rate) / rate, 1 / (2 * sigma), arb(2).sqrt()
    level = sigma * c.log()  # not a number where the sign of c is not known
    tail = arb(1) if c <= 0 else ((level + half) / root).erfc() / 2
    above = 1 - c if c <= 0 else ((level - half) / root).erfc() / 2 - c * tail
    delta = rate * above if direction == REMOVE else rate * (above + c - 1) * y
    return delta, tail if direction == REMOVE else (1 - tail - delta) / y


def _law(part: Values, direction: str, lattice: Values, grid: Values, from_below: bool) -> fmpz_poly:
    """Masses of a round that costs more [12] or less [14], at the points of a grid, in units of 2^-precision."""
    step, first, n = lattice["step"], grid["first"], grid["nodes"]
    ends = [_ball(step * (2 * (first + j) - from_below) / 2) for j in range(n + from_below)]
    rows = [(x.exp(), *_profile(part, direction, x)) for x in ends]
    if from_below:  # losses around a point are merged, and lowered by a shift or more
        masses, tails = [arb(0)] * n, [(delta + y * tail, tail) for y, delta, tail in rows]
        for (p, q), (p_above, q_above) in pairwise(tails):
            mean = ((p - p_above) / (q - q_above)).log()
            j = ((mean + _ball(lattice["shift"])) / _ball(step) - first).lower().floor().unique_fmpz()
            if j is not None and 0 <= j < n:
                masses[int(j)] += p - p_above
    else:
        chords = [(right[1] - left[1]) / (right[0] - left[0]) for left, right in pairwise(rows)]
        slopes = zip(rows, [(rows[0][1] - 1) / rows[0][0], *chords], [*chords, arb(0)], strict=True)
        masses = [(right - left) * y for (y, *_), left, right in slopes]
    units = [(mass * 2**ctx.prec).lower().floor().unique_fmpz() for mass in masses]
    return fmpz_poly([max(mass or 0, 0) for mass in units])  # one that is not known counts as none


def _on_lattice(parts: list[Values], direction: str, epsilon: Fraction, lattice: Values, from_below: bool) -> Ball:
    """As `_delta`: one, less what is known at finite losses [13]; from below, what is known of larger ones [14]."""
    bits, step, fall = lattice["precision"], lattice["step"], _ball(-lattice["step"]).exp()

    def product(one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
        masses = [mass >> bits for mass in (one[1] * other[1]).coeffs()]
        low = next((n for n, mass in enumerate(masses) if mass), 0)
        return one[0] + other[0] + low, fmpz_poly(masses[low : low + lattice["points"]])

    whole = nothing = 0, fmpz_poly([2**bits])
    for part, grid in zip(parts, lattice["grids"], strict=True):
        law, power = (grid["first"], _law(part, direction, lattice, grid, from_below)), nothing
        for digit in f"{part['rounds']:b}":
            power = product(product(power, power), law if digit == "1" else nothing)
        whole = product(whole, power)
        epsilon += part["rounds"] * lattice["shift"] if from_below else 0
    masses, share = whole[1].coeffs(), _ball(epsilon - step * whole[0]).exp()
    shares = accumulate(masses, lambda share, _: share * fall, initial=share)
    known = sum((mass * share.min(1) for mass, share in zip(masses, shares, strict=False)), start=arb(0))
    return ((sum(masses) if from_below else 2**bits) - known) / 2**bits + (_infinite_mass(parts) if from_below else 0)


def _approximate_dp(claim: Values, evidence: object) -> None:
    """Whether delta is at most what is claimed, in every direction; and that it is more at a lower epsilon."""
    given = _read("This claim", claim, {**ABOUT_A_RUN, "epsilon": ZERO, "delta": ZERO, "lower_epsilon": None})
    parts, directions = _run(given)
    found = _read("The evidence", evidence, dict.fromkeys((*directions, "lower"), None))
    sums = {**LINE, "quadratures": [part["sum"] for part in parts if part["sum"]]}
    grids = {**LATTICE, "grids": [() if "steps" in part else GRID for part in parts]}
    kinds = {name: grids if isinstance(line, dict) and "grids" in line else sums for name, line in found.items()}
    asked = {name: None if found[name] is None else kinds[name] for name in directions}
    if given["lower_epsilon"] is not None or found["lower"] is not None:
        asked["lower"] = {**kinds["lower"], "direction": tuple(directions)}
        given["lower_epsilon"] = _read("lower_epsilon", given["lower_epsilon"], ZERO)
    for name, line in _lines(parts, found, asked).items():
        with ctx.workprec(line["precision"] if line else 128):
            delta, is_lower = _ball(given["delta"]), name == "lower"
            epsilon = given["lower_epsilon" if is_lower else "epsilon"]
            if line is None:  # then no finite loss may exceed epsilon [8]
                losses = [part["rounds"] * part["largest_loss"] for part in parts]
                _require(math.inf not in losses and sum(losses) <= epsilon, f"A line is missing ({name}).")
            proof = _on_lattice if line and "grids" in line else _delta
            bound = (
                proof(parts, line.get("direction", name), epsilon, line, is_lower) if line else _infinite_mass(parts)
            )
            _require(bound > delta if is_lower else bound <= delta, f"The evidence does not prove delta ({name}).")


def _renyi(claim: Values, evidence: object) -> None:
    """Whether K(order - 1) <= (order - 1) rdp in every direction [10]."""
    given = _read("This claim", claim, {**ABOUT_A_RUN, "order": ZERO, "rdp": ZERO})
    (parts, directions), tau = _run(given), given["order"] - 1
    _require(tau > 0, "order must be larger than 1.")
    _require(not any({"delta", "steps"} & set(part) for part in parts), "No Rényi bound of this run can be checked.")
    kind = {**BITS, "quadratures": [part["sum"] for part in parts if part["sum"]]}
    found = _read("The evidence", evidence, dict.fromkeys(directions, None))
    for direction, line in _lines(parts, found, dict.fromkeys(directions, kind)).items():
        with ctx.workprec(line["precision"]):
            bound = _Moments(parts, direction, tau, line).log_bound(beyond=False)
            _require(bound <= _ball(tau * given["rdp"]), f"The evidence does not prove rdp ({direction}).")


def _conversion(claim: Values, evidence: object) -> None:
    """Whether every pair of this Rényi divergence is (epsilon, delta)-close, by a tangent of the power [11]."""
    given = _read("This claim", claim, {"kind": None, **dict.fromkeys(LETTERS, ZERO)})
    _require(given["order"] > 1, "order must be larger than 1.")
    found = _read("The evidence", evidence, {**BITS, "tangent": POSITIVE, "scale": POSITIVE, "linear": ZERO})
    with ctx.workprec(found.pop("precision")):
        a, t, (b, k, c) = _ball(given["order"]), _ball(given["order"] - 1), map(_ball, found.values())
        slope = b**t  # of the power at the tangent point, over the order
        touch = (slope + (1 - c) / (k * a)) ** (1 / t)
        largest = touch - k * (touch**a - a * slope * touch + t * slope * b) - c * touch
        _require(largest <= _ball(given["epsilon"]).exp(), "The evidence does not prove epsilon.")
        mass = k * ((t * _ball(given["rdp"])).exp() - a * slope + t * slope * b) + c
        _require(mass <= _ball(given["delta"]), "The evidence does not prove delta.")


def _once(pairs: list[tuple[str, Any]]) -> Values:
    _require(len(dict(pairs)) == len(pairs), "A field is given twice.")
    return dict(pairs)


def check(data: bytes) -> str:
    """What the certificate in these bytes proves, in one line; raises `RefusedError` if it proves nothing."""
    _require(len(data) <= MOST_BYTES, f"A certificate has at most {MOST_BYTES} bytes.")
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise RefusedError("A certificate must be JSON in UTF-8.") from None
    kinds = {"format": (FORMAT,), "version": range(VERSION, VERSION + 1), "claim": None, "evidence": None}
    *_, claim, evidence = _read("A certificate", found, kinds).values()
    by_kind = {"approximate-dp": _approximate_dp, "renyi": _renyi, "conversion": _conversion}
    kind = _read("kind", claim.get("kind") if isinstance(claim, dict) else None, tuple(by_kind))
    by_kind[kind](claim, evidence)
    said = ", ".join(f"{letter} = {claim[name]}" for name, letter in LETTERS.items() if name in claim)
    more = f", and not at ε = {claim['lower_epsilon']}" if claim.get("lower_epsilon") else ""
    parts = [f"{part['rounds']} × {part['mechanism']}" for part in claim.get("run", [])]
    subject = " + ".join([*parts[:3], "…"] if len(parts) > 3 else parts) or "every pair with this Rényi bound"
    return f"Verified: {subject} ({said}){more}"


def main(arguments: list[str]) -> int | str:
    """What `sys.exit` takes: 0 if verified, why it is not, which becomes 1, or 2 for bad usage."""
    if len(arguments) != 1:
        print("Usage: python checker.py claim.json", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], "rb") as file:
            proven = check(file.read(MOST_BYTES + 1))
    except (RefusedError, OSError, ValueError) as error:
        return f"Not verified: {error}"
    encoding = sys.stdout.encoding or "ascii"  # a terminal may have no Greek letters
    print(proven.encode(encoding, "backslashreplace").decode(encoding))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from flint import acb, arb, ctx, fmpq, fmpz_poly

__all__ = ["FORMAT", "MOST_BYTES", "PARAMETERS", "VERSION", "RefusedError", "check", "main"]

FORMAT, VERSION, REMOVE, ADD = "dprounds certificate", 1, "remove", "add"
# Limits, so that every certificate is answered within 20 seconds and a gigabyte; what goes beyond them is refused.
MOST_BYTES, MOST_PARTS, MOST_ROUNDS, MOST_BITS = 10**6, 1000, 10**15, 400
# In pairs of products of two complex balls, of 0.3 µs each at 100 bits and 1.3 µs at 400; all else takes several.
MOST_WORK, FORMULA, NODE, MASS = 24_000_000, 40, 60, 32
AFRESH = 32  # a ball that is turned becomes wider; after so many turns all are computed anew
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[1-9][0-9]{0,39}", re.ASCII)
# Kinds of what stands in a certificate, for `_read`: numbers that are not negative, and positive ones by the largest.
ZERO, POSITIVE, SOME, LARGE = "not negative", math.inf, range(1, MOST_WORK + 1), 10**9
NOISE, LOSS = {"noise_multiplier": 10**9}, {"epsilon": 1000}
PARAMETERS = {"gaussian": NOISE, "laplace": NOISE, "randomized-response": LOSS, "pure-dp": LOSS}
PARAMETERS |= {"poisson-sampled-gaussian": {**NOISE, "sampling_rate": 1}, "approximate-dp": {**LOSS, "delta": 1}}
PART = {"mechanism": None, "rounds": range(1, MOST_ROUNDS + 1)}
ABOUT_A_RUN, RELATIONS = {"kind": None, "run": None, "relation": None}, ("add-remove", "zero-out")
BITS = {"precision": range(2, MOST_BITS + 1)}
QUADRATURE = {"step": POSITIVE, "strip": POSITIVE, "angle": ZERO, "angle_strip": ZERO}
MOMENTS = {**BITS, "quadratures": [{**QUADRATURE, "first": range(-LARGE, 1), "last": range(LARGE + 1)}]}
LINE = {**MOMENTS, "tau": POSITIVE, "step": POSITIVE, "nodes": SOME, "smoothing": ZERO, "above": ZERO}
GRID = {"first": range(-LARGE, LARGE), "nodes": SOME}
LATTICE = {**BITS, "step": POSITIVE, "points": range(1, 2**19), "shift": ZERO, "grids": [GRID]}
Ball = Any  # a real or complex ball; python-flint has no types
Values = dict[str, Any]  # an object of the certificate, its numbers read


class RefusedError(Exception):
    """The certificate proves nothing, and why, in one sentence."""


def _require(holds: object, sentence: str) -> None:
    """Raise unless something certainly holds: comparisons of balls are true only if they hold for all of both."""
    if holds is not True:
        raise RefusedError(sentence)


def _read(name: str, found: Any, kind: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    """What has this name, read by its kind: those of fields, of items in a list, words, a range, a number, or None."""
    if isinstance(kind, Mapping):
        fits = isinstance(found, dict) and set(found) == set(kind)
        _require(fits, f"{name} must be an object with the fields {', '.join(kind)}.")
        return {each: _read(each, found[each], kind[each]) for each in kind}
    if isinstance(kind, list):
        _require(isinstance(found, list), f"{name} must be a list.")
        return [_read(f"Each of {name}", each, kind[0]) for each in found]
    if isinstance(kind, tuple):
        _require(found in kind, f"{name} must be one of {json.dumps(kind)}.")
    elif isinstance(kind, range):  # True and False are no whole numbers
        fits = type(found) is int and found in kind
        _require(fits, f"{name} must be a whole number from {kind[0]} to {kind[-1]}.")
    elif kind is not None:
        fits = isinstance(found, str) and NUMBER.fullmatch(found) is not None
        _require(fits, f'{name} must be a number written as text, such as "0.01", "1e-5" or "256/60000".')
        found = Fraction(found)
        _require(kind == ZERO or 0 < found <= kind, f"{name} must be in (0, {kind}].")
    return found


def _run(claim: Values) -> tuple[list[Values], list[str]]:
    """The parts, and the directions to be checked: only the pairs of sampled mechanisms are not symmetric."""
    parts: list[Values] = []
    for found in _read("run", claim["run"], [None]):
        mechanism = _read("mechanism", found.get("mechanism") if isinstance(found, dict) else None, tuple(PARAMETERS))
        part = _read("A part of the run", found, {**PART, **PARAMETERS[mechanism]})
        part["is_sampled"] = part.get("sampling_rate", 1) != 1  # at rate 1 it is the Gaussian mechanism
        part["is_gaussian"] = "gaussian" in mechanism and not part["is_sampled"]
        bounded = part.get("epsilon") or 1 / part["noise_multiplier"]  # the largest loss of Laplace noise
        parts.append({**part, "largest_loss": math.inf if "gaussian" in mechanism else bounded})
    _require(0 < len(parts) <= MOST_PARTS, f"run must be a list of 1 to {MOST_PARTS} parts.")
    _read("relation", claim["relation"], RELATIONS if any("sampling_rate" in part for part in parts) else (None,))
    return parts, [REMOVE, ADD] if any(part["is_sampled"] for part in parts) else [REMOVE]


def _check_work(parts: list[Values], found: list[Values | None]) -> None:
    total, sampled = 0, sum(part["is_sampled"] for part in parts)
    for each in filter(None, found):
        if "grids" in each:
            fits = len(each["grids"]) == len(parts) and all(grid["nodes"] <= each["points"] for grid in each["grids"])
            _require(fits, "grids must be as many as parts, none with more points than are kept.")
            work = sum((2 * part["rounds"].bit_length() + 1) * each["points"] for part in parts)
            work += MASS * sum(grid["nodes"] for grid in each["grids"])
        else:
            _require(len(each["quadratures"]) == sampled, f"quadratures must be as many as sampled parts, {sampled}.")
            x = sum(quadrature["last"] - quadrature["first"] + 1 for quadrature in each["quadratures"])
            work = ((each.get("nodes", 0) + 1) * (x + FORMULA * (1 + len(parts))) + NODE * x) // 2
        total += work * (128 + each["precision"]) // 128
    _require(total <= MOST_WORK, f"The check would take more than {MOST_WORK} pairs of products of balls.")


def _ball(number: Fraction | int) -> Ball:
    return arb(fmpq(number.numerator, number.denominator))


def _formula(part: Values, z: Ball, height: Ball = 0) -> Ball:
    """M of a mechanism other than a Gaussian that has a closed form [4]; at a real z, a bound of |M| above it [6]."""
    half, y = _ball(part["largest_loss"] / 2), (2 * z + 1) * _ball(part["largest_loss"] / 2)
    if part["mechanism"] != "laplace":
        return _ball(1 - part.get("delta", Fraction(0))) * y.cosh() / half.cosh()
    between = y.sinh() / (2 * z + 1)
    return (-half).exp() * (y.cosh() + (between.min(y.cosh() / (2 * height)) if height > 0 else between))


class _Sampled:
    """M of a Poisson-sampled Gaussian on Re z = tau up to a height, by a trapezoid sum over x and its errors [5]."""

    def __init__(self, part: Values, direction: str, tau: Fraction, q: Values, height: Fraction) -> None:
        self.variance, self.height, self.q = _ball(part["noise_multiplier"] ** 2), _ball(height), q
        self.rate, self.step = _ball(part["sampling_rate"]), _ball(q["step"])
        self.power, self.sign = (_ball(tau + 1), 1) if direction == REMOVE else (_ball(-tau), -1)
        nodes = [_ball(q["step"] * j) for j in range(q["first"], q["last"] + 1)]
        scale = self.step / (2 * arb.pi() * self.variance).sqrt()
        self.normal = [(-x * x / (2 * self.variance)).exp() * scale for x in nodes]
        self.odds = [((2 * x - 1) / (2 * self.variance)).exp() * self.rate for x in nodes]
        self.logs = [(1 - self.rate + odds).log() for odds in self.odds]
        self.weights = [n * (self.power * u).exp() for n, u in zip(self.normal, self.logs, strict=True)]
        # Beyond the first and the last node terms fall at least geometrically [5b].
        low = (self.power * self.odds[0] / (1 - self.rate + self.odds[0]) if self.power < 0 else 0) - nodes[0]
        high = nodes[-1] - (self.power if self.power > 0 else 0)
        ends = ((self.weights[0], low), (self.weights[-1], high))
        self.outside = sum(weight / (self.step * far / self.variance).expm1() for weight, far in ends)
        # The error of the trapezoid rule is relative to M(tau), which the sum itself bounds [5a].
        growth = self._growth(q["strip"], q["strip"])
        fits = low > 0 and high > 0 and _ball(q["strip"]) < arb.pi() and 2 * growth < 1
        _require(fits, "A quadrature must reach further, have a shorter step, or a strip below pi.")
        self.top = ((sum(self.weights) + self.outside) / (1 - 2 * growth)).upper()
        self.error = self.outside + growth * (1 + (self.height * _ball(q["strip"])).exp()) * self.top

    def _growth(self, strip: Fraction, angle: Fraction) -> Ball:
        """How much larger than M(tau) the integral can be at `strip` off the axis, over what it is divided by."""
        wide = self.variance * _ball(strip)
        return (wide * _ball(strip) / 2).exp() * self._turned(angle) / (2 * arb.pi() * wide / self.step).expm1()

    def _turned(self, angle: Fraction) -> Ball:
        """A bound of (|w| / w)^power, for w turned by at most `angle` < pi: |w| is between cos(angle/2) w and w."""
        return ((_ball(angle) / 2).cos().log() * self.power).exp() if self.power < 0 else arb(1)

    def values(self, step: Fraction) -> Iterator[Ball]:
        angles = [self.sign * _ball(step) * u for u in self.logs]
        turns = [acb(0, angle).exp() for angle in angles]
        for n in range(MOST_WORK):
            if n % AFRESH == 0:
                terms = [weight * acb(0, n * angle).exp() for weight, angle in zip(self.weights, angles, strict=True)]
            yield sum(terms) + acb(arb(0, self.error), arb(0, self.error))
            terms = [term * turn for term, turn in zip(terms, turns, strict=True)]

    def ceiling(self) -> Ball:
        """A bound of |M| from the height on, by a contour moved by the angle [6]."""
        angle, strip = self.q["angle"], self.q["angle_strip"]
        theta, both, turn = _ball(angle), _ball(angle + strip), acb(0, _ball(angle)).exp()
        fits = strip > 0 and ((strip <= angle and both < arb.pi()) or 2 * both <= arb.pi())
        _require(fits, "angle_strip must be positive, and such that turning never raises the modulus.")
        logs = [acb(self.power, self.height) * (1 - self.rate + turn * odds).log() for odds in self.odds]
        total = sum(normal * log.real.exp() for normal, log in zip(self.normal, logs, strict=True))
        total += self.outside * self._turned(angle) + 2 * self._growth(strip, angle + strip) * self.top
        return (total * (self.variance * theta * theta / 2).exp()).upper()


class _Moments:
    """M of a run in one direction on Re z = tau, up to a height; Gaussians without sampling are one [4]."""

    def __init__(self, parts: list[Values], direction: str, tau: Fraction, line: Values, height: Fraction) -> None:
        self.tau, self.height = _ball(tau), _ball(height)
        gaussians = (part["rounds"] / part["noise_multiplier"] ** 2 for part in parts if part["is_gaussian"])
        self.half = _ball((sum(gaussians, Fraction(0)) + line.get("smoothing", 0)) / 2)
        self.others = [part for part in parts if "gaussian" not in part["mechanism"]]
        sampled = zip((part for part in parts if part["is_sampled"]), line["quadratures"], strict=True)
        self.sampled = [(part["rounds"], _Sampled(part, direction, tau, q, height)) for part, q in sampled]

    def log_bound(self, *, beyond: bool) -> Ball:
        """A bound of log |M| on the line, or only beyond the height, where it has fallen [6]."""
        height = self.height if beyond else arb(0)
        total = self.half * (self.tau * (self.tau + 1) - height**2)
        total += sum(each["rounds"] * _formula(each, self.tau, height).log() for each in self.others)
        return total + sum(n * (each.ceiling() if beyond else each.top).log() for n, each in self.sampled)

    def values(self, step: Fraction, nodes: int) -> Iterator[tuple[Ball, Ball]]:
        """z and M(z) at tau + i n step for n = 0, …, nodes."""
        sums = [(rounds, each.values(step)) for rounds, each in self.sampled]
        for n in range(nodes + 1):
            z = acb(self.tau, _ball(step * n))
            value = (self.half * z * (z + 1)).exp()
            for part in self.others:
                value *= _formula(part, z) ** part["rounds"]
            for rounds, moments in sums:
                value *= next(moments) ** rounds
            yield z, value


def _infinite_mass(parts: list[Values]) -> Ball:
    return 1 - math.prod((_ball(1 - part.get("delta", Fraction(0))) ** part["rounds"] for part in parts), start=arb(1))


def _delta(parts: list[Values], direction: str, epsilon: Fraction, line: Values, from_below: bool) -> Ball:
    """A ball whose upper end is not below delta [1, 2, 3, 7], or one whose lower end is not above it [9]."""
    height = line["step"] * line["nodes"]
    moments = _Moments(parts, direction, line["tau"], line, height)
    e, v, h, tau, s = map(_ball, (epsilon, line["smoothing"], line["step"], line["tau"], height))
    total, density, weight = arb(0), arb(0), h / (2 * arb.pi())
    for z, moment in moments.values(line["step"], line["nodes"]):
        value = moment * (-e * z).exp() * weight
        total += (value / (z * (z + 1))).real
        density += value.real
        weight = h / arb.pi()  # of every node but the first, with its conjugate
    truncation = (moments.log_bound(beyond=True) - tau * e).exp() / (arb.pi() * s)
    if not from_below:
        return total + truncation + _infinite_mass(parts)
    _require(line["above"] > line["tau"], "above must be larger than tau.")
    r, period = _ball(line["above"]), 2 * arb.pi() / h
    bound = _Moments(parts, direction, line["above"], line, Fraction(0)).log_bound(beyond=False)
    aliases = (r * (r / (1 + r)).log() - (1 + r).log() + bound - r * e).exp() / ((r - tau) * period).expm1()
    aliases += 1 / (tau * period).expm1()
    smoothed = v * (v / 8).exp() * (density + truncation / v) if line["smoothing"] else 0
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
    bits, step = lattice["precision"], lattice["step"]

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
    known, share, fall = arb(0), _ball(epsilon - step * whole[0]).exp(), _ball(-step).exp()
    for mass in whole[1].coeffs():
        known += mass * share.min(1)
        share *= fall
    counted = sum(whole[1].coeffs()) if from_below else 2**bits
    return (counted - known) / 2**bits + (_infinite_mass(parts) if from_below else 0)


def _approximate_dp(claim: Values, evidence: object) -> str:
    given = _read("This claim", claim, {**ABOUT_A_RUN, "epsilon": ZERO, "delta": ZERO, "lower_epsilon": None})
    parts, directions = _run(given)
    found = _read("The evidence", evidence, dict.fromkeys((*directions, "lower"), None))
    asked, said = [], f"(ε = {claim['epsilon']}, δ = {claim['delta']})"
    kinds = {name: LATTICE if isinstance(line, dict) and "grids" in line else LINE for name, line in found.items()}
    for direction in directions:
        line = _read(direction, found[direction], None if found[direction] is None else kinds[direction])
        asked.append((direction, direction, given["epsilon"], line))
    if given["lower_epsilon"] is not None or found["lower"] is not None:
        line = _read("lower", found["lower"], {**kinds["lower"], "direction": tuple(directions)})
        asked.append(("lower", line["direction"], _read("lower_epsilon", given["lower_epsilon"], ZERO), line))
        said += f", and not at ε = {claim['lower_epsilon']}"
    _check_work(parts, [line for *_, line in asked])
    for name, direction, epsilon, line in asked:
        with ctx.workprec(line["precision"] if line else 128):
            if line is None:  # then no finite loss may exceed epsilon [8]
                largest_loss = sum(part["rounds"] * part["largest_loss"] for part in parts)
                _require(largest_loss <= epsilon, f"A line is missing ({direction}).")
                holds = _infinite_mass(parts) <= _ball(given["delta"])
            else:
                bound = _on_lattice if "grids" in line else _delta
                found = bound(parts, direction, epsilon, line, name == "lower")
                holds = found > _ball(given["delta"]) if name == "lower" else found <= _ball(given["delta"])
            _require(holds, f"The evidence does not prove delta ({name}).")
    return said


def _renyi(claim: Values, evidence: object) -> str:
    """K(order - 1) <= (order - 1) rdp in every direction [10]."""
    given = _read("This claim", claim, {**ABOUT_A_RUN, "order": ZERO, "rdp": ZERO})
    (parts, directions), tau = _run(given), given["order"] - 1
    _require(tau > 0, "order must be larger than 1.")
    _require(not any("delta" in part for part in parts), "No Rényi bound is finite where losses may be infinite.")
    lines = _read("The evidence", evidence, dict.fromkeys(directions, MOMENTS))
    _check_work(parts, list(lines.values()))
    for direction, line in lines.items():
        with ctx.workprec(line["precision"]):
            bound = _Moments(parts, direction, tau, line, Fraction(0)).log_bound(beyond=False)
            _require(bound <= _ball(tau * given["rdp"]), f"The evidence does not prove rdp ({direction}).")
    return f"(order = {claim['order']}, rdp = {claim['rdp']})"


def _conversion(claim: Values, evidence: object) -> str:
    """Whether every pair of this Rényi divergence is (epsilon, delta)-close, by a tangent of the power [11]."""
    names = ("order", "rdp", "epsilon", "delta")
    given = _read("This claim", claim, {"kind": None, **dict.fromkeys(names, ZERO)})
    _require(given["order"] > 1, "order must be larger than 1.")
    reals = {"tangent": POSITIVE, "scale": POSITIVE, "linear": ZERO}
    found = _read("The evidence", evidence, {**BITS, **reals})
    with ctx.workprec(found["precision"]):
        a, t, (b, k, c) = _ball(given["order"]), _ball(given["order"] - 1), (_ball(found[name]) for name in reals)
        slope = b**t  # of the power at the tangent point, over the order
        touch = (slope + (1 - c) / (k * a)) ** (1 / t)
        largest = touch - k * (touch**a - a * slope * touch + t * slope * b) - c * touch
        _require(largest <= _ball(given["epsilon"]).exp(), "The evidence does not prove epsilon.")
        mass = k * ((t * _ball(given["rdp"])).exp() - a * slope + t * slope * b) + c
        _require(mass <= _ball(given["delta"]), "The evidence does not prove delta.")
    return "(" + ", ".join(f"{name} = {claim[name]}" for name in names) + ")"


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
    proven = by_kind[kind](claim, evidence)
    parts = [f"{part['rounds']} × {part['mechanism']}" for part in claim.get("run", [])]
    subject = " + ".join([*parts[:3], "…"] if len(parts) > 3 else parts) or "every pair with this Rényi bound"
    return f"Verified: {subject} {proven}"


def main(arguments: list[str]) -> int:
    """The exit code: 0 verified, 1 not verified, 2 bad usage."""
    if len(arguments) != 1:
        print("Usage: python checker.py claim.json", file=sys.stderr)
        return 2
    try:
        with Path(arguments[0]).open("rb") as file:
            proven = check(file.read(MOST_BYTES + 1))
    except (RefusedError, OSError, ValueError) as error:
        print(f"Not verified: {error}", file=sys.stderr)
        return 1
    encoding = sys.stdout.encoding or "ascii"  # a terminal may have no Greek letters
    print(proven.encode(encoding, "backslashreplace").decode(encoding))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

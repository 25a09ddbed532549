r"""The check of a certificate: whether what it claims about privacy is proven, in ball arithmetic.

``python checker.py claim.json`` needs python-flint and the standard library, and works alone in an empty folder. The
numbers of a certificate are rational, and all that is computed from them are balls (the Arb library): intervals that
contain the truth. The evidence says where to look, and is not trusted: a wrong one can only make the check fail. With
(P, Q) the worst pair of a run in one direction, L = log dP/dQ and M(z) = E_P[exp(z L); L < ∞], for any τ, h > 0

.. math:: \delta(\varepsilon) \le \frac h\pi \mathrm{Re}\Big[\tfrac12 G(0) + \sum_{n\ge1} G(nh)\Big] + P(L = \infty),
          \qquad G(s) = \frac{M(z)\,e^{-\varepsilon z}}{z(1+z)},\ z = \tau + is .

Numbers in brackets are the propositions of docs/theory/certificates.md, which proves every step.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from flint import acb, arb, ctx, fmpq

__all__ = ["FORMAT", "MOST_BYTES", "PARAMETERS", "VERSION", "RefusedError", "check", "main"]

FORMAT, VERSION = "dprounds certificate", 1
REMOVE, ADD, RELATIONS = "remove", "add", ("add-remove", "zero-out")
# Limits, so that every certificate is answered within 20 seconds and a gigabyte; what goes beyond them is refused.
MOST_BYTES, MOST_PARTS, MOST_ROUNDS, MOST_BITS = 10**6, 1000, 10**15, 400
# In products of two complex balls, of 0.6 µs each at 100 bits and 1 µs at 400; formulas and nodes take several.
MOST_WORK, FORMULA, NODE = 8_000_000, 20, 60
# Every double in its shortest decimal, and fractions.
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[1-9][0-9]{0,39}", re.ASCII)
# The mechanisms, and their parameters with the greatest value of each; none may be 0.
NOISE = {"noise_multiplier": 10**9}
PARAMETERS: Mapping[str, Mapping[str, int]] = {
    "gaussian": NOISE,
    "poisson-sampled-gaussian": {**NOISE, "sampling_rate": 1},
    "laplace": NOISE,
    "randomized-response": {"epsilon": 1000},
    "pure-dp": {"epsilon": 1000},
    "approximate-dp": {"epsilon": 1000, "delta": 1},
}
Ball = Any  # a real or complex ball; python-flint has no types
Values = dict[str, Any]  # an object of the certificate, its numbers read
Reader = Callable[[str, object], Any]


class RefusedError(Exception):
    """The certificate proves nothing, and why, in one sentence."""


def _refuse(sentence: str) -> NoReturn:
    raise RefusedError(sentence)


def _require(holds: object, sentence: str) -> None:
    """Raise unless something certainly holds: comparisons of balls are true only if they hold for all of both."""
    if holds is not True:
        _refuse(sentence)


def _object(what: str, found: object, readers: Mapping[str, Reader | None]) -> Values:
    """An object with exactly these fields, each read by its reader; where that is None, as it is."""
    if not isinstance(found, dict) or set(found) != set(readers):
        _refuse(f"{what} must be an object with the fields {', '.join(readers)}.")
    return {name: reader(name, found[name]) if reader else found[name] for name, reader in readers.items()}


def _number(name: str, found: object) -> Fraction:
    if not isinstance(found, str) or not NUMBER.fullmatch(found):
        _refuse(f'{name} must be a number written as text, such as "0.01", "1e-5" or "256/60000".')
    return Fraction(found)


def _positive(name: str, found: object) -> Fraction:
    value = _number(name, found)
    _require(value > 0, f"{name} must be positive.")
    return value


def _count(least: int, most: int) -> Callable[[str, object], int]:
    def read_count(name: str, found: object) -> int:
        if type(found) is not int or not least <= found <= most:  # True and False are no counts
            _refuse(f"{name} must be a whole number from {least} to {most}.")
        return found

    return read_count


def _part(found: object) -> Values:
    mechanism = found.get("mechanism") if isinstance(found, dict) else None
    if not isinstance(mechanism, str) or mechanism not in PARAMETERS:
        _refuse(f"mechanism must be one of {', '.join(PARAMETERS)}.")
    most = PARAMETERS[mechanism]
    readers = {"mechanism": None, "rounds": _count(1, MOST_ROUNDS), **dict.fromkeys(most, _positive)}
    part = _object("A part of the run", found, readers)
    for name, limit in most.items():
        _require(part[name] <= limit, f"{name} must be at most {limit}.")
    part["is_sampled"] = part.get("sampling_rate", 1) != 1  # at rate 1 it is the Gaussian mechanism
    part["is_gaussian"] = "gaussian" in mechanism and not part["is_sampled"]
    return part


def _run(claim: Values) -> tuple[list[Values], list[str]]:
    """The parts, and the directions to be checked: only the pairs of sampled mechanisms are not symmetric."""
    found = claim["run"]
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_PARTS:
        _refuse(f"run must be a list of 1 to {MOST_PARTS} parts.")
    parts = [_part(each) for each in found]
    known = RELATIONS if any("sampling_rate" in part for part in parts) else (None,)
    _require(claim["relation"] in known, f"relation must be one of {json.dumps(known)} for these mechanisms.")
    return parts, [REMOVE, ADD] if any(part["is_sampled"] for part in parts) else [REMOVE]


def _quadratures(name: str, found: Any) -> list[Values]:  # noqa: ANN401  (whatever JSON holds)
    _require(isinstance(found, list), f"{name} must be a list.")
    reals = {"step": _positive, "strip": _positive, "angle": _number, "angle_strip": _number}
    counts = {"first": _count(-(10**9), 0), "last": _count(0, 10**9)}
    return [_object("A quadrature", each, {**reals, **counts}) for each in found]


BITS: Mapping[str, Reader] = {"precision": _count(2, MOST_BITS)}
MOMENTS = {**BITS, "quadratures": _quadratures}
NODES = {"tau": _positive, "step": _positive, "nodes": _count(1, MOST_WORK)}
LINE = {**MOMENTS, **NODES, "smoothing": _number, "above": _number}
ABOUT_A_RUN: Mapping[str, None] = {"kind": None, "run": None, "relation": None}


def _check_work(parts: list[Values], lines: list[Values | None]) -> None:
    total, sampled = 0, sum(part["is_sampled"] for part in parts)
    for line in filter(None, lines):
        _require(len(line["quadratures"]) == sampled, f"quadratures must be as many as sampled parts, {sampled}.")
        x = sum(each["last"] - each["first"] + 1 for each in line["quadratures"])
        total += (line.get("nodes", 0) + 1) * (x + FORMULA * (1 + len(parts))) + NODE * x
    _require(total <= MOST_WORK, f"The check would take more than {MOST_WORK} products of balls.")


def _ball(number: Fraction | int) -> Ball:
    return arb(fmpq(number.numerator, number.denominator))


def _formula(part: Values) -> Callable[[Ball], Ball]:
    """M of a mechanism other than a Gaussian that has a closed form [4]."""
    if part["mechanism"] == "laplace":
        a = _ball(1 / part["noise_multiplier"])
        return lambda z: ((z + 1) * (z * a).exp() + z * (-(z + 1) * a).exp()) / (2 * z + 1)
    half, finite = _ball(part["epsilon"] / 2), _ball(1 - part.get("delta", Fraction(0)))
    return lambda z: finite * ((2 * z + 1) * half).cosh() / half.cosh()


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
        share = self.odds[0] / (1 - self.rate + self.odds[0])
        low = (self.power * share if self.power < 0 else 0) - nodes[0]
        high = nodes[-1] - (self.power if self.power > 0 else 0)
        _require(low > 0 and high > 0, "The nodes of a quadrature do not reach far enough.")
        ends = ((self.weights[0], low), (self.weights[-1], high))
        self.outside = sum(weight / (self.step * far / self.variance).expm1() for weight, far in ends)
        # The error of the trapezoid rule is relative to M(tau), which the sum itself bounds [5a].
        _require(_ball(q["strip"]) < arb.pi(), "strip must be below pi.")
        growth = self._growth(q["strip"], q["strip"])
        _require(2 * growth < 1, "The step of a quadrature is too large.")
        self.top = ((sum(self.weights) + self.outside) / (1 - 2 * growth)).upper()
        self.error = self.outside + growth * (1 + (self.height * _ball(q["strip"])).exp()) * self.top

    def _growth(self, strip: Fraction, angle: Fraction) -> Ball:
        """How much larger than M(tau) the integral can be at `strip` off the axis, over what it is divided by."""
        b = _ball(strip)
        larger = (self.variance * b * b / 2).exp() * self._turned(angle)
        return larger / (2 * arb.pi() * self.variance * b / self.step).expm1()

    def _turned(self, angle: Fraction) -> Ball:
        """A bound of (|w| / w)^power, for w turned by at most `angle` < pi: |w| is between cos(angle/2) w and w."""
        return ((_ball(angle) / 2).cos().log() * self.power).exp() if self.power < 0 else arb(1)

    def values(self, step: Fraction) -> Iterator[Ball]:
        """M at tau + i n step for n = 0, 1, … up to the height."""
        turns = [acb(0, self.sign * _ball(step) * u).exp() for u in self.logs]
        terms = [acb(weight) for weight in self.weights]
        while True:
            yield sum(terms) + acb(arb(0, self.error), arb(0, self.error))
            terms = [term * turn for term, turn in zip(terms, turns, strict=True)]

    def ceiling(self) -> Ball:
        """A bound of |M| from the height on, by a contour moved by the angle; M(tau) for an angle of 0 [6]."""
        angle, strip = self.q["angle"], self.q["angle_strip"]
        if not angle:
            return self.top
        theta, both, half = _ball(angle), _ball(angle + strip), arb.pi() / 2
        fits = strip > 0 and ((strip <= angle and both < 2 * half) or both <= half)
        _require(fits, "angle_strip must be positive, and such that turning never raises the modulus.")
        turn, total = acb(0, theta).exp(), arb(0)
        for normal, odds in zip(self.normal, self.odds, strict=True):
            log = (1 - self.rate + turn * odds).log()
            total += normal * (self.power * log.real - self.height * log.imag).exp()
        total += self.outside * self._turned(angle) + 2 * self._growth(strip, angle + strip) * self.top
        return (total * (self.variance * theta * theta / 2).exp()).upper()


class _Moments:
    """M of a run in one direction on Re z = tau, up to a height; Gaussians without sampling are one [4]."""

    def __init__(self, parts: list[Values], direction: str, tau: Fraction, line: Values, height: Fraction) -> None:
        self.tau, self.height = _ball(tau), _ball(height)
        gaussians = (part["rounds"] / part["noise_multiplier"] ** 2 for part in parts if part["is_gaussian"])
        self.half = _ball((sum(gaussians, Fraction(0)) + line.get("smoothing", 0)) / 2)
        quadratures = iter(line["quadratures"])
        self.sampled, self.formulas = [], []
        for part in parts:
            if part["is_sampled"]:
                self.sampled.append((part["rounds"], _Sampled(part, direction, tau, next(quadratures), height)))
            elif not part["is_gaussian"]:
                self.formulas.append((part["rounds"], _formula(part)))

    def log_bound(self, *, beyond: bool) -> Ball:
        """A bound of log |M| on the line, or only beyond the height, where the Gaussians have fallen [6]."""
        total = self.half * (self.tau * (self.tau + 1) - (self.height**2 if beyond else 0))
        total += sum(rounds * each(acb(self.tau)).real.log() for rounds, each in self.formulas)
        return total + sum(n * (each.ceiling() if beyond else each.top).log() for n, each in self.sampled)

    def values(self, step: Fraction, nodes: int) -> Iterator[tuple[Ball, Ball]]:
        """z and M(z) at tau + i n step for n = 0, …, nodes."""
        sums = [(rounds, each.values(step)) for rounds, each in self.sampled]
        for n in range(nodes + 1):
            z = acb(self.tau, _ball(step * n))
            value = (self.half * z * (z + 1)).exp()
            for rounds, formula in self.formulas:
                value *= formula(z) ** rounds
            for rounds, moments in sums:
                value *= next(moments) ** rounds
            yield z, value


def _infinite_mass(parts: list[Values]) -> Ball:
    finite = arb(1)
    for part in parts:
        finite *= _ball(1 - part.get("delta", Fraction(0))) ** part["rounds"]
    return 1 - finite


def _delta(parts: list[Values], direction: str, epsilon: Fraction, line: Values, *, from_below: bool) -> Ball:
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


def _losses_end(parts: list[Values], direction: str, epsilon: Fraction) -> bool:
    """Whether no finite loss exceeds epsilon, by the largest loss of each round; exact where those are rational [8]."""
    total, logarithms = Fraction(0), arb(0)
    for part in parts:
        if part["mechanism"] == "laplace":
            total += part["rounds"] / part["noise_multiplier"]
        elif "epsilon" in part:
            total += part["rounds"] * part["epsilon"]
        elif part["is_sampled"] and direction == ADD:
            logarithms -= part["rounds"] * _ball(1 - part["sampling_rate"]).log()
        else:
            return False
    return total <= epsilon if logarithms == 0 else bool(logarithms <= _ball(epsilon - total))


def _approximate_dp(claim: Values, evidence: object) -> str:
    given = _object("This claim", claim, {**ABOUT_A_RUN, "epsilon": _number, "delta": _number, "lower_epsilon": None})
    parts, directions = _run(given)
    found = _object("The evidence", evidence, dict.fromkeys((*directions, "lower"), None))
    lines = {each: None if found[each] is None else _object(each, found[each], LINE) for each in directions}
    lower: Values | None = None
    if given["lower_epsilon"] is not None or found["lower"] is not None:
        lower = _object("lower", found["lower"], {**LINE, "direction": None})
        lower["epsilon"] = _number("lower_epsilon", given["lower_epsilon"])
        _require(lower["direction"] in directions, f"direction must be one of {', '.join(directions)}.")
    _check_work(parts, [*lines.values(), lower])
    for direction, line in lines.items():
        with ctx.workprec(line["precision"] if line else 128):
            if line:
                bound = _delta(parts, direction, given["epsilon"], line, from_below=False)
            else:
                _require(_losses_end(parts, direction, given["epsilon"]), f"A line is missing ({direction}).")
                bound = _infinite_mass(parts)
            _require(bound <= _ball(given["delta"]), f"The evidence does not prove delta ({direction}).")
    if lower:
        with ctx.workprec(lower["precision"]):
            bound = _delta(parts, lower["direction"], lower["epsilon"], lower, from_below=True)
            _require(bound > _ball(given["delta"]), "The evidence does not prove that lower_epsilon is too small.")
    said = f"(ε = {claim['epsilon']}, δ = {claim['delta']})"
    return f"{said}, and not at ε = {claim['lower_epsilon']}" if lower else said


def _renyi(claim: Values, evidence: object) -> str:
    """K(order - 1) <= (order - 1) rdp in every direction [10]."""
    given = _object("This claim", claim, {**ABOUT_A_RUN, "order": _number, "rdp": _number})
    (parts, directions), tau = _run(given), given["order"] - 1
    _require(tau > 0, "order must be larger than 1.")
    _require(not any("delta" in part for part in parts), "No Rényi bound is finite where losses may be infinite.")
    found = _object("The evidence", evidence, dict.fromkeys(directions, None))
    lines = {each: _object(each, found[each], MOMENTS) for each in directions}
    _check_work(parts, list(lines.values()))
    for direction, line in lines.items():
        with ctx.workprec(line["precision"]):
            bound = _Moments(parts, direction, tau, line, Fraction(0)).log_bound(beyond=False)
            _require(bound <= _ball(tau * given["rdp"]), f"The evidence does not prove rdp ({direction}).")
    return f"(order = {claim['order']}, rdp = {claim['rdp']})"


def _conversion(claim: Values, evidence: object) -> str:
    """Whether every pair of this Rényi divergence is (epsilon, delta)-close, by a tangent of the power [11]."""
    names = ("order", "rdp", "epsilon", "delta")
    given = _object("This claim", claim, {"kind": None, **dict.fromkeys(names, _number)})
    _require(given["order"] > 1, "order must be larger than 1.")
    reals = {"tangent": _positive, "scale": _positive, "linear": _number}
    found = _object("The evidence", evidence, {**BITS, **reals})
    with ctx.workprec(found["precision"]):
        a, t, (b, k, c) = _ball(given["order"]), _ball(given["order"] - 1), (_ball(found[name]) for name in reals)
        slope = b**t  # of the power at the tangent point, over the order
        touch = (slope + (1 - c) / (k * a)) ** (1 / t)
        largest = touch - k * (touch**a - a * slope * touch + t * slope * b) - c * touch
        _require(largest <= _ball(given["epsilon"]).exp(), "The evidence does not prove epsilon.")
        mass = k * ((t * _ball(given["rdp"])).exp() - a * slope + t * slope * b) + c
        _require(mass <= _ball(given["delta"]), "The evidence does not prove delta.")
    return "(" + ", ".join(f"{name} = {claim[name]}" for name in names) + ")"


KINDS = {"approximate-dp": _approximate_dp, "renyi": _renyi, "conversion": _conversion}


def check(data: bytes) -> str:
    """What the certificate in these bytes proves, in one line; raises `RefusedError` if it proves nothing."""
    _require(len(data) <= MOST_BYTES, f"A certificate has at most {MOST_BYTES} bytes.")
    floats = "{}: only whole numbers stand without quotes, others are written as text."
    once = "A field is given twice."
    try:
        found = json.loads(
            data.decode(),
            object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else _refuse(once),
            parse_float=lambda text: _refuse(floats.format(text[:40])),
            parse_constant=lambda text: _refuse(floats.format(text)),
        )
    except (ValueError, RecursionError):
        _refuse("A certificate must be JSON in UTF-8.")
    found = _object("A certificate", found, dict.fromkeys(("format", "version", "claim", "evidence"), None))
    known = found["format"] == FORMAT and type(found["version"]) is int and found["version"] == VERSION
    _require(known, f"This checks the format {FORMAT!r}, version {VERSION}, only.")
    claim = found["claim"]
    kind = claim.get("kind") if isinstance(claim, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        _refuse(f"kind must be one of {', '.join(KINDS)}.")
    proven = KINDS[kind](claim, found["evidence"])
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
            print(check(file.read(MOST_BYTES + 1)))
    except (RefusedError, OSError, ValueError) as error:
        print(f"Not verified: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

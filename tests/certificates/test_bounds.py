"""The bounds of the checker: on the right side of the truth whatever the evidence, and every term of them is needed."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from flint import acb, arb, ctx

from dprounds import ApproximateDP, Gaussian, Laplace, PoissonSampled, RandomizedResponse
from dprounds.certificates import Claim, certify, checker, evidence
from dprounds.certificates.checker import RefusedError
from tests.references import contour

MNIST = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062


def document(claim: Claim) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(claim.text)
    return found


@pytest.fixture(scope="module")
def mnist() -> dict[str, Any]:
    return document(certify(MNIST, delta=1e-5, two_sided=True))


def on_line(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What the checker asks of a line."""
    return {**checker.LINE, "quadratures": [part["sum"] for part in parts if part["sum"]]}


def upper(found: dict[str, Any], direction: str = "remove", **changes: object) -> Any:
    """The bound of a certificate's line, with other evidence."""
    parts, _ = checker._run(found["claim"])
    line = copy.deepcopy(found["evidence"][direction]) | changes
    read = checker._read("A line", line, on_line(parts))
    with ctx.workprec(read["precision"]):
        return checker._delta(parts, direction, Fraction(found["claim"]["epsilon"]), read, from_below=False)


def lower(found: dict[str, Any], **changes: object) -> Any:
    parts, _ = checker._run(found["claim"])
    line = copy.deepcopy(found["evidence"]["lower"]) | changes
    direction = line.pop("direction")
    read = checker._read("A line", line, on_line(parts))
    with ctx.workprec(read["precision"]):
        return checker._delta(parts, direction, Fraction(found["claim"]["lower_epsilon"]), read, from_below=True)


def test_the_sum_of_the_mnist_run_is_the_published_one(mnist: dict[str, Any]) -> None:
    assert mnist["claim"]["epsilon"] == "2.3816"
    mnist = copy.deepcopy(mnist)
    mnist["claim"]["run"][0]["sampling_rate"] = "256/60000"
    # 9.99978635810956e-6 was computed apart, on 261 × 171 nodes: the aliases of a shorter step are below its last digit
    quadrature = mnist["evidence"]["remove"]["quadratures"][0] | {"step": "0.1", "first": -130, "last": 190}
    found = upper(mnist, step="0.4", nodes=60, precision=160, quadratures=[quadrature])
    with ctx.workprec(160):
        assert abs(found - checker._ball(Fraction("9.99978635810956e-6"))) < 1e-20


# --- Every bound is on the right side, whatever the evidence.

REFERENCES = {
    "gaussian": (Gaussian(20.0) * 685, 1e-5),
    "sampled": (PoissonSampled(Gaussian(1.0), 0.01) * 2000, 1e-6),
    "mixture": (PoissonSampled(Gaussian(1.1), 0.01) * 400 + Gaussian(8.0) * 3 + Laplace(4.0) * 2, 1e-5),
    "responses": (Gaussian(5.0) * 10 + RandomizedResponse(0.2) * 5, 1e-5),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_balls_agree_with_an_independent_reference(name: str) -> None:
    run, delta = REFERENCES[name]
    found = document(certify(run, delta=delta))
    for direction in ("remove", "add") if "add" in found["evidence"] else ("remove",):
        line = found["evidence"][direction]
        parts = [
            contour.Part(
                part["mechanism"],
                part["rounds"],
                tuple(part[key] for key in sorted(part) if key not in ("mechanism", "rounds")),
            )
            for part in found["claim"]["run"]
        ]
        truth = contour.delta(
            parts, direction, found["claim"]["epsilon"], line["tau"], line["step"], line["nodes"] + 20, digits=20
        )
        bound = upper(found, direction)
        with ctx.workprec(200):
            exact = arb(mp.nstr(truth, 22))
            assert bound.upper() >= exact * (1 - arb("1e-18"))
            assert bound <= exact + arb("1e-10") * arb(found["claim"]["delta"])


BAD_LINES: dict[str, dict[str, object]] = {
    "few nodes (truncation)": {"nodes": 3},
    "a coarse step (aliases, which only raise it)": {"step": "3", "nodes": 40},
    "far from the saddle point": {"tau": "2"},
    "a large virtual Gaussian": {"smoothing": "0.5"},
    "few bits": {"precision": 24},
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_lines_raise_the_bound_and_never_lower_it(name: str, mnist: dict[str, Any]) -> None:
    truth = 9.99978635810956e-6 * (1 - 1e-14)
    for direction in ("remove", "add"):
        good = upper(mnist, direction)
        assert upper(mnist, direction, **BAD_LINES[name]).upper() >= (truth if direction == "remove" else good.lower())


BAD_QUADRATURES: dict[str, dict[str, object]] = {
    "a coarse step (the error of the trapezoid rule)": {"step": "0.6", "first": -20, "last": 30},
    "a short window to the left": {"first": -8},
    "a short window to the right": {"last": 38},
    "no angle": {"angle": "0"},
    "another angle": {"angle": "0.5", "angle_strip": "0.5"},
    "a large angle": {"angle": "2.5", "angle_strip": "0.6"},
    "a narrow strip": {"strip": "0.1"},
    "a narrow strip of the angle": {"angle_strip": "0.01"},
}


@pytest.mark.parametrize("name", BAD_QUADRATURES)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_bad_quadratures_raise_the_bound_and_never_lower_it(name: str, direction: str, mnist: dict[str, Any]) -> None:
    quadrature = mnist["evidence"][direction]["quadratures"][0] | BAD_QUADRATURES[name]
    good = upper(mnist, direction)
    try:
        found = upper(mnist, direction, quadratures=[quadrature])
    except RefusedError:
        return
    assert found.upper() >= good.lower() or not found.is_finite()


def test_every_error_of_a_quadrature_is_needed() -> None:
    """One value of M against the truth, with a window so short and a step so long that each error is all there is."""
    part = {"noise_multiplier": Fraction(1), "sampling_rate": Fraction(1, 10)}
    tau = Fraction(3)
    with ctx.workprec(200):
        good = {"step": Fraction(1, 20), "first": -300, "last": 400, "strip": Fraction(3)} | dict.fromkeys(
            ("angle", "angle_strip"), Fraction(0)
        )
        for direction in ("remove", "add"):
            truth = sum(checker._Sum(part, direction, tau, good, arb(0)).weights)
            short = checker._Sum(
                part, direction, tau, good | {"first": -40, "last": 84 if direction == "remove" else 30}, arb(0)
            )
            assert sum(short.weights) < truth * (1 - arb("1e-5"))  # what lies outside is missing
            assert sum(short.weights) + short.outside >= truth
            coarse = checker._Sum(
                part, direction, tau, good | {"step": Fraction(13, 10), "first": -10, "last": 20}, arb(0)
            )
            errs = abs(sum(coarse.weights) - truth)
            assert errs > arb("1e-9") * truth  # the trapezoid rule errs
            assert coarse.error >= errs
            assert coarse.top >= truth


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("angle", [("0.2", "1.3"), ("0.8", "0.7"), ("1.5", "1.5"), ("2.4", "0.7")])
def test_the_ceiling_bounds_the_moment_function_from_its_height_on(direction: str, angle: tuple[str, str]) -> None:
    part = {"noise_multiplier": Fraction(9, 10), "sampling_rate": Fraction(1, 20)}
    height = Fraction(6)
    with ctx.workprec(160):
        turned = {"angle": Fraction(angle[0]), "angle_strip": Fraction(angle[1])}
        q = {"step": Fraction(1, 50), "first": -700, "last": 900, "strip": Fraction(2), **turned}
        ceiling = checker._Sum(part, direction, Fraction(4), q, arb(6)).ceiling()
        line = checker._Sum(part, direction, Fraction(4), q, arb(18))
        values = [abs(value) for value in line.values([acb(4, checker._ball(height * n / 8)) for n in range(25)])]
        assert all(value.lower() <= ceiling for value in values[8:])
        assert values[0] <= line.top


# --- From below.

BAD_LOWER_LINES: dict[str, dict[str, object]] = {
    "few nodes (truncation)": {"nodes": 4},
    "a coarse step (aliases on both sides)": {"step": "2.5", "nodes": 12},
    "a small tau (aliases below)": {"tau": "1", "nodes": 300},
    "above close to tau (aliases above)": {"above": "7.0"},
    "a virtual Gaussian (smoothing)": {"smoothing": "0.02"},
}


@pytest.mark.parametrize("name", BAD_LOWER_LINES)
def test_bad_lines_lower_the_bound_from_below_and_never_raise_it(name: str, mnist: dict[str, Any]) -> None:
    good = lower(mnist)
    assert good > checker._ball(Fraction("1e-5"))
    found = lower(mnist, **BAD_LOWER_LINES[name])
    assert found.lower() <= good.upper() or not found.is_finite()


def test_smoothing_is_subtracted_from_below() -> None:
    run = Laplace(10.0) * 30
    found = document(certify(run, delta=1e-5, two_sided=True))
    line = evidence._line(run, "remove", float(found["claim"]["lower_epsilon"]), 1e-5, 0, above=True)
    found["evidence"] |= {"remove": line, "lower": {"direction": "remove", **line}}  # what is certified has lattices
    good = lower(found)
    for smoothing in ("1e-4", "1e-3", "1e-2"):
        # the sum itself rises with the variance, so that without the term it would be above the truth
        assert lower(found, smoothing=smoothing).lower() < good.upper()
        assert upper(found, smoothing=smoothing) > good


# --- What is a mass at infinity, or no loss at all.


def test_the_mass_at_infinity_is_added() -> None:
    found = document(certify(ApproximateDP(0.1, 1e-7) * 50, delta=1e-5, two_sided=True))
    with ctx.workprec(100):
        parts, _ = checker._run(found["claim"])
        mass = checker._infinite_mass(parts)
        truth = 1 - (1 - checker._ball(Fraction("1e-7"))) ** 50
        assert mass.overlaps(truth)
        assert mass > arb("4.99e-6")
    certain = {**found, "claim": {**found["claim"], "epsilon": "5", "delta": "4e-6", "lower_epsilon": None}}
    certain["evidence"] = {"remove": None, "lower": None}
    with pytest.raises(RefusedError):
        checker.check(json.dumps(certain).encode())
    certain["claim"]["delta"] = "5e-6"
    assert checker.check(json.dumps(certain).encode()).startswith("Verified")


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (Laplace(2.0) * 10, "5"),
        (RandomizedResponse(0.1) * 3, "0.3"),
        (Laplace(3.0) * 1 + RandomizedResponse(0.5) * 1, "5/6"),
    ],
)
def test_losses_that_end_at_epsilon_are_seen_exactly(run: Any, epsilon: str) -> None:
    found = document(certify(run, delta=1e-5))
    found["claim"] |= {"delta": "0", "epsilon": epsilon}
    found["evidence"] = {"remove": None, "lower": None}
    assert checker.check(json.dumps(found).encode()).startswith("Verified")
    found["claim"]["epsilon"] = str(Fraction(epsilon) - Fraction(1, 10**30))
    with pytest.raises(RefusedError):
        checker.check(json.dumps(found).encode())

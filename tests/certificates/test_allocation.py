"""Random allocation in the checker: its sums against two steps in many digits, both directions, and what is refused."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from flint import acb, arb, arb_poly, ctx

from dprounds import ApproximateDP, Gaussian, PoissonSampled, RandomAllocation, UnsupportedError
from dprounds.certificates import certify, certify_rdp, checker, evidence
from dprounds.certificates.checker import RefusedError
from tests.references.allocation import epoch_delta_of_two, power_mean_of_two

TWO = {
    "mechanism": "allocated-gaussian",
    "rounds": 1,
    "noise_multiplier": Fraction(1),
    "steps": 2,
    "repeats": 1,
    "variance": Fraction(0),
    "sum": checker.OVER_Y,
}
FINE = {"step": Fraction(1, 20), "first": -700, "last": 300, "strip": Fraction(7, 5), "reach": 400}


@pytest.fixture(autouse=True)
def bits() -> Any:
    with ctx.workprec(200):
        yield


def two_steps(tau: int = 3, height: int = 0, **other: Any) -> Any:
    return checker._Sum(TWO, "add", Fraction(tau), FINE | other, arb(height))


def truth(tau: float, height: float) -> Any:
    """Gamma(z) M(z) of two steps, from 40 digits."""
    with mp.workdps(40):
        z = mp.mpc(tau, height)
        found = mp.gamma(z) * power_mean_of_two(1.0, -z)
        return acb(arb(mp.nstr(found.real, 38)), arb(mp.nstr(found.imag, 38)))


@pytest.mark.parametrize("height", [0, 1, 7])
def test_the_sum_is_gamma_times_the_moment_function(height: int) -> None:
    found = two_steps(3, height).values([acb(3, height * n) for n in range(2)])[1 if height else 0]
    assert abs(found - truth(3, height)) < arb("1e-30")


def test_the_top_is_no_less_and_its_ceiling_holds_from_its_height_on() -> None:
    law = two_steps(3, 4)
    assert law.top.upper() >= truth(3, 0).real * (1 - arb("1e-30"))
    for height in (4, 5, 8):
        z = acb(3, height)
        assert abs(truth(3, height) / z.gamma()).lower() <= law.ceiling() / arb(3).gamma()


@pytest.mark.parametrize(
    "window",
    [
        {"reach": 22},  # values of a step that are left out
        {"first": -200},  # scales below
        {"last": 24},  # scales above
        {"step": Fraction(2, 3), "first": -60, "last": 15, "reach": 30},  # a coarse step
        {"step": Fraction(9, 10), "first": -50, "last": 12, "reach": 25},
        {"step": Fraction(6, 5), "first": -40, "last": 9, "reach": 20},
    ],
)
def test_every_error_of_the_sum_is_counted(window: dict[str, Any]) -> None:
    for tau, height in ((1, 0), (3, 0), (3, 5), (9, 2)):
        try:
            law = two_steps(tau, height, **window)
        except RefusedError:
            continue
        middle = sum(acb(0, height * turn).exp() * weight.mid() for weight, turn in law.terms)
        errs = abs(middle - truth(tau, height))
        means = sum(arb(weight.rad()) for weight in law.weights)
        assert errs > arb("1e-25")  # so that the bounds are all there is
        assert errs.lower() <= law.error + means
        assert law.top >= truth(tau, 0).real.lower()


@pytest.mark.parametrize(
    "window",
    [{"first": -60, "last": 50, "reach": 80}, {"step": Fraction(5, 4), "first": -2, "last": 2, "reach": 30}],
    ids=["values that are left out", "a coarse step"],
)
def test_every_error_of_a_mean_is_counted(window: dict[str, Any]) -> None:
    law, step = two_steps(1, **window), float((FINE | window)["step"])
    off = []
    for n, weight in zip(range(window["first"], window["last"] + 1), law.weights, strict=True):
        with mp.workdps(30):
            y = n * mp.mpf(step)
            values = [mp.mpf(j) / 64 for j in range(-14 * 64, 14 * 64 + 1)]
            mean = sum(mp.npdf(x) * mp.exp(-mp.exp(y + x - 0.5) / 2) for x in values) / 64
            exact = arb(mp.nstr(step * mp.exp(y) * mean**2, 25))
        assert weight.lower() <= exact * (1 + arb("1e-20"))
        assert weight.upper() >= exact * (1 - arb("1e-20"))
        off.append(abs(weight.mid() - exact) / exact > arb("1e-10"))
    assert any(off)


def test_a_strip_that_turns_values_too_far_is_refused() -> None:
    for strip in ("1.58", "2", "3.1"):
        with pytest.raises(RefusedError, match="quadrature"):
            two_steps(4, strip=Fraction(strip))  # at a whole power the power of a negative cosine would be a number
    with pytest.raises(RefusedError, match="strip"):
        checker._read("strip", "5", checker.OVER_Y["strip"])


def test_what_is_multiplied_is_never_much_narrower_than_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of polynomials of balls of very different radii, as of 0 and of e^-e^99, would take minutes."""
    polynomials: list[list[Any]] = []

    def multiplied(balls: list[Any]) -> Any:
        polynomials.append(balls)
        return arb_poly(balls)

    monkeypatch.setattr(checker, "arb_poly", multiplied)
    with pytest.raises(RefusedError, match="quadrature"):
        two_steps(first=-100, last=3000)
    assert len(polynomials) == 2
    assert all(ball.rad() >= arb(2) ** -200 for balls in polynomials for ball in balls)


def test_both_sides_of_both_directions_bracket_two_steps() -> None:
    claim = certify(RandomAllocation(Gaussian(1.0), steps=2), delta=1e-5, digits=9, two_sided=True)
    with mp.workdps(30):
        low, high = (mp.mpf(claim.claimed[name]) for name in ("lower_epsilon", "epsilon"))
        assert epoch_delta_of_two(1.0, high) <= mp.mpf("1e-5") < epoch_delta_of_two(1.0, low)
    run = RandomAllocation(Gaussian(1.0), steps=2).as_run()
    parts, _ = checker._run(json.loads(claim.text)["claim"])
    for direction in ("remove", "add"):
        for epsilon in ("3.7", "3.2"):
            with mp.workdps(30):
                e = mp.mpf(epsilon) if direction == "remove" else -mp.mpf(epsilon)
                exact = epoch_delta_of_two(1.0, e)
                # the other direction by definition: E_Q[(1 - e^eps S)_+]
                exact = exact if direction == "remove" else mp.exp(-e) * (exact - 1) + 1
            found = evidence._line(run, direction, float(epsilon), float(exact), 0, above=True)
            line = checker._read("line", found, {**checker.LINE, "quadratures": [checker.OVER_Y]})
            with ctx.workprec(line["precision"]):
                low, high = (checker._delta(parts, direction, Fraction(epsilon), line, side) for side in (True, False))
                assert low.lower() <= arb(mp.nstr(exact, 25)) * (1 + arb("1e-20"))
                assert high.upper() >= arb(mp.nstr(exact, 25)) * (1 - arb("1e-20"))
                assert high - low < arb("1e-6") * high


def test_one_step_is_the_gaussian_mechanism_and_repeats_divide_its_noise() -> None:
    plain = certify(Gaussian(2.0) * 5, delta=1e-5, digits=9)
    assert certify(RandomAllocation(Gaussian(2.0), steps=1) * 5, delta=1e-5, digits=9).epsilon == plain.epsilon
    repeated = certify(RandomAllocation(Gaussian(2.0), steps=20, repeats=4) * 3, delta=1e-5, digits=9)
    assert repeated.epsilon == certify(RandomAllocation(Gaussian(1.0), steps=20) * 3, delta=1e-5, digits=9).epsilon


def test_an_epsilon_of_many_dozens_is_certified() -> None:
    """There delta of the other direction must be known to e^-79 of itself, and terms far up count."""
    run = RandomAllocation(Gaussian(0.624), steps=1) * 35
    assert certify(run, delta=1.3e-4, digits=9).epsilon == 78.7254866


ROWS = {  # sigma, steps, epochs, delta: as sampling.md's table has them
    "one epoch": (1.0, 100, 1, 1e-5, 0.62093968),
    "a thousand steps": (1.0, 1000, 1, 1e-6, 0.17172871),
    "ten epochs": (1.0, 100, 10, 1e-5, 1.70149843583),
    "sixty epochs": (1.0, 234, 60, 1e-5, 2.76639266711),
    "a hundred epochs": (2.0, 1000, 100, 1e-5, 0.6018871101),
    "little noise": (0.8, 1000, 10, 1e-6, 0.9167158469),
}


@pytest.mark.parametrize("name", ROWS)
def test_epochs_are_certified_within_a_unit_of_the_ninth_digit(name: str) -> None:
    sigma, steps, epochs, delta, known = ROWS[name]
    run = RandomAllocation(Gaussian(sigma), steps=steps) * epochs
    claim = certify(run, delta=delta, digits=9)
    assert run.guarantee(delta=delta).lower <= claim.epsilon <= known + 3e-8
    assert claim.is_about(run)


@pytest.mark.parametrize(
    "run",
    [
        RandomAllocation(Gaussian(3.0), 50) * 4 + PoissonSampled(Gaussian(1.0), 0.01) * 200,
        RandomAllocation(Gaussian(1.1), 234) * 30 + Gaussian(8.0) * 2 + RandomAllocation(Gaussian(2.0), 10),
        RandomAllocation(Gaussian(1.5), 30, relation="zero-out") * 3 + ApproximateDP(0.1, 1e-7) * 2,
    ],
)
def test_epochs_are_certified_with_other_parts(run: Any) -> None:
    found = run.guarantee(delta=1e-5)
    assert found.lower <= certify(run, delta=1e-5, digits=9).epsilon <= found.upper * (1 + 1e-6)


# --- What is refused.


@pytest.fixture(scope="module")
def epochs() -> dict[str, Any]:
    claim = certify(RandomAllocation(Gaussian(1.0), 100, repeats=2) * 10, delta=1e-5, digits=9, two_sided=True)
    found: dict[str, Any] = json.loads(claim.text)
    return found


LATTICE = {"precision": 100, "step": "0.01", "points": 1, "shift": "0", "grids": [{"first": 0, "nodes": 1}]}
FALSE: dict[str, tuple[tuple[Any, ...], object]] = {
    "a smaller epsilon": (("claim", "epsilon"), "2.6"),
    "a smaller delta": (("claim", "delta"), "9.999e-6"),
    "more epochs": (("claim", "run", 0, "rounds"), 11),
    "less noise": (("claim", "run", 0, "noise_multiplier"), "0.99999"),
    "fewer steps": (("claim", "run", 0, "steps"), 99),
    "more repeats": (("claim", "run", 0, "repeats"), 3),
    "another relation": (("claim", "relation"), "replace-one"),
    "no relation": (("claim", "relation"), None),
    "no steps": (("claim", "run", 0, "steps"), 0),
    "steps as text": (("claim", "run", 0, "steps"), "100"),
    "no line in one direction": (("evidence", "add"), None),
    "a lattice": (("evidence", "remove"), LATTICE),
    "an angle": (("evidence", "add", "quadratures", 0, "angle"), "0.1"),
    "few nodes of a mean": (("evidence", "add", "quadratures", 0, "reach"), 199),
    "a short window": (("evidence", "remove", "quadratures", 0, "last"), 30),
    "a short window below": (("evidence", "remove", "quadratures", 0, "first"), -30),
    "a coarse step": (("evidence", "remove", "quadratures", 0, "step"), "0.3"),
    "few nodes of a line": (("evidence", "remove", "nodes"), 9),
    "a small tau": (("evidence", "add", "tau"), "0.5"),
    "few bits": (("evidence", "remove", "precision"), 60),
}


@pytest.mark.parametrize("name", FALSE)
def test_false_claims_of_epochs_are_refused(name: str, epochs: dict[str, Any]) -> None:
    (*owners, last), value = FALSE[name]
    document = copy.deepcopy(epochs)
    owner = document
    for key in owners:
        owner = owner[key]
    owner[last] = value
    with pytest.raises(RefusedError):
        checker.check(json.dumps(document).encode())


def test_the_lower_side_cannot_reach_the_upper(epochs: dict[str, Any]) -> None:
    assert checker.check(json.dumps(epochs).encode()).startswith("Verified: 10 × allocated-gaussian")
    document = copy.deepcopy(epochs)
    document["claim"]["lower_epsilon"] = document["claim"]["epsilon"]
    with pytest.raises(RefusedError, match="lower"):
        checker.check(json.dumps(document).encode())


def test_no_renyi_bound_of_epochs_is_proven(epochs: dict[str, Any]) -> None:
    claim = {"kind": "renyi", "run": epochs["claim"]["run"], "relation": "add-remove", "order": "2", "rdp": "999"}
    lines = {
        key: {name: epochs["evidence"][key][name] for name in ("precision", "quadratures")} for key in ("remove", "add")
    }
    document = {"format": checker.FORMAT, "version": 1, "claim": claim, "evidence": lines}
    with pytest.raises(RefusedError, match="Rényi"):
        checker.check(json.dumps(document).encode())
    with pytest.raises(UnsupportedError, match="Rényi"):
        certify_rdp(RandomAllocation(Gaussian(1.0), 10), order=2.0)


@pytest.mark.parametrize(
    "epoch", [RandomAllocation(Gaussian(1.0), 10, 2), RandomAllocation(Gaussian(1.0), 10, group_size=2)]
)
def test_several_participations_and_groups_have_no_certificate(epoch: RandomAllocation) -> None:
    with pytest.raises(UnsupportedError, match="one participation"):
        certify(epoch, delta=1e-5)


def test_no_lattice_is_taken_for_epochs() -> None:
    """One would say what a single round of the Gaussian mechanism costs, and not what repeats do."""
    lattice = {"precision": 100, "step": "5", "points": 1, "shift": "0", "grids": [{"first": 1, "nodes": 1}]}

    def document(relation: str | None, evidence: dict[str, Any], **part: Any) -> bytes:
        claim: dict[str, Any] = {"kind": "approximate-dp", "relation": relation}
        claim |= {"epsilon": "5", "delta": "1e-5", "lower_epsilon": None}
        claim["run"] = [{"rounds": 1, "noise_multiplier": "1", **part}]
        found = {"claim": claim, "evidence": {**evidence, "lower": None}}
        return json.dumps({"format": checker.FORMAT, "version": checker.VERSION, **found}).encode()

    assert checker.check(document(None, {"remove": lattice}, mechanism="gaussian")).startswith("Verified")
    epoch = {"mechanism": "allocated-gaussian", "steps": 1, "repeats": 100}
    with pytest.raises(RefusedError, match="grids"):
        checker.check(document("add-remove", {"remove": lattice, "add": lattice}, **epoch))

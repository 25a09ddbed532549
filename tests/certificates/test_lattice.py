"""Lattices: closed forms of one round, bounds of few rounds that are never below the truth, and how they are found."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from flint import arb, ctx, fmpz_poly

from dprounds import ApproximateDP, Gaussian, Laplace, PoissonSampled, PureDP, RandomizedResponse
from dprounds.certificates import certify, checker
from dprounds.certificates.checker import RefusedError
from tests.references import few_rounds
from tests.references.laplace_rounds import laplace_delta

SIGMA, RATE = Fraction(9, 10), Fraction(1, 50)
GRID = {"first": -40, "nodes": 9000}


def part(rounds: int = 1, sigma: Fraction = SIGMA, rate: Fraction = RATE) -> dict[str, Any]:
    return {
        "mechanism": "poisson-sampled-gaussian",
        "rounds": rounds,
        "noise_multiplier": sigma,
        "sampling_rate": rate,
        "is_sampled": True,
    }


def on_lattice(
    rounds: int, direction: str, epsilon: str, step: str, bits: int = 110, points: int = 20_000, **grid: int
) -> Any:
    lattice = {
        "precision": bits,
        "step": Fraction(step),
        "points": points,
        "shift": Fraction(0),
        "grids": [GRID | grid],
    }
    with ctx.workprec(bits):
        return checker._on_lattice([part(rounds)], direction, Fraction(epsilon), lattice, from_below=False)


def exact(number: Any) -> Any:
    return arb(mp.nstr(number, 25))


def truth(rounds: int, direction: str, epsilon: str) -> Any:
    known = few_rounds.one_round if rounds == 1 else few_rounds.two_rounds
    with mp.workdps(30):
        return exact(known(mp.mpf(9) / 10, mp.mpf(1) / 50, direction, mp.mpf(epsilon)))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("epsilon", ["-2", "-0.03", "-0.001", "0", "0.01", "0.3", "2"])
def test_one_round_is_known_in_closed_form_at_losses_of_any_sign(direction: str, epsilon: str) -> None:
    with ctx.workprec(120):
        found = checker._profile(part(), direction, checker._ball(Fraction(epsilon)))[0]
        assert abs(found - truth(1, direction, epsilon)) < arb("1e-20")


def test_every_record_in_the_batch_is_the_gaussian_mechanism() -> None:
    plain = {"mechanism": "gaussian", "rounds": 1, "noise_multiplier": SIGMA}
    with ctx.workprec(100):
        for direction in ("remove", "add"):
            x = checker._ball(Fraction(1, 3))
            assert checker._profile(plain, direction, x)[0].overlaps(
                checker._profile(part(rate=Fraction(1)), "remove", x)[0]
            )


# --- Never below the truth, whatever the lattice.

TRUTHS = {
    (rounds, direction): truth(rounds, direction, epsilon)
    for rounds, direction, epsilon in [
        (1, "remove", "0.2"),
        (2, "remove", "0.2"),
        (1, "add", "0.01"),
        (2, "add", "0.01"),
    ]
}
LATTICES: dict[str, dict[str, Any]] = {
    "fine": {"step": "1/2000"},
    "coarse": {"step": "1/300"},
    "very coarse": {"step": "1/20", "nodes": 200},
    "losses begin too high": {"step": "1/2000", "first": 2},
    "losses begin at the level": {"step": "1/100", "first": 1, "nodes": 1},
    "losses end too low": {"step": "1/2000", "nodes": 300},
    "few points are kept": {"step": "1/2000", "nodes": 200, "points": 250},
    "the largest losses are not kept": {"step": "1/2000", "first": -400, "nodes": 460, "points": 470},
    "few bits": {"step": "1/2000", "bits": 24},
    "hardly any bits": {"step": "1/2000", "bits": 8},
}


@pytest.mark.parametrize("name", LATTICES)
def test_no_lattice_is_below_the_truth(name: str) -> None:
    for (rounds, direction), true in TRUTHS.items():
        found = on_lattice(rounds, direction, "0.2" if direction == "remove" else "0.01", **LATTICES[name])
        assert found.upper() >= true * (1 - arb("1e-18"))


def test_a_fine_lattice_is_close_and_twice_as_fine_a_fourth_of_the_excess() -> None:
    true = TRUTHS[2, "remove"]
    grids = {"1/1000": (-21, 600), "1/2000": (-41, 1200), "1/4000": (-81, 2400)}
    found = [on_lattice(2, "remove", "0.2", step, first=first, nodes=nodes) for step, (first, nodes) in grids.items()]
    with ctx.workprec(110):
        excess = [each - true for each in found]
    assert excess[0] < arb("1e-3") * true
    for coarse, fine in itertools.pairwise(excess):
        assert arb("3.6") < coarse / fine < arb("4.4")


def test_a_lattice_that_holds_the_level_is_exact_for_one_round() -> None:
    for direction, epsilon in (("remove", "0.2"), ("add", "0.01")):
        found = on_lattice(1, direction, epsilon, epsilon, first=1, nodes=1)
        with ctx.workprec(120):
            assert abs(found - truth(1, direction, epsilon)) < arb("1e-20")


def test_random_lattices_are_never_below_the_truth() -> None:
    draw = random.Random(5)
    for _ in range(40):
        step = Fraction(draw.randint(1, 60), 4000)
        grid = {"first": draw.randint(-60, 20), "nodes": draw.randint(1, 300)}
        for (rounds, direction), true in TRUTHS.items():
            epsilon = "0.2" if direction == "remove" else "0.01"
            found = on_lattice(rounds, direction, epsilon, str(step), draw.choice([16, 60, 120]), 10_000, **grid)
            assert found.upper() >= true * (1 - arb("1e-18"))


@pytest.mark.parametrize("rounds", [2, 3, 16, 100])
@pytest.mark.parametrize("bits", [10, 16, 24])
def test_products_are_rounded_down(bits: int, rounds: int) -> None:
    """The law of one round is exact in few bits, so that only products can lose a mass or gain one."""
    masses = [3, 0, 2 ** (bits - 1) - 7, 1, 2 ** (bits - 1) - 11, 5]
    epsilon, step = Fraction(1, 2), Fraction(1, 10)
    with pytest.MonkeyPatch.context() as patch:
        bounds = []
        for more in (bits, 400):
            law = fmpz_poly([mass << (more - bits) for mass in masses])
            patch.setattr(checker, "_law", lambda *_, law=law: law)
            lattice = {
                "precision": more,
                "step": step,
                "points": 10_000,
                "shift": Fraction(0),
                "grids": [{"first": -2}],
            }
            with ctx.workprec(400):
                bounds.append(checker._on_lattice([part(rounds)], "remove", epsilon, lattice, from_below=False))
    with ctx.workprec(400):
        assert bounds[0] > bounds[1]


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_round_counts_alike_as_a_part_of_its_own(direction: str) -> None:
    true, epsilon = TRUTHS[2, direction], Fraction("0.2" if direction == "remove" else "0.01")
    grids = [GRID, GRID | {"first": -41, "nodes": 9001}]
    lattice = {"precision": 110, "step": Fraction(1, 2000), "points": 20_000, "shift": Fraction(0), "grids": grids}
    with ctx.workprec(110):
        found = checker._on_lattice([part(), part()], direction, epsilon, lattice, from_below=False)
        assert true <= found <= true * (1 + arb("1e-2"))


@pytest.mark.parametrize("bits", [4, 8, 12, 24])
def test_no_mass_is_negative_where_few_bits_know_none(bits: int) -> None:
    with ctx.workprec(bits):
        for direction in ("remove", "add"):
            masses = [int(mass) for mass in checker._law(part(), direction, {"step": Fraction(1, 2000)}, GRID, False)]
            assert min(masses, default=0) >= 0
            assert sum(masses) <= 2**bits


def test_masses_are_those_of_a_law_that_costs_more() -> None:
    with ctx.workprec(100):
        for direction in ("remove", "add"):
            masses = [
                arb(mass) / 2**100 for mass in checker._law(part(), direction, {"step": Fraction(1, 200)}, GRID, False)
            ]
            total = sum(masses)
            ratios = [(checker._ball(Fraction(-(n - 40), 200))).exp() for n in range(len(masses))]
            under_q = sum(mass * ratio for mass, ratio in zip(masses, ratios, strict=True))
            assert arb("0.999") < total <= 1
            assert arb("0.9") < under_q <= 1


# --- What is found.

FEW = {
    "one round": (PoissonSampled(Gaussian(1.0), 0.01) * 1, 1e-5),
    "three rounds": (PoissonSampled(Gaussian(0.8), 0.02) * 3, 1e-5),
    "tiny rate": (PoissonSampled(Gaussian(1.0), 1e-7) * 1, 1e-14),
    "many turns of a ball": (PoissonSampled(Gaussian(0.7), 1e-4) * 10**6, 1e-8),
    "one release": (Gaussian(3.0) * 1, 1e-6),
    "rare large losses": (PoissonSampled(Gaussian(0.842), 0.000255) * 113, 3.8e-5),
    "many rounds": (PoissonSampled(Gaussian(0.7), 1e-4) * 1000, 1e-6),
    "two rare large losses": (PoissonSampled(Gaussian(0.838), 0.000501) * 202, 1.2e-11),
    "flat next to a rare loss": (
        RandomizedResponse(0.02432) * 54 + PoissonSampled(Gaussian(0.931), 0.000101) * 178,
        4.8e-4,
    ),
    "a long line": (PoissonSampled(Gaussian(0.772), 0.00012) * 1319, 3.2e-4),
}


@pytest.mark.parametrize("name", FEW)
def test_few_rounds_are_certified_within_a_millionth(name: str) -> None:
    run, delta = FEW[name]
    claim = certify(run, delta=delta, digits=9)
    found = run.guarantee(delta=delta)
    assert found.lower <= claim.epsilon <= found.upper * (1 + 1e-6)


def test_delta_is_certified_on_a_lattice_too() -> None:
    run = PoissonSampled(Gaussian(0.8), 0.02) * 3
    claim = certify(run, epsilon=0.5, digits=9)
    assert run.delta(epsilon=0.5) * (1 - 1e-9) <= claim.delta <= run.delta(epsilon=0.5) * (1 + 2e-6)
    assert "grids" in json.loads(claim.text)["evidence"]["remove"]


# --- From below.


def from_below(
    rounds: int, direction: str, step: str, shift: str = "1e-5", bits: int = 110, points: int = 20_000, **grid: int
) -> Any:
    epsilon = Fraction("0.2" if direction == "remove" else "0.01")
    lattice = {"precision": bits, "step": Fraction(step), "points": points, "shift": Fraction(shift)}
    with ctx.workprec(bits):
        return checker._on_lattice(
            [part(rounds)], direction, epsilon, {**lattice, "grids": [GRID | grid]}, from_below=True
        )


@pytest.mark.parametrize(("direction", "level"), [("remove", "0.2"), ("remove", "-0.01"), ("add", "0.01")])
def test_the_chance_of_a_larger_loss_is_the_slope_of_delta(direction: str, level: str) -> None:
    with ctx.workprec(200):
        x, step = checker._ball(Fraction(level)), arb("1e-15")
        (low, _), (_, tail), (high, _) = (
            checker._profile(part(), direction, (x.exp() + side * step).log()) for side in (-1, 0, 1)
        )
        assert abs((low - high) / (2 * step) - tail) < arb("1e-20")


LATTICES_FROM_BELOW: dict[str, dict[str, Any]] = {
    "fine": {"step": "1/2000"},
    "coarse": {"step": "1/300"},
    "very coarse": {"step": "1/20", "nodes": 200, "first": -2},
    "nothing is lowered by itself": {"step": "1/2000", "shift": "0"},
    "all are lowered by a step": {"step": "1/2000", "shift": "1/2000"},
    "all are lowered by more": {"step": "1/2000", "shift": "1/300"},
    "losses begin too high": {"step": "1/2000", "first": 2},
    "losses end too low": {"step": "1/2000", "nodes": 300},
    "few points are kept": {"step": "1/2000", "nodes": 200, "points": 250},
    "few bits": {"step": "1/2000", "bits": 40},
    "hardly any bits": {"step": "1/2000", "bits": 8},
}


@pytest.mark.parametrize("name", LATTICES_FROM_BELOW)
def test_no_lattice_from_below_is_above_the_truth(name: str) -> None:
    for (rounds, direction), true in TRUTHS.items():
        found = from_below(rounds, direction, **LATTICES_FROM_BELOW[name])
        assert found.lower() <= true * (1 + arb("1e-18"))


def test_random_lattices_from_below_are_never_above_the_truth() -> None:
    draw = random.Random(6)
    for _ in range(40):
        step = Fraction(draw.randint(1, 60), 4000)
        grid = {"first": draw.randint(-60, 5), "nodes": draw.randint(1, 300)}
        shift = str(step * Fraction(draw.randint(0, 1000), 1000) * draw.choice([Fraction(1), Fraction(1, 100)]))
        for (rounds, direction), true in TRUTHS.items():
            found = from_below(rounds, direction, str(step), shift, draw.choice([16, 60, 120]), 10_000, **grid)
            assert found.lower() <= true * (1 + arb("1e-18"))


def test_a_fine_lattice_from_below_is_close() -> None:
    for step, first, nodes, shift, close in (
        ("1/2000", -41, 9000, "1e-6", "0.02"),
        ("1/8000", -162, 36_000, "6e-8", "1e-3"),
    ):
        true = TRUTHS[2, "remove"]
        found = from_below(2, "remove", step, shift, 120, 80_000, first=first, nodes=nodes)
        assert true * (1 - arb(close)) < found <= true


@pytest.mark.parametrize("name", ["laplace", "randomized-response", "pure-dp", "approximate-dp"])
def test_the_chance_of_a_larger_loss_is_the_slope_of_delta_for_losses_with_atoms(name: str) -> None:
    with ctx.workprec(200):
        step = arb("1e-15")
        for level in ("-2", "-1.2", "-0.3", "0.7", "1.2", "2"):  # the largest loss is 1.25
            x = checker._ball(Fraction(level))
            (low, _), (_, tail), (high, _) = (
                checker._profile(other(name), "remove", (x.exp() + side * step).log()) for side in (-1, 0, 1)
            )
            assert abs((low - high) / (2 * step) - tail) < arb("1e-14")
        at_the_atom = checker._profile(other(name), "remove", checker._ball(Fraction(5, 4)))[1]
        assert not at_the_atom.is_finite()


def two_rounds_of(name: str, epsilon: Any) -> Any:
    """Delta of two rounds of a mechanism whose losses have atoms."""
    if name == "laplace":
        return laplace_delta(float(1 / LARGEST), 2, float(epsilon))
    pairs = itertools.product(atoms(name), repeat=2)
    rest = sum(p * q * max(1 - mp.exp(epsilon - one - two), 0) for (one, p), (two, q) in pairs)
    return 1 - (1 - infinite_mass(name)) ** 2 + rest


@pytest.mark.parametrize("step", ["5/4", "1/100", "1/400", "1/7", "3/2"])
@pytest.mark.parametrize("name", ["laplace", "randomized-response", "pure-dp", "approximate-dp"])
def test_no_lattice_from_below_is_above_the_truth_where_losses_have_atoms(name: str, step: str) -> None:
    nodes = 2 * int(Fraction(3) / Fraction(step)) + 1
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(9, 4)):
        with mp.workdps(40):
            true = exact(two_rounds_of(name, mp.mpf(epsilon.numerator) / epsilon.denominator))
        for shift in (Fraction(0), Fraction(1, 10**9), Fraction(1, 5000)):
            lattice = {"precision": 110, "step": Fraction(step), "points": 5000, "shift": shift}
            grids = [{"first": -(nodes // 2), "nodes": nodes}]
            with ctx.workprec(110):
                found = checker._on_lattice([other(name, 2)], "remove", epsilon, {**lattice, "grids": grids}, True)
                assert found.lower() <= true * (1 + arb("1e-12"))
                if step in ("5/4", "1/100", "1/400") and name != "laplace" and shift == Fraction(1, 10**9):
                    assert found > true * (1 - arb("1e-7"))
                if step == "1/400" and name == "laplace" and shift == Fraction(1, 10**9):
                    assert found > true * (1 - arb("0.04"))


TWO_SIDED: dict[str, tuple[Any, float]] = {
    "one round": (PoissonSampled(Gaussian(1.0), 0.01) * 1, 1e-5),
    "two rounds": (PoissonSampled(Gaussian(1.0), 0.01) * 2, 1e-5),
    "three rounds": (PoissonSampled(Gaussian(0.8), 0.02) * 3, 1e-5),
    "thirty rounds": (PoissonSampled(Gaussian(2.0), 0.001) * 30, 1e-7),
    "laplace and sampling": (Laplace(2.0) * 2 + PoissonSampled(Gaussian(1.0), 0.01) * 2, 1e-5),
    "responses and sampling": (RandomizedResponse(0.05) * 18 + PoissonSampled(Gaussian(1.3), 1e-4) * 60, 1e-6),
    "guarantees": (ApproximateDP(0.3, 1e-6) * 4 + Laplace(3.0) * 2 + RandomizedResponse(0.11) * 3, 1e-5),
    "guarantees and sampling": (PureDP(0.3) * 4 + PoissonSampled(Gaussian(1.0), 0.01) * 3, 1e-5),
}


@pytest.mark.parametrize("name", TWO_SIDED)
def test_few_rounds_have_two_sides(name: str) -> None:
    run, delta = TWO_SIDED[name]
    claim = certify(run, delta=delta, two_sided=True)
    lower, found = float(claim.claimed["lower_epsilon"]), run.guarantee(delta=delta)
    assert claim.epsilon - 1.01e-4 <= lower < found.upper


def test_a_lattice_from_below_does_not_prove_what_is_false() -> None:
    document = json.loads(certify(PoissonSampled(Gaussian(1.0), 0.01) * 2, delta=1e-5, two_sided=True).text)
    document["claim"]["lower_epsilon"] = document["claim"]["epsilon"]
    with pytest.raises(RefusedError, match="lower"):
        checker.check(json.dumps(document).encode())


def test_next_to_an_atom_a_finer_lattice_shows_the_other_side() -> None:
    """Three responses add up to 0.93; the sampled rounds smear that atom by a ten-thousandth."""
    run = PoissonSampled(Gaussian(1.0), 1e-4) * 2 + RandomizedResponse(0.31) * 3
    claim = certify(run, delta=1e-5, two_sided=True)
    assert (claim.claimed["epsilon"], claim.claimed["lower_epsilon"]) == ("0.93007", "0.92997")


def test_many_rounds_at_tiny_rates_have_two_sides_by_a_line_that_is_as_long_as_that_takes() -> None:
    run = PoissonSampled(Gaussian(0.7), 1e-4) * 1000
    claim = certify(run, delta=1e-6, two_sided=True)
    assert (claim.claimed["epsilon"], claim.claimed["lower_epsilon"]) == ("0.076635", "0.076535")
    assert "grids" not in json.loads(claim.text)["evidence"]["lower"]


def test_more_rounds_at_tinier_rates_are_certified_with_fewer_digits() -> None:
    run = PoissonSampled(Gaussian(1.0), 1e-6) * 10**6
    found, claim = run.epsilon(delta=1e-8), certify(run, delta=1e-8)
    assert found <= claim.epsilon <= 1.01 * found


def test_where_no_finite_loss_exceeds_epsilon_what_the_library_bounds_is_certified() -> None:
    """In the direction `add` no loss is above 1.23; the library has a Rényi bound alone."""
    run = ApproximateDP(0.3, 1e-6) * 4 + PoissonSampled(Gaussian(1.0), 0.01) * 3
    found, claim = run.epsilon(delta=1e-5), certify(run, delta=1e-5)
    assert found <= claim.epsilon <= found + 1e-4


def changed(**lattice: Any) -> bytes:
    document = json.loads(certify(PoissonSampled(Gaussian(1.0), 0.01) * 1, delta=1e-5).text)
    document["evidence"]["remove"] |= lattice
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("lattice", "says"),
    [
        ({"grids": []}, "list of 1"),
        ({"grids": [{"first": 0, "nodes": 500_000}], "points": 500_000, "precision": 400}, "products"),
        ({"grids": [{"first": 0, "nodes": 0}]}, "nodes"),
        ({"grids": 3}, "list of 1"),
        ({"points": 10**9}, "points"),
        ({"shift": "-1"}, "shift"),
        ({"step": "0"}, "step"),
        ({"step": "1e-900"}, "does not prove"),
        ({"step": "1e900"}, "does not prove"),
    ],
)
def test_lattices_that_do_not_suit_are_refused(lattice: dict[str, Any], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        checker.check(changed(**lattice))


# --- Losses of other mechanisms.

LARGEST = Fraction(5, 4)
OTHERS: dict[str, dict[str, Any]] = {
    "laplace": {"largest_loss": LARGEST},
    "randomized-response": {"largest_loss": LARGEST},
    "pure-dp": {"largest_loss": LARGEST},
    "approximate-dp": {"largest_loss": LARGEST, "delta": Fraction(1, 100)},
}


def other(name: str, rounds: int = 1) -> dict[str, Any]:
    return {"mechanism": name, "rounds": rounds, **OTHERS[name]}


def infinite_mass(name: str) -> Any:
    return mp.mpf(float(OTHERS[name].get("delta", 0)))


def atoms(name: str) -> list[tuple[Any, Any]]:
    """Losses of a round and their masses, of a fine quadrature for Laplace noise."""
    a, mass = mp.mpf(5) / 4, 1 - infinite_mass(name)
    if name == "laplace":  # b = 1/a: density of the loss l in (-a, a) is (1/4) e^{(l - a) / 2}
        middle = [(l, mp.exp((l - a) / 2) / 4 * 2 * a / 4000) for l in mp.linspace(-a + a / 4000, a - a / 4000, 4000)]
        return [(a, mp.mpf(1) / 2), *middle, (-a, mp.exp(-a) / 2)]
    return [(a, mass / (1 + mp.exp(-a))), (-a, mass / (1 + mp.exp(a)))]


@pytest.mark.parametrize("level", ["-2", "-1.25", "-0.3", "0", "0.7", "1.25", "2"])
@pytest.mark.parametrize("name", OTHERS)
def test_one_round_of_other_mechanisms_is_known_in_closed_form(name: str, level: str) -> None:
    x, infinite = mp.mpf(level), infinite_mass(name)
    true = infinite + sum(mass * max(1 - mp.exp(x - loss), 0) for loss, mass in atoms(name))
    with ctx.workprec(100):
        found = checker._profile(other(name), "remove", checker._ball(Fraction(level)))[0]
        assert abs(found - exact(true)) < arb("1e-6" if name == "laplace" else "1e-12")


@pytest.mark.parametrize("name", OTHERS)
def test_two_rounds_of_other_mechanisms_are_never_below_the_truth(name: str) -> None:
    """Exactly, where the losses are on the lattice; from above, where they are not."""
    if name == "laplace":
        both = [(2 * mp.mpf(5) / 4, mp.mpf(1) / 4)]  # of many losses these alone bound delta from below
    else:
        both = [(one + two, p * q) for one, p in atoms(name) for two, q in atoms(name)]
    true = exact(
        1 - (1 - infinite_mass(name)) ** 2 + sum(mass * max(1 - mp.exp(mp.mpf(1) - loss), 0) for loss, mass in both)
    )
    for step in ("5/4", "1/100", "1/7", "3/2"):
        nodes = 2 * int(Fraction(3) / Fraction(step)) + 1
        grids = [{"first": -(nodes // 2), "nodes": nodes}]
        lattice = {"precision": 110, "step": Fraction(step), "points": 5000, "shift": Fraction(0), "grids": grids}
        with ctx.workprec(110):
            found = checker._on_lattice([other(name, 2)], "remove", Fraction(1), lattice, from_below=False)
            assert found.upper() >= true * (1 - arb("1e-12"))
            if name != "laplace" and step in ("5/4", "1/100"):
                assert found <= true * (1 + arb("1e-12"))


ATOMS = {
    "one response": (RandomizedResponse(0.26575) * 1, 2.3e-6),
    "two responses": (RandomizedResponse(0.97667) * 2, 8.6e-8),
    "many responses": (RandomizedResponse(0.00089) * 4914, 7.3e-9),
    "responses and guarantees": (RandomizedResponse(0.1) * 100 + ApproximateDP(0.3, 1e-9) * 4, 1e-6),
    "laplace": (Laplace(3.0) * 30, 1e-6),
    "responses and sampling": (RandomizedResponse(0.05) * 18 + PoissonSampled(Gaussian(1.3), 1e-4) * 60, 1e-6),
}


@pytest.mark.parametrize("name", ATOMS)
def test_losses_with_atoms_are_certified_within_a_millionth(name: str) -> None:
    run, delta = ATOMS[name]
    claim = certify(run, delta=delta, digits=9)
    found = run.guarantee(delta=delta)
    assert found.lower <= claim.epsilon <= found.upper * (1 + 1e-6)


def test_losses_that_add_up_to_epsilon_need_no_line() -> None:
    """0.4 + 0.4 + 3 × 0.5 is 2.3 in decimals, and more than 2.3 in doubles."""
    claim = certify(ApproximateDP(0.4, 1e-7) * 2 + PureDP(0.5) * 3, epsilon=2.3)
    assert json.loads(claim.text)["evidence"]["remove"] is None


def test_where_the_sign_of_c_is_not_known_nothing_is() -> None:
    with ctx.workprec(12):
        near = checker._ball(Fraction("-0.0202027073175194"))  # log(1 - 1/50), where c is 0
        assert not checker._profile(part(), "remove", near)[0].is_finite()

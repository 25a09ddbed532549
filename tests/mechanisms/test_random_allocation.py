"""Random allocation: the truth from the definition, published figures, and what is refused."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import Accountant, Gaussian, Laplace, PoissonSampled, RandomAllocation, max_rounds, min_noise_multiplier
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.profile import Profile
from dprounds.accounting.root import epsilon_by
from dprounds.accounting.sum_of_events import SumOfEvents
from dprounds.accounting.ways.by_events import ByEvents
from dprounds.accounting.ways.by_line import ByLine
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms import Run
from tests.references import gaussian
from tests.references.allocation import epoch_delta_of_two

Array = NDArray[np.float64]

# Noise, steps, epochs, delta and epsilon in both directions, to as many digits as two ways to compute them agree on: by
# the Mellin integral here and, for one epoch, by a Laplace inversion in 40 digits.
FIGURES = [
    (1.0, 100, 1, 1e-5, 0.62093967, 0.42195347),
    (1.0, 1000, 1, 1e-6, 0.17172868, 0.14943095),
    (1.0, 100, 10, 1e-5, 1.70149843583, 1.54772729664),
    (1.0, 234, 60, 1e-5, 2.7663926671, 2.6926185735),
    (2.0, 1000, 100, 1e-5, 0.6018871101, 0.6015139897),
    (0.8, 1000, 10, 1e-6, 0.9167158, 0.775043714220),
    (0.55, 234, 1, 1e-5, 3.47154, 0.76737468),
]


def by_direction(run: Run, direction: str, delta: float) -> tuple[float, float]:
    return Profile({direction: run.laws[direction]}).epsilon(delta)


@pytest.mark.parametrize(("sigma", "steps", "epochs", "delta", "remove", "add"), FIGURES)
def test_figures(sigma: float, steps: int, epochs: int, delta: float, remove: float, add: float) -> None:
    run = RandomAllocation(Gaussian(sigma), steps=steps) * epochs
    for direction, figure in (("remove", remove), ("add", add)):
        lower, upper = by_direction(run, direction, delta)
        digit = 10.0 ** -len(str(figure).split(".")[1])
        assert lower - digit <= figure <= upper + digit
        assert upper - lower <= 1e-8 * upper
    guarantee = run.guarantee(delta=delta)
    assert guarantee.method == "exact"
    assert guarantee.epsilon == pytest.approx(max(remove, add), abs=2e-5 * remove)


def test_two_steps_are_bracketed_at_every_level() -> None:
    for sigma in (0.7, 1.0, 2.0):
        profile = RandomAllocation(Gaussian(sigma), steps=2).account.profile
        for epsilon in (0.1, 1.0, 2.0):
            lower, upper = profile.delta(epsilon)
            assert lower <= epoch_delta_of_two(sigma, epsilon) <= upper
            assert upper - lower <= 1e-9 * upper


# By `epoch_delta` of tests/references/allocation.py, in 40 digits, which takes some ten seconds each.
@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon", "direction", "truth"),
    [
        (1.0, 100, 0.6, "remove", 1.26602093425192e-5),
        (1.0, 100, 0.620939671624, "remove", 9.99999999957626e-6),
        (1.0, 100, 0.421953473321, "add", 9.99999999910477e-6),
        (1.0, 1000, 0.171728684574, "remove", 9.99999991968851e-7),
        (1.0, 1000, 0.149430954845, "add", 9.99999996599304e-7),
    ],
)
def test_one_epoch_is_that_of_a_laplace_inversion(
    sigma: float, steps: int, epsilon: float, direction: str, truth: float
) -> None:
    laws = (RandomAllocation(Gaussian(sigma), steps=steps) * 1).laws
    lower, upper = Profile({direction: laws[direction]}).delta(epsilon)
    assert lower <= truth <= upper
    assert upper - lower <= 1e-7 * upper


# Noise, steps, epochs, delta: small losses, of which large powers of S tell.
SMALL_LOSSES = [
    (20.0, 1000, 5, 1e-6),
    (2.0, 10_000, 1, 1e-6),
    (34.377, 17_659, 3, 5.8e-9),
    (25.76, 19, 2, 1.6e-11),
    (50.0, 2, 10, 1e-4),
    (1.664, 67_750, 148, 1.6e-10),
    (9.761, 85_011, 11, 1e-6),
    (4.0, 100_000, 1000, 1e-12),
]


@pytest.mark.parametrize(("sigma", "steps", "epochs", "delta"), SMALL_LOSSES)
def test_small_losses_are_known_to_a_billionth(sigma: float, steps: int, epochs: int, delta: float) -> None:
    found = (RandomAllocation(Gaussian(sigma), steps=steps) * epochs).guarantee(delta=delta)
    assert found.method == "exact"
    assert 0.0 < found.lower <= found.upper <= found.lower * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.06])
@pytest.mark.parametrize("sigma", [25.0, 40.0])
def test_two_steps_with_much_noise_are_bracketed(sigma: float, epsilon: float) -> None:
    laws = (RandomAllocation(Gaussian(sigma), steps=2) * 1).laws
    lower, upper = Profile({"remove": laws["remove"]}).delta(epsilon)
    assert laws["remove"].infinite_mass > 0  # by a window
    assert lower <= epoch_delta_of_two(sigma, epsilon) <= upper
    assert upper - lower <= 1e-9 * upper


# By `epoch_delta` of tests/references/allocation.py, in 40 digits.
@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon", "direction", "truth"),
    [
        (20.0, 1000, 0.005, "remove", 3.401993333494525e-07),
        (20.0, 1000, 0.005, "add", 3.401814531904928e-07),
        (2.0, 10_000, 0.017, "remove", 1.044578081438194e-06),
        (2.0, 10_000, 0.017, "add", 1.023272993909364e-06),
    ],
)
def test_one_epoch_of_small_loss_is_that_of_a_laplace_inversion(
    sigma: float, steps: int, epsilon: float, direction: str, truth: float
) -> None:
    laws = (RandomAllocation(Gaussian(sigma), steps=steps) * 1).laws
    lower, upper = Profile({direction: laws[direction]}).delta(epsilon)
    assert lower <= truth <= upper
    assert upper - lower <= 1e-9 * upper


# By `epoch_delta` of tests/references/allocation.py, in 40 digits.
@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon", "truth"),
    [(1.5, 1000, 0.14, 1.25920066053074e-11), (1.35, 3000, 0.09, 1.7521072399186e-11)],
)
def test_one_large_value_is_that_of_a_laplace_inversion(sigma: float, steps: int, epsilon: float, truth: float) -> None:
    law = (RandomAllocation(Gaussian(sigma), steps=steps) * 1).laws["remove"]
    way = ByEvents(law)
    lower, upper = way.sums(epsilon).at(epsilon)
    assert way.events is not None
    assert len(way.events.laws) == 2
    assert lower <= truth <= upper
    assert upper - lower <= 1e-8 * upper
    # without the event that one value is large it is less
    assert SumOfEvents((way.sums(epsilon).above.lines[0],), way.events.missing).at(epsilon).upper < truth  # type: ignore[attr-defined]  # a sum of events


# Noise, steps, epochs, delta: runs in which one value is about as large as all others together.
LARGE_VALUES = [
    (1.421393, 3083, 7, 3.18442e-12),
    (2.661566, 330, 1, 3.93915e-12),
    (1.684829, 2157, 5, 4.09234e-08),
    (0.945479, 3596, 28, 6.23134e-09),
    (1.323277, 5100, 2, 2.49977e-11),
    (0.977718, 5107, 3, 1.09517e-05),
]


@pytest.mark.parametrize(("sigma", "steps", "epochs", "delta"), LARGE_VALUES)
def test_runs_that_one_value_takes_over_are_known_to_a_billionth(
    sigma: float, steps: int, epochs: int, delta: float
) -> None:
    run = RandomAllocation(Gaussian(sigma), steps=steps) * epochs
    found = run.guarantee(delta=delta)
    assert found.method == "exact"
    assert 0.0 < found.lower <= found.upper <= found.lower * (1 + 1e-9)
    # the line of the law itself brackets it too, from further away
    by_line = epsilon_by(ByLine(run.laws["remove"], smoothed=False), Bracket(delta, delta), math.inf)
    assert by_line.lower <= found.upper
    assert found.lower <= by_line.upper
    assert by_line.upper - by_line.lower > 1e-9 * by_line.upper


def test_what_no_event_has_counts_from_above_alone() -> None:
    run = RandomAllocation(Gaussian(1.5), steps=1000) * 1
    way = ByEvents(run.laws["remove"])
    found = way.sums(0.14).at(0.14)
    lines = way.sums(0.14).above.lines  # type: ignore[attr-defined]  # a sum of events
    more = SumOfEvents(lines, 1e-13).at(0.14)
    assert more.lower == found.lower
    assert 0.9e-13 < more.upper - found.upper < 1.1e-13


def test_monte_carlo_agrees() -> None:
    sigma, steps, epochs, draws = 1.2, 20, 3, 200_000
    generator = np.random.default_rng(20)
    loss = np.zeros(draws)
    for _ in range(epochs):
        x = sigma * generator.standard_normal((draws, steps))
        x[np.arange(draws), generator.integers(steps, size=draws)] += 1.0
        loss += np.log(np.exp((2 * x - 1) / (2 * sigma**2)).mean(axis=1))
    epsilon = (RandomAllocation(Gaussian(sigma), steps=steps) * epochs).epsilon(delta=1e-2)
    excess = np.maximum(-np.expm1(epsilon - loss), 0.0)
    assert abs(excess.mean() - 1e-2) <= 5 * excess.std() / math.sqrt(draws)


def test_repeats_cost_one_epoch_of_less_noise() -> None:
    repeated = RandomAllocation(Gaussian(2.0), steps=30, repeats=4)
    once = RandomAllocation(Gaussian(1.0), steps=30)
    assert repeated.epsilon(delta=1e-5) == pytest.approx(once.epsilon(delta=1e-5), rel=1e-12)
    assert repeated.epsilon(delta=1e-5) > (RandomAllocation(Gaussian(2.0), steps=30) * 4).epsilon(delta=1e-5)


def test_every_step_is_the_gaussian_itself() -> None:
    every = RandomAllocation(Gaussian(3.0), steps=9, participations=9)
    assert every.epsilon(delta=1e-5) == pytest.approx((Gaussian(3.0) * 9).epsilon(delta=1e-5), rel=1e-12)
    assert every.guarantee(delta=1e-5).method == "exact"
    assert RandomAllocation(Gaussian(3.0), steps=1).epsilon(delta=1e-5) == Gaussian(3.0).epsilon(delta=1e-5)


def test_several_participations_are_a_bound_that_no_attack_passes() -> None:
    """Two of five steps: the likelihood ratio is the mean over all pairs of steps, simulated."""
    sigma, steps, draws = 1.5, 5, 100_000
    generator = np.random.default_rng(4)
    pairs = np.array(list(itertools.combinations(range(steps), 2)))
    x = sigma * generator.standard_normal((draws, steps))
    chosen = pairs[generator.integers(len(pairs), size=draws)]
    np.put_along_axis(x, chosen, np.take_along_axis(x, chosen, axis=1) + 1.0, axis=1)
    ratio = np.exp((2 * x - 1) / (2 * sigma**2))
    loss = np.log((ratio[:, pairs[:, 0]] * ratio[:, pairs[:, 1]]).mean(axis=1))
    step = RandomAllocation(Gaussian(sigma), steps=steps, participations=2)
    guarantee = step.guarantee(delta=1e-2)
    assert guarantee.method == "bound"
    excess = np.maximum(-np.expm1(guarantee.epsilon - loss), 0.0)
    assert excess.mean() <= 1e-2 + 3 * excess.std() / math.sqrt(draws)
    assert excess.mean() >= 5e-3  # and it is not far above
    shown = np.maximum(-np.expm1(guarantee.lower - loss), 0.0)
    assert shown.mean() >= 1e-2 - 3 * shown.std() / math.sqrt(draws)
    assert shown.mean() <= 2e-2


@pytest.mark.parametrize(
    ("steps", "participations", "repeats", "group_size"), [(5, 2, 1, 1), (7, 3, 4, 1), (9, 2, 2, 3), (9, 1, 2, 4)]
)
def test_the_sum_of_all_steps_is_an_attack(steps: int, participations: int, repeats: int, group_size: int) -> None:
    """A record moves it by the steps that it joins, in every epoch with its allocation, and all steps have noise."""
    step = RandomAllocation(Gaussian(1.5), steps, participations, repeats, group_size=group_size)
    moved, deviation = group_size * participations * repeats, 1.5 * math.sqrt(steps * repeats)
    found = step.guarantee(delta=1e-5)
    assert found.method == "bound"
    mu = moved / deviation
    assert gaussian.delta(mu, found.lower) >= 1e-5 >= gaussian.delta(mu, found.lower * (1.0 + 1e-9))
    assert gaussian.delta(mu, found.upper) <= 1e-5


def test_allocation_costs_less_than_poisson_sampling_at_the_same_rate() -> None:
    poisson = PoissonSampled(Gaussian(1.0), 1 / 100) * 1000
    assert (RandomAllocation(Gaussian(1.0), steps=100) * 10).epsilon(delta=1e-5) < poisson.epsilon(delta=1e-5)


def test_planning_counts_epochs() -> None:
    epoch = RandomAllocation(Gaussian(1.0), steps=100)
    most = max_rounds(epoch, epsilon=3.0, delta=1e-5)
    assert (epoch * most).epsilon(delta=1e-5) <= 3.0 < (epoch * (most + 1)).epsilon(delta=1e-5)
    noise = min_noise_multiplier(
        lambda noise: RandomAllocation(Gaussian(noise), steps=100) * 10, epsilon=1.0, delta=1e-5
    )
    assert (RandomAllocation(Gaussian(noise), steps=100) * 10).epsilon(delta=1e-5) <= 1.0
    assert (RandomAllocation(Gaussian(0.999 * noise), steps=100) * 10).epsilon(delta=1e-5) > 1.0


def test_profile_and_trade_off_answer() -> None:
    run = RandomAllocation(Gaussian(1.0), steps=100) * 10
    epsilons = np.array([0.5, 1.0, 2.0])
    deltas = np.array([run.delta(epsilon=float(epsilon)) for epsilon in epsilons])
    assert (np.diff(deltas) < 0).all()
    rates = np.asarray(run.trade_off([0.01, 0.1, 0.5]))
    assert ((rates >= 0) & (rates <= 1 - np.array([0.01, 0.1, 0.5]))).all()
    assert (np.diff(rates) < 0).all()


def test_an_accountant_writes_and_reads_it() -> None:
    accountant = Accountant()
    accountant.record(RandomAllocation(Gaussian(1.0), steps=100, participations=2, repeats=3), rounds=2)
    assert Accountant.from_json(accountant.to_json()) == accountant


def test_mixtures_with_other_parts_add_up() -> None:
    epoch = RandomAllocation(Gaussian(1.0), steps=100)
    run = epoch * 5 + PoissonSampled(Gaussian(1.1), 0.01) * 200 + Gaussian(20.0)
    guarantee = run.guarantee(delta=1e-5)
    assert guarantee.method == "exact"
    assert guarantee.epsilon > (epoch * 5).epsilon(delta=1e-5)
    assert guarantee.sampling == "allocation, poisson"


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta", "epsilon"),
    [
        (1.717, 5020, 302, 3.3e-23, 1.48224212990),
        (1.541, 8507, 157, 5.38e-22, 0.898473809356),
        (1.866, 3757, 186, 5.2e-24, 1.24061789672),
        (1.864, 3129, 3, 1.1e-22, 0.162945663610),
    ],
)
def test_what_a_window_leaves_out_does_not_count_where_delta_is_as_small(
    sigma: float, steps: int, epochs: int, delta: float, epsilon: float
) -> None:
    """Values above the bound of a window are then told apart, and the probability of what is left is known by delta."""
    run = RandomAllocation(Gaussian(sigma), steps) * epochs
    left_out = run.mechanisms[0].law("remove").left_out
    assert epochs * left_out > 1e-10 * delta
    found = run.guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-9 * found.upper
    assert found.upper == pytest.approx(epsilon, rel=1e-9)
    assert run.delta(epsilon=found.upper) <= delta * (1 + 1e-6)


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta", "epsilon"),
    [(1.13, 6558, 3, 1.35e-24, 0.9648910728), (1.144, 5135, 9, 2.25e-22, 0.8479158260)],
)
def test_large_negative_powers_are_known_where_smaller_ones_are_not(
    sigma: float, steps: int, epochs: int, delta: float, epsilon: float
) -> None:
    """Only a large tilt takes large values away: a joining record needs no other powers at so small a delta."""
    found = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-9 * found.upper
    assert found.upper == pytest.approx(epsilon, rel=1e-9)


def test_a_delta_below_what_a_window_leaves_out_has_an_answer() -> None:
    run = RandomAllocation(Gaussian(1.717), 5020) * 302
    delta = 1e-25
    assert 302 * run.mechanisms[0].law("remove").left_out > delta
    found = run.guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper < run.epsilon(delta=delta, method="optimal")


def test_rdp_is_finite_at_every_order_and_below_the_gaussian() -> None:
    step = RandomAllocation(Gaussian(1.0), steps=100)
    orders = np.array([1.0 + 1e-9, 1.5, 2.0, 30.0, 32.0, 60.0, 500.0, 1e6])
    rdp, plain = np.asarray(step.rdp(orders)), np.asarray(Gaussian(1.0).rdp(orders))
    assert (rdp <= plain * (1 + 1e-12)).all()
    assert rdp[2] == pytest.approx(math.log1p((math.e - 1) / 100), rel=1e-10)
    # beyond the powers that are computed: integer orders from below, by the largest value alone
    for order in (60.0, 500.0):
        least = (order * (order - 1) / 2 - (order - 1) * math.log(100)) / (order - 1)
        assert rdp[orders == order] >= least


@pytest.mark.parametrize("sigma", [0.05, 0.12])
def test_with_too_little_noise_for_any_moment_the_steps_count_as_known(sigma: float) -> None:
    run, plain = RandomAllocation(Gaussian(sigma), steps=100) * 30, Gaussian(sigma) * 30
    assert run.epsilon(delta=1e-5, method="balle") == plain.epsilon(delta=1e-5, method="balle")
    assert run.guarantee(delta=1e-5).method == "optimal"


@pytest.mark.parametrize(("sigma", "steps"), [(0.57, 2), (0.3, 2), (0.55, 3)])
def test_orders_at_which_no_moment_is_computed_lie_between_those_at_which_one_is(sigma: float, steps: int) -> None:
    """Some powers of so few steps of so little noise would take too long; K is convex, and 0 at 0."""
    run = RandomAllocation(Gaussian(sigma), steps) * 1
    exact = run.epsilon(delta=1e-5, method="exact")
    assert exact <= run.epsilon(delta=1e-5, method="balle") <= (Gaussian(sigma) * 1).epsilon(delta=1e-5, method="balle")
    orders = 1.0 + np.array([1e-3, 1e-2, 1 / 64, 0.1, 0.5])
    rdp = np.asarray(run.rdp(orders))
    assert (np.diff(rdp) >= -1e-9 * rdp[1:]).all()
    # order 2 from the definition: E[S^2] = 1 + (e^(1/σ²) - 1)/t
    assert (rdp <= math.log1p(math.expm1(sigma**-2) / steps) * (1 + 1e-9)).all()


@pytest.mark.parametrize("sigma", [0.12, 0.1, 0.01])
def test_noise_too_small_for_any_moment_is_that_of_known_steps(sigma: float) -> None:
    """A search for the least noise passes by here."""
    step = RandomAllocation(Gaussian(sigma), steps=235)
    orders = np.array([1.5, 2.0])
    assert np.array_equal(np.asarray(step.rdp(orders)), np.asarray(Gaussian(sigma).rdp(orders)))
    assert (step * 10).guarantee(delta=1e-5).upper <= (Gaussian(sigma) * 10).epsilon(delta=1e-5, method="optimal")


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"steps": 0}, r"steps must be an integer in \[1, 1000000000\], got 0\."),
        ({"steps": 10, "participations": 11}, r"participations must be an integer in \[1, 10\], got 11\."),
        ({"steps": 10, "repeats": 0}, r"repeats must be an integer in \[1, 1000000000000000\], got 0\."),
        ({"steps": 10, "repeats": 10**400}, r"repeats must be an integer in .*, got an integer of 1329 bits\."),
        ({"steps": 10, "relation": "sideways"}, "relation must be one of 'add-remove', 'zero-out', got 'sideways'"),
    ],
)
def test_what_is_outside_is_refused_in_one_line(given: dict[str, object], refusal: str) -> None:
    with pytest.raises(ParameterError, match=refusal) as found:
        RandomAllocation(Gaussian(1.0), **given)  # type: ignore[arg-type]
    assert "\n" not in str(found.value)


def test_replace_one_and_other_noise_have_no_theorem() -> None:
    with pytest.raises(UnsupportedError, match="use 'add-remove' or 'zero-out'"):
        RandomAllocation(Gaussian(1.0), steps=10, relation="replace-one")
    with pytest.raises(UnsupportedError, match="allocate a Gaussian"):
        RandomAllocation(Laplace(1.0), steps=10)


def group_densities(steps: int, group: int, sigma: float, x: Array) -> tuple[Array, Array]:
    """The densities of all steps' sums with and without a group of records that are one each, on a grid."""
    ones = {m: np.exp(-0.5 * ((x - m) / sigma) ** 2) / (sigma * math.sqrt(math.tau)) for m in range(group + 1)}

    def product(counts: tuple[int, ...]) -> Array:
        return functools.reduce(np.multiply.outer, [ones[m] for m in counts])

    total = np.zeros((x.size,) * steps)
    for places in itertools.product(range(steps), repeat=group):
        total += product(tuple(places.count(step) for step in range(steps)))
    return total / steps**group, product((0,) * steps)


@pytest.mark.parametrize(("steps", "group", "sigma"), [(2, 2, 1.2), (2, 3, 2.0), (3, 2, 1.5)])
def test_no_attack_on_a_group_passes_its_bound(steps: int, group: int, sigma: float) -> None:
    x = np.linspace(-6.5 * sigma, group + 6.5 * sigma, 401 if steps == 2 else 81)
    with_it, without = group_densities(steps, group, sigma, x)
    cell = (x[1] - x[0]) ** steps
    epoch = RandomAllocation(Gaussian(sigma), steps, group_size=group)
    single = RandomAllocation(Gaussian(sigma), steps)
    for epsilon in (0.0, 0.4, 1.5):
        bound = epoch.delta(epsilon=epsilon)
        attacks = [
            float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()) * cell
            for one, other in ((with_it, without), (without, with_it))
        ]
        # the grid's sums are good to six digits; so the bound is, in both directions, above what an attacker reaches
        assert max(attacks) <= bound * (1 + 1e-6)
        assert max(attacks) >= 0.5 * bound or epsilon > 1  # and not far above
        assert bound > single.delta(epsilon=epsilon)


def test_a_group_is_bracketed_by_one_record_and_by_all_in_one_step() -> None:
    group = RandomAllocation(Gaussian(4.0), 100, group_size=4) * 10
    found = group.guarantee(delta=1e-5)
    assert (found.method, found.relation, found.sampling) == ("bound", "add-remove", "allocation")
    assert found.lower > (RandomAllocation(Gaussian(4.0), 100) * 10).guarantee(delta=1e-5).upper
    loud = (RandomAllocation(Gaussian(0.4), 100, group_size=2) * 10).guarantee(delta=1e-5)  # one record tells more
    assert loud.lower == (RandomAllocation(Gaussian(0.4), 100) * 10).guarantee(delta=1e-5).lower
    assert found.upper < (RandomAllocation(Gaussian(1.0), 100) * 10).epsilon(delta=1e-5)
    assert found.upper == pytest.approx((RandomAllocation(Gaussian(2.0), 100) * 40).epsilon(delta=1e-5), rel=1e-9)
    # Poisson sampling of the same rate is exact, and as a rule costs a little more than allocation
    assert found.upper < 1.05 * (PoissonSampled(Gaussian(4.0), 0.01, group_size=4) * 1000).epsilon(delta=1e-5)
    # where nothing is secret it is one Gaussian
    for epoch in (
        RandomAllocation(Gaussian(4.0), 1, group_size=4),
        RandomAllocation(Gaussian(8.0), 4, participations=4, group_size=4),
    ):
        whole = (epoch * 3).guarantee(delta=1e-5)
        assert whole.method == "exact"
        assert whole.epsilon == pytest.approx((Gaussian(1.0) * 3).epsilon(delta=1e-5), rel=1e-12)
    for orders in (1.5, 8.0, 100.0, 1e4):
        known = Gaussian(1.0).rdp(orders)
        assert (RandomAllocation(Gaussian(4.0), 100, group_size=4)).rdp(orders) <= known * (1 + 1e-12)
    for size in (0, 1001, 1.5, math.nan):
        with pytest.raises(ParameterError, match="group_size must be an integer"):
            RandomAllocation(Gaussian(1.0), 5, group_size=size)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sigma", "steps", "epsilon", "most"), [(20.0, 6, 0.09, 2e-7), (50.0, 2, 0.12, 1e-17)])
def test_a_direction_that_no_line_reaches_does_not_hide_the_other(
    sigma: float, steps: int, epsilon: float, most: float
) -> None:
    """One value of its moments bounds it; the best Rényi order alone would say 50 and more times as much."""
    run = RandomAllocation(Gaussian(sigma), steps=steps) * 1
    assert run.delta(epsilon=epsilon) <= most
    assert run.delta(epsilon=epsilon) <= run.delta(epsilon=0.9 * epsilon)


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"),
    [
        (0.66781819120807, 1000, 10**12, 1e-5),
        (0.66781819120807, 1000, 10**12, 0.9),
        (1e13, 10**9, 10, 1e-8),
        (1e20, 2, 10, 1e-8),
        (1e20, 1000, 10, 1e-8),
        (1e100, 3, 10, 1e-8),
        (1.7e308, 2, 10, 1e-8),
    ],
)
def test_neither_very_many_epochs_nor_very_much_noise_is_a_contradiction(
    sigma: float, steps: int, epochs: int, delta: float
) -> None:
    found = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    assert found.lower <= found.upper < math.inf
    if epochs == 10**12:  # it is about the mean loss, from a tenth of the epochs on
        short = (RandomAllocation(Gaussian(sigma), steps) * 10**8).guarantee(delta=delta)
        assert found.upper > 10**4 * short.lower * 0.9
    else:
        assert found.upper < 1e-8

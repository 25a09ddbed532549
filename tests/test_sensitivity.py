"""What small changes of a plan do to its epsilon: derivatives against differences in many digits."""

from __future__ import annotations

import pytest

from dprounds import FixedSizeSampled, Gaussian, PoissonSampled, RandomAllocation, Shuffled, frontier
from dprounds.accounting.sensitivity import epsilon_slopes
from dprounds.errors import NumericalError
from dprounds.mechanisms import Run
from dprounds.planning.loaders import LOADERS
from dprounds.planning.sensitivity import PlanPoint, sensitivities
from tests.references.allocation import power_mean_of_two
from tests.references.loader_slopes import (
    allocation_power_mean,
    allocation_slope,
    fixed_size_slope,
    gaussian_slope,
    two_rounds_slope,
)
from tests.references.slopes import epsilon_slope

# Noise multiplier, rate, rounds, epsilon, direction; and the line for the reference.
RUNS = [
    (4.0, 0.5, 50, 4.0, "remove", 5.0, 0.25, 60),
    (4.0, 0.5, 50, 4.0, "add", 5.0, 0.25, 60),
    (1.125, 0.015625, 900, 2.0, "remove", 6.0, 0.25, 200),
    (1.125, 0.015625, 900, 1.0, "add", 5.5, 0.5, 90),
    (0.75, 0.125, 60, 8.0, "remove", 1.0, 0.0625, 250),
]
SLOPES = [(by, *run) for run in RUNS for by in ("sigma", "rate", "rounds", "delta")]
# Noise multiplier, steps, epochs, epsilon, direction; and the line.
ALLOCATIONS = [
    (2.0, 4, 20, 4.0, "remove", "3", "0.125", 100),
    (2.0, 4, 20, 4.0, "add", "3", "0.125", 100),
    (1.0, 64, 8, 1.5, "remove", "5.5", "0.25", 140),
    (5.0, 1, 8, 1.0, "add", "8", "0.25", 120),
]
ALLOCATION_SLOPES = [(by, *run) for run in ALLOCATIONS for by in ("sigma", "steps", "rounds", "delta")]
# Noise multiplier, rate, rounds, epsilon; and the line.
FIXED_SIZES = [(3.0, 0.0625, 112, 2.5, "6.25", "0.25", 200), (8.0, 1.0, 6, 1.5, "4", "0.25", 100)]
FIXED_SIZE_SLOPES = [(by, *run) for run in FIXED_SIZES for by in ("sigma", "rate", "rounds", "delta")]
# Noise multiplier, rate, epsilon, direction, of two rounds, whose line ends where it is small.
TWO_ROUNDS = [(1.5, 0.0625, 1.0, "remove"), (1.0, 0.25, 0.25, "add")]
TWO_ROUNDS_SLOPES = [(by, *run) for run in TWO_ROUNDS for by in ("sigma", "rate", "delta")]


@pytest.mark.parametrize("run", RUNS)
def test_derivatives_on_the_nodes_are_differences_in_many_digits(
    run: tuple[float, float, int, float, str, float, float, int],
) -> None:
    sigma, rate, rounds, epsilon, direction, *_ = run
    law = (PoissonSampled(Gaussian(sigma), rate) * rounds).laws[direction]
    (found,) = epsilon_slopes({direction: law}, epsilon=epsilon)
    got = {
        "sigma": found.parameters["noise_multiplier"],
        "rate": found.parameters["sampling_rate"],
        "rounds": found.rounds,
        "delta": found.delta,
    }
    for by, value in got.items():
        assert value == pytest.approx(float(epsilon_slope(by, *run)), rel=1e-9), by


def derivatives(run: Run, direction: str, epsilon: float) -> dict[str, float]:
    (found,) = epsilon_slopes({direction: run.laws[direction]}, epsilon=epsilon)
    names = {"noise_multiplier": "sigma", "sampling_rate": "rate"}
    return {
        **{names[name]: slope for name, slope in found.parameters.items()},
        "rounds": found.rounds,
        "delta": found.delta,
    }


@pytest.mark.parametrize("run", ALLOCATIONS)
def test_derivatives_of_random_allocation_are_differences_in_many_digits(
    run: tuple[float, int, int, float, str, str, str, int],
) -> None:
    sigma, steps, epochs, epsilon, direction, *_ = run
    got = derivatives(RandomAllocation(Gaussian(sigma), steps) * epochs, direction, epsilon)
    got["steps"] = -got.pop("rate") / steps**2
    for by, value in got.items():
        assert value == pytest.approx(float(allocation_slope(by, *run)), rel=1e-9), by


def test_the_reference_between_numbers_of_steps_is_the_mean_at_a_number_of_steps() -> None:
    power = 4.25 + 2j
    assert abs(allocation_power_mean(1.25, 2, power, 7) - power_mean_of_two(1.25, power)) < 1e-35


@pytest.mark.parametrize("run", FIXED_SIZES)
def test_derivatives_of_batches_of_fixed_size_are_differences_in_many_digits(
    run: tuple[float, float, int, float, str, str, int],
) -> None:
    sigma, rate, rounds, epsilon, *_ = run
    got = derivatives(FixedSizeSampled(Gaussian(sigma), round(4096 * rate), 4096) * rounds, "remove", epsilon)
    for by, value in got.items():
        assert value == pytest.approx(float(fixed_size_slope(by, *run)), rel=1e-9), by


@pytest.mark.parametrize(("sigma", "rounds", "epsilon"), [(2.0, 50, 12.0), (8.0, 1, 0.25), (0.5, 3, 30.0)])
def test_derivatives_without_sampling_are_those_of_the_closed_form(sigma: float, rounds: int, epsilon: float) -> None:
    for run in (Gaussian(sigma) * rounds, Shuffled(Gaussian(sigma), 100) * rounds):
        for by, value in derivatives(run, "remove" if "remove" in run.laws else next(iter(run.laws)), epsilon).items():
            assert value == pytest.approx(float(gaussian_slope(by, sigma, rounds, epsilon)), rel=1e-9), by
    replaced = derivatives(Shuffled(Gaussian(2 * sigma), 100, relation="replace-one") * rounds, "add", epsilon)
    assert replaced["sigma"] == pytest.approx(0.5 * float(gaussian_slope("sigma", sigma, rounds, epsilon)), rel=1e-9)


@pytest.mark.parametrize("run", TWO_ROUNDS)
def test_derivatives_of_two_rounds_are_differences_in_many_digits(run: tuple[float, float, float, str]) -> None:
    sigma, rate, epsilon, direction = run
    got = derivatives(PoissonSampled(Gaussian(sigma), rate) * 2, direction, epsilon)
    got.pop("rounds")  # between two whole numbers of so few rounds nothing is defined from which to differ
    for by, value in got.items():
        assert value == pytest.approx(float(two_rounds_slope(by, *run)), rel=1e-7), by


@pytest.mark.parametrize(
    ("sampling", "batch_size", "epochs"),
    [
        ("poisson", 512, 8),
        ("poisson", 4_000, 3),
        ("allocation", 512, 8),
        ("allocation", 64, 8),
        ("fixed-size", 512, 8),
        ("fixed-size", 1_000, 4),
        ("shuffled", 512, 8),
        ("none", 4_000, 8),
    ],
)
def test_what_small_changes_do_is_what_they_are_seen_to_do(sampling: str, batch_size: int, epochs: int) -> None:
    (row,) = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=epochs, batch_sizes=[batch_size], sampling=sampling)
    found = row.sensitivities
    loader = LOADERS[sampling]
    assert found.method == "nodes"

    def cost(noise: float = 1.0, more_rounds: int = 0) -> float:
        run = loader.run(noise * row.noise_multiplier, batch_size, 4_000, row.rounds + more_rounds)
        return run.epsilon(delta=1e-5) - row.epsilon

    batches = -(-4_000 // batch_size)
    # to second order, of which these steps have a few percent
    assert found.one_percent_more_noise.epsilon == pytest.approx(cost(noise=1.01), rel=0.03)
    assert found.one_more_epoch.epsilon == pytest.approx(cost(more_rounds=batches), rel=0.5 / epochs)
    assert found.delta * 1e-7 == pytest.approx(row.run.epsilon(delta=1.01e-5) - row.epsilon, rel=0.03)
    assert found.one_percent_more_noise.total_noise == 0.01
    assert found.one_more_epoch.total_noise == -0.5 / epochs
    (longer,) = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=epochs + 1, batch_sizes=[batch_size], sampling=sampling)
    change = found.one_more_epoch.total_noise_at_budget
    assert change == pytest.approx(longer.total_noise / row.total_noise - 1, rel=0.3, abs=1e-6)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_what_more_data_do_is_what_they_are_seen_to_do(sampling: str) -> None:
    (row,) = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=8, batch_sizes=[512], sampling=sampling)
    found = row.sensitivities.one_percent_more_data
    cost = LOADERS[sampling].run(row.noise_multiplier, 512, 4_040, row.rounds).epsilon(delta=1e-5)
    assert found.epsilon == pytest.approx(cost - row.epsilon, rel=0.03)
    (larger,) = frontier(4_040, epsilon=1.0, delta=1e-5, rounds=row.rounds, batch_sizes=[512], sampling=sampling)
    assert found.total_noise_at_budget == pytest.approx(larger.total_noise / row.total_noise - 1, rel=0.03)


@pytest.mark.parametrize("sampling", ["allocation", "shuffled"])
def test_more_data_in_the_same_rounds_make_fewer_epochs(sampling: str) -> None:
    """A tenth more records: 110 batches an epoch for 100, and ten epochs for eleven, of as many rounds."""
    (row,) = frontier(100_000, epsilon=1.0, delta=1e-5, rounds=1_100, batch_sizes=[1_000], sampling=sampling)
    loader = LOADERS[sampling]
    seen = loader.run(row.noise_multiplier, 1_000, 110_000, 1_100).epsilon(delta=1e-5) - row.epsilon
    assert row.sensitivities.one_percent_more_data.epsilon == pytest.approx(seen / 10.0, rel=0.12)  # to second order
    less = loader.run(row.noise_multiplier, 1_000, 91_000, 1_092).epsilon(delta=1e-5) - row.epsilon
    assert seen < 0 < less


def test_runs_without_a_line_are_told_by_differences() -> None:
    """One round of a batch of fixed size: its integrand falls like the square of a node."""
    point = PlanPoint(
        loader=LOADERS["fixed-size"], noise_multiplier=8.0, batch_size=1000, dataset_size=4_000, rounds=1, delta=1e-5
    )
    found = sensitivities(point, point.epsilon())
    assert found.method == "differences"
    assert found.noise_multiplier < 0 < found.rounds
    assert found.delta < 0 < found.sampling_rate


@pytest.mark.parametrize("delta", [1e-280, 1e-320])
def test_among_the_smallest_doubles_more_delta_costs_less_too(delta: float) -> None:
    point = PlanPoint(
        loader=LOADERS["none"], noise_multiplier=8.0, batch_size=100, dataset_size=100, rounds=2, delta=delta
    )
    assert sensitivities(point, point.epsilon()).delta < 0


@pytest.mark.parametrize("sampling", ["allocation", "shuffled", "fixed-size", "poisson"])
def test_differences_are_about_the_derivatives(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = PlanPoint(
        loader=LOADERS[sampling], noise_multiplier=4.0, batch_size=50, dataset_size=4_000, rounds=800, delta=1e-5
    )
    epsilon = point.epsilon()
    on_nodes = sensitivities(point, epsilon)

    def refuse(*_: object, **__: object) -> None:
        raise NumericalError("No line.")

    monkeypatch.setattr("dprounds.planning.sensitivity.epsilon_slopes", refuse)
    monkeypatch.setattr("dprounds.planning.sensitivity.integrated_slopes", refuse)
    seen = sensitivities(point, epsilon)
    assert (on_nodes.method, seen.method) == ("nodes", "differences")
    # where an integral proves epsilon, the place at which it begins is one of some tens
    precision = 1e-2 if sampling == "fixed-size" else 1e-4
    assert seen.noise_multiplier == pytest.approx(on_nodes.noise_multiplier, rel=precision)
    assert seen.delta == pytest.approx(on_nodes.delta, rel=precision)
    assert seen.rounds == pytest.approx(on_nodes.rounds, rel=0.01)
    assert seen.sampling_rate == pytest.approx(on_nodes.sampling_rate, rel=0.01)


def test_more_data_without_sampling_make_larger_batches() -> None:
    whole = PlanPoint(
        loader=LOADERS["none"], noise_multiplier=8.0, batch_size=40, dataset_size=40, rounds=8, delta=1e-5
    )
    data = sensitivities(whole, whole.epsilon()).one_percent_more_data
    assert (data.epsilon, data.total_noise_at_budget) == (0.0, -0.01)

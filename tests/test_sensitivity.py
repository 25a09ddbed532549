"""What small changes of a plan do to its epsilon: derivatives against differences in many digits."""

from __future__ import annotations

import pytest

from dprounds import Gaussian, PoissonSampled, frontier
from dprounds.accounting.sensitivity import epsilon_slopes
from dprounds.planning.loaders import LOADERS
from dprounds.planning.sensitivity import PlanPoint, sensitivities
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


@pytest.mark.parametrize(("sampling", "batch_size", "epochs"), [("poisson", 512, 8), ("poisson", 4_000, 3)])
def test_what_small_changes_do_is_what_they_are_seen_to_do(sampling: str, batch_size: int, epochs: int) -> None:
    (row,) = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=epochs, batch_sizes=[batch_size], sampling=sampling)
    found = row.sensitivities
    assert found.method == "nodes"

    def cost(noise: float = 1.0, more_records: int = 0, more_rounds: int = 0) -> float:
        run = LOADERS[sampling].run(
            noise * row.noise_multiplier, batch_size, 4_000 + more_records, row.rounds + more_rounds
        )
        return run.epsilon(delta=1e-5) - row.epsilon

    batches = -(-4_000 // batch_size)
    # to second order, of which these steps have a few percent
    assert found.one_percent_more_noise.epsilon == pytest.approx(cost(noise=1.01), rel=0.03)
    assert found.one_percent_more_data.epsilon == pytest.approx(cost(more_records=40), rel=0.03)
    assert found.one_more_epoch.epsilon == pytest.approx(cost(more_rounds=batches), rel=0.5 / epochs)
    assert found.one_percent_more_noise.total_noise == 0.01
    assert found.one_more_epoch.total_noise == -0.5 / epochs
    (longer,) = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=epochs + 1, batch_sizes=[batch_size])
    (larger,) = frontier(4_040, epsilon=1.0, delta=1e-5, rounds=row.rounds, batch_sizes=[batch_size])
    change = found.one_more_epoch.total_noise_at_budget
    assert change == pytest.approx(longer.total_noise / row.total_noise - 1, rel=0.3, abs=1e-6)
    change = found.one_percent_more_data.total_noise_at_budget
    assert change == pytest.approx(larger.total_noise / row.total_noise - 1, rel=0.03)


def test_other_loaders_and_short_runs_are_told_by_differences() -> None:
    """Of the closed form of shuffled batches: epsilon of epochs at a noise is that of one at the noise over a root."""
    point = PlanPoint(
        loader=LOADERS["shuffled"], noise_multiplier=20.0, batch_size=256, dataset_size=4_000, rounds=160, delta=1e-5
    )
    found = sensitivities(point, point.epsilon())
    assert found.method == "differences"
    assert found.sampling_rate == 0.0  # which shuffling is not credited with
    # epsilon depends on the epochs over the square of the noise alone
    assert found.rounds * 160 == pytest.approx(-0.5 * 20.0 * found.noise_multiplier, rel=0.01)
    for name in ("allocation", "fixed-size"):
        other = PlanPoint(
            loader=LOADERS[name], noise_multiplier=8.0, batch_size=1000, dataset_size=4_000, rounds=8, delta=1e-5
        )
        found = sensitivities(other, other.epsilon())
        assert found.method == "differences"
        assert found.noise_multiplier < 0 < found.rounds
        assert found.delta < 0 < found.sampling_rate
    whole = PlanPoint(
        loader=LOADERS["none"], noise_multiplier=8.0, batch_size=40, dataset_size=40, rounds=8, delta=1e-5
    )
    data = sensitivities(whole, whole.epsilon()).one_percent_more_data
    assert (data.epsilon, data.total_noise_at_budget) == (0.0, -0.01)

